-- name: events_to
-- A bounded step up the deliveries: the events with one to this destination, and the last id looked at. Every event has
-- its first generation, and only one.
select max(w.id), json_group_array(w.event_id) filter (where w.destination_hash = :destination_hash and w.generation = 0)
  from (
    select id, event_id, destination_hash, generation
      from sendonce_deliveries not indexed
     where id > :after
     order by id
     limit :limit) w;

-- name: events_about
select max(w.id), json_group_array(w.id) filter (where w.subject = :subject)
  from (select id, subject from sendonce_events where id > :after order by id limit :limit) w;

-- name: erasure_facts
-- Without a destination all deliveries are meant; with one, those too that it was corrected to or from. Who has content
-- of its own does not share the payload, but is sent the headers; who was given up and may be requeued still needs both.
with recursive same(event_id, destination_hash) as (
  select w.value, :destination_hash from json_each(:ids) w
   union
  select s.event_id, o.destination_hash
    from same s
   cross join sendonce_deliveries d on d.event_id = s.event_id and d.destination_hash = s.destination_hash
   cross join sendonce_corrections c on c.delivery_id = d.id
   cross join sendonce_deliveries o not indexed on o.id = c.replaces
   union
  select s.event_id, o.destination_hash
    from same s
   cross join sendonce_deliveries d on d.event_id = s.event_id and d.destination_hash = s.destination_hash
   cross join sendonce_corrections c on c.replaces = d.id
   cross join sendonce_deliveries o not indexed on o.id = c.delivery_id
),
d as materialized (
  select t.id, t.event_id, t.status, t.has_content, t.destination_hash,
         :destination_hash is null or exists (
           select 1 from same s where s.event_id = t.event_id and s.destination_hash = t.destination_hash) as is_meant,
         t.status not in ('Completed', 'DeadLettered') or exists (
           select 1 from sendonce_dead_letters l where l.delivery_id = t.id and l.closed_at is null) as is_needed
    from json_each(:ids) w
   cross join sendonce_deliveries t on t.event_id = w.value
)
select e.id, e.payload is not null or e.headers is not null,
       json_group_array(d.id) filter (where d.is_meant),
       json_group_array(d.id) filter (where d.is_meant and d.status in ('Pending', 'PendingRetry')),
       coalesce(max(d.is_meant and d.status = 'InProgress'), 0),
       coalesce(max(not d.is_meant and (not d.has_content or (e.headers is not null and d.is_needed))), 0),
       coalesce(max(not d.is_meant and (not d.has_content or e.headers is not null) and d.is_needed), 0),
       (select count(*) from sendonce_contents c
         where c.event_id = e.id and c.content is not null
           and (:destination_hash is null or exists (
             select 1 from same s where s.event_id = c.event_id and s.destination_hash = c.destination_hash)))
  from json_each(:ids) w
 cross join sendonce_events e on e.id = w.value
  left join d on d.event_id = e.id
 where :tenant is null or e.tenant = :tenant
 group by e.id
 order by e.id;

-- name: erase_contents
update sendonce_contents
   set content = null
 where content is not null
   and (event_id, destination_hash) in (
     select d.event_id, d.destination_hash
       from json_each(:ids) w
      cross join sendonce_deliveries d not indexed on d.id = w.value);

-- name: erase_events
update sendonce_events
   set payload = null, headers = null, subject = case when :with_subject then null else subject end,
       content_gone_at = coalesce(content_gone_at, :now)
 where id = :each_id
   and (payload is not null or headers is not null or content_gone_at is null
        or (:with_subject and subject is not null));

-- name: erase_attempts
update sendonce_attempts
   set error_message = null, response = case when response = :found then response end
 where delivery_id in (select value from json_each(:ids)) and finished_at is not null
   and (error_message is not null or response <> :found);

-- name: erase_dead_letters
-- Nobody can send these again, so nobody has to decide about them.
update sendonce_dead_letters
   set error_message = null, closed_at = coalesce(closed_at, :now), closed_as = coalesce(closed_as, 'erased'),
       closed_by = case when closed_as is null then :operator else closed_by end
 where delivery_id in (select value from json_each(:ids)) and (closed_at is null or error_message is not null);

-- name: erase_findings
update sendonce_findings
   set details = null
 where delivery_id in (select value from json_each(:ids)) and details is not null and kind <> :attested;
