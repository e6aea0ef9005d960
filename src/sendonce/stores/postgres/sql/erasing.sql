-- name: events_to
-- A bounded step up the deliveries: the events with one to this destination, and the last id looked at. Every event has
-- its first generation, and only one.
select max(w.id), array_agg(w.event_id order by w.event_id) filter (
         where w.destination_hash = :destination_hash::uuid and w.generation = 0)
  from (
    select id, event_id, destination_hash, generation from sendonce_deliveries where id > :after order by id limit :limit) w;

-- name: events_about
select max(w.id), array_agg(w.id order by w.id) filter (where w.subject = :subject::text)
  from (select id, subject from sendonce_events where id > :after order by id limit :limit) w;

-- name: erasure_facts
-- Without a destination all deliveries are meant. Who has content of its own does not share the payload; who was given up
-- and may be requeued still needs it.
select e.id, e.payload is not null or e.headers is not null, d.meant, d.open, d.is_shared, d.is_needed
  from sendonce_events e
 cross join lateral (
   select array_agg(t.id order by t.id) filter (where m.is_meant) as meant,
          array_agg(t.id order by t.id) filter (where m.is_meant and m.is_open) as open,
          coalesce(bool_or(not m.is_meant and not t.has_content), false) as is_shared,
          coalesce(bool_or(not m.is_meant and not t.has_content and (m.is_open or l.is_open)), false) as is_needed
     from sendonce_deliveries t
     left join lateral (
       select z.closed_at is null as is_open from sendonce_dead_letters z
        where z.delivery_id = t.id and t.status = 'DeadLettered' offset 0) l on true
    cross join lateral (
      select :destination_hash::uuid is null or t.destination_hash = :destination_hash::uuid as is_meant,
             t.status not in ('Completed', 'DeadLettered') as is_open) m
    where t.event_id = e.id) d
 where e.id = any(:ids::bigint[])
   and (:tenant::text is null or e.tenant = :tenant::text)
 order by e.id;

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
