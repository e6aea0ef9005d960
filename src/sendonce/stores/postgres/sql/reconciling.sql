-- name: doubt
-- A bounded step up the primary key: what is open from there on may have been sent.
with w as materialized (
  select id, status, in_doubt from sendonce_deliveries where id > :after order by id limit :limit
),
d as (
  update sendonce_deliveries t
     set in_doubt = true, updated_at = now(),
         next_attempt_at = case when t.next_attempt_at is not null
                                then greatest(t.next_attempt_at, now() + :wait::float8 * interval '1 second') end
   where t.id = any(array(
           select w.id from w where not w.in_doubt and w.status not in ('Completed', 'DeadLettered') order by w.id))
     and t.status not in ('Completed', 'DeadLettered')
  returning t.id
)
select (select count(*) from d), (select max(w.id) from w);

-- name: letters_to_attest
select id, delivery_id, closed_as from sendonce_dead_letters
 where id = any(:dead_letter_ids::bigint[])
 order by id;

-- name: attest
-- The next generation, born completed: what has ended is frozen, so a person's word cannot be written into it.
insert into sendonce_deliveries
  (event_id, subscription_id, destination, destination_hash, generation, corrections, has_content, if_unsure,
   notification_id, status, next_attempt_at, notified_at)
select d.event_id, d.subscription_id, d.destination, d.destination_hash, d.generation + 1, d.corrections, d.has_content,
       d.if_unsure, coalesce(:notification_id::text, d.notification_id), 'Completed', null, now()
  from sendonce_deliveries d
 where d.id = :delivery_id
returning id;

-- name: close_attested
update sendonce_dead_letters
   set closed_at = now(), closed_as = 'attested', closed_by = :operator
 where id = any(array(
         select id from sendonce_dead_letters where id = any(:dead_letter_ids::bigint[]) order by id for update))
   and closed_at is null
returning id;

-- name: add_finding
-- The same found twice is one finding.
insert into sendonce_findings (delivery_id, kind, notification_id, details)
select :delivery_id, :kind::text, :notification_id::text, :details::text
 where not exists (
   select 1 from sendonce_findings
    where delivery_id = :delivery_id and kind = :kind::text
      and notification_id is not distinct from :notification_id::text)
returning id;

-- name: completed_window
-- A bounded step up the primary key, and which of these were notified since then and have no newer generation.
select w.id,
       w.status = 'Completed' and w.notified_at >= :since::timestamptz and not exists (
         select 1 from sendonce_deliveries n
          where n.event_id = w.event_id and n.destination_hash = w.destination_hash and n.generation = w.generation + 1
          offset 0)
  from (
    select d.id, d.status, d.notified_at, d.event_id, d.destination_hash, d.generation
      from sendonce_deliveries d
     where d.id > :after
     order by d.id
     limit :window) w
 order by w.id;

-- name: delivery_from
select id, created_at from sendonce_deliveries where id >= :id order by id limit 1;
