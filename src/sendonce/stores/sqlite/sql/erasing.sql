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
-- Without a destination all deliveries are meant. Who has content of its own does not share the payload; who was given up
-- and may be requeued still needs it.
select e.id, e.payload is not null or e.headers is not null,
       json_group_array(d.id) filter (where d.is_meant),
       json_group_array(d.id) filter (where d.is_meant and d.is_open),
       coalesce(max(not d.is_meant and not d.has_content), 0),
       coalesce(max(not d.is_meant and not d.has_content and (d.is_open or d.is_undecided)), 0)
  from json_each(:ids) w
 cross join sendonce_events e on e.id = w.value
  left join (
    select t.id, t.event_id, t.has_content, :destination_hash is null or t.destination_hash = :destination_hash as is_meant,
           t.status not in ('Completed', 'DeadLettered') as is_open,
           exists (
             select 1 from sendonce_dead_letters z where z.delivery_id = t.id and z.closed_at is null) as is_undecided
      from sendonce_deliveries t) d on d.event_id = e.id
 where :tenant is null or e.tenant = :tenant
 group by e.id
 order by e.id;

-- name: erase_events
update sendonce_events
   set payload = null, headers = null, subject = case when :with_subject then null else subject end,
       content_gone_at = coalesce(content_gone_at, :now)
 where id = :id
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
