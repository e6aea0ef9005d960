-- name: events_to
-- A bounded step up the deliveries: the events with one to this destination, and the last id looked at. Every event has
-- its first generation, and only one.
select max(w.id), coalesce(array_agg(w.event_id order by w.event_id) filter (
         where w.destination_hash = :destination_hash::uuid and w.generation = 0), array[]::bigint[])
  from (
    select id, event_id, destination_hash, generation from sendonce_deliveries where id > :after order by id limit :limit) w;

-- name: events_about
select max(w.id), coalesce(array_agg(w.id order by w.id) filter (where w.subject = :subject::text), array[]::bigint[])
  from (select id, subject from sendonce_events where id > :after order by id limit :limit) w;

-- name: erasure_facts
-- Without a destination all deliveries are meant; with one, those too that it was corrected to or from. Who has content
-- of its own does not share the payload, but is sent the headers; who was given up and may be requeued still needs both.
with recursive same(event_id, destination_hash) as (
  select w.id, :destination_hash::uuid from unnest(:ids::bigint[]) as w(id)
   union
  select s.event_id, o.destination_hash
    from same s
   cross join lateral (
     select t.id from sendonce_deliveries t
      where t.event_id = s.event_id and t.destination_hash = s.destination_hash offset 0) d
   cross join lateral (
     select c.replaces as id from sendonce_corrections c where c.delivery_id = d.id
      union all
     select c.delivery_id from sendonce_corrections c where c.replaces = d.id) c
   cross join lateral (select t.destination_hash from sendonce_deliveries t where t.id = c.id offset 0) o
)
select e.id, e.payload is not null or e.headers is not null, coalesce(d.meant, array[]::bigint[]), coalesce(d.waiting, array[]::bigint[]), d.is_busy, d.is_shared, d.is_needed,
       (select count(*) from sendonce_contents c
         where c.event_id = e.id and c.content is not null
           and (:destination_hash::uuid is null or c.destination_hash = any(h.hashes)))
  from sendonce_events e
 cross join lateral (select array_agg(s.destination_hash) as hashes from same s where s.event_id = e.id) h
 cross join lateral (
   select array_agg(t.id order by t.id) filter (where m.is_meant) as meant,
          array_agg(t.id order by t.id) filter (where m.is_meant and t.status in ('Pending', 'PendingRetry')) as waiting,
          coalesce(bool_or(m.is_meant and t.status = 'InProgress'), false) as is_busy,
          coalesce(bool_or(not m.is_meant and (not t.has_content or (e.headers is not null and n.is_needed))), false)
            as is_shared,
          coalesce(bool_or(not m.is_meant and (not t.has_content or e.headers is not null) and n.is_needed), false)
            as is_needed
     from sendonce_deliveries t
     left join lateral (
       select z.closed_at is null as is_open from sendonce_dead_letters z
        where z.delivery_id = t.id and t.status = 'DeadLettered' offset 0) l on true
    cross join lateral (
      select :destination_hash::uuid is null or t.destination_hash = any(h.hashes) as is_meant) m
    cross join lateral (
      select t.status not in ('Completed', 'DeadLettered') or coalesce(l.is_open, false) as is_needed) n
    where t.event_id = e.id) d
 where e.id = any(:ids::bigint[])
   and (:tenant::text is null or e.tenant = :tenant::text)
 order by e.id;

-- name: erase_contents
update sendonce_contents c
   set content = null
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (
   select t.event_id, t.destination_hash from sendonce_deliveries t where t.id = w.id offset 0) d
 where c.event_id = d.event_id and c.destination_hash = d.destination_hash and c.content is not null;

-- name: erase_events
update sendonce_events
   set payload = null, headers = null, subject = case when :with_subject::boolean then null else subject end,
       content_gone_at = coalesce(content_gone_at, now())
 where id = any(:ids::bigint[])
   and (payload is not null or headers is not null or content_gone_at is null
        or (:with_subject::boolean and subject is not null));

-- name: erase_attempts
update sendonce_attempts
   set error_message = null, response = case when response = :found then response end
 where delivery_id = any(:ids::bigint[]) and finished_at is not null
   and (error_message is not null or response <> :found);

-- name: erase_dead_letters
-- Nobody can send these again, so nobody has to decide about them.
update sendonce_dead_letters
   set error_message = null, closed_at = coalesce(closed_at, now()), closed_as = coalesce(closed_as, 'erased'),
       closed_by = case when closed_as is null then :operator::text else closed_by end
 where delivery_id = any(:ids::bigint[]) and (closed_at is null or error_message is not null);

-- name: erase_findings
update sendonce_findings
   set details = null
 where delivery_id = any(:ids::bigint[]) and details is not null and kind <> :attested;
