-- name: policies_in_step
-- The subscriptions with a policy of their own, of what is open in this step.
select s.id, s.policy
  from sendonce_subscriptions s
 where s.policy is not null and s.id = any(array(
         select d.subscription_id
           from (select id, subscription_id, status from sendonce_deliveries
                  where id > :after and id <= :last::bigint order by id limit :limit) d
          where d.status not in ('Completed', 'DeadLettered')));

-- name: doubt
-- A bounded step up the primary key: what is open from there on may have been sent, and is left alone for a while,
-- or for longer where its subscription says so (waits: seconds by id). What waits in a room leaves it: a room is asked
-- about at once. Whoever opened a generation had what was sent before sent again: that is not said of what it may have
-- sent itself. What a person puts in doubt (no loss) is not a loss's alone.
with w as materialized (
  select id, status from sendonce_deliveries where id > :after and id <= :last::bigint order by id limit :limit
)
update sendonce_deliveries t
   set in_doubt = true, updated_at = now(),
       if_unsure = case when t.generation > 0
                        then (select f.if_unsure from sendonce_deliveries f
                               where f.event_id = t.event_id and f.destination_hash = t.destination_hash
                                 and f.generation = 0)
                        else t.if_unsure end,
       doubted_by = case when not t.in_doubt or :loss_id::bigint is null then :loss_id::bigint else t.doubted_by end,
       (not_before, next_attempt_at) = (
         select n.at,
                case when t.status <> 'InProgress'
                      and (t.parked_on is null or split_part(t.parked_on, ':', 1) not in ('stop', 'subscription'))
                     then greatest(t.next_attempt_at, n.at) end
           from (select greatest(t.not_before, now() + interval '1 second' * greatest(
                          :wait::float8, (:waits::jsonb ->> t.subscription_id::text)::float8)) as at) n),
       parked_on = case when split_part(t.parked_on, ':', 1) in ('stop', 'subscription') then t.parked_on end
 where t.id = any(array(select w.id from w where w.status not in ('Completed', 'DeadLettered') order by w.id))
   and t.status not in ('Completed', 'DeadLettered') and t.proven_at is null
returning t.id;

-- name: last_of_step
select max(d.id)
  from (select id from sendonce_deliveries where id > :after and id <= :upto::bigint order by id limit :limit) d;

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
  from unnest(:delivery_ids::bigint[]) with ordinality as w(id, place)
  join sendonce_deliveries d on d.id = w.id
 order by w.place
returning id;

-- name: close_attested
update sendonce_dead_letters
   set closed_at = now(), closed_as = 'attested', closed_by = :operator
 where id = any(array(
         select id from sendonce_dead_letters where id = any(:dead_letter_ids::bigint[]) order by id for update))
   and closed_at is null
returning id;

-- name: add_findings
-- The same found twice of a delivery is one finding.
insert into sendonce_findings (delivery_id, kind, notification_id, details)
select w.id, :kind::text, :notification_id::text, :details::text
  from unnest(:delivery_ids::bigint[]) as w(id)
 where not exists (
   select 1 from sendonce_findings f
    where f.delivery_id = w.id and f.kind = :kind::text
      and f.notification_id is not distinct from :notification_id::text
    offset 0)
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

-- name: left_alone
select count(*), max(w.until)
  from (
    select coalesce(d.not_before, d.next_attempt_at) as until
      from sendonce_deliveries d
     where d.in_doubt and d.status in ('Pending', 'PendingRetry') and d.proven_at is null
       and coalesce(d.not_before, d.next_attempt_at) > now()
     order by d.id
     limit :cap) w;
