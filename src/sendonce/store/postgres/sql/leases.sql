-- name: register
insert into sendonce_workers (name, version, concurrency, is_listening, serves)
values (:name, :version, :concurrency, :is_listening, :serves) returning id;

-- name: served
select serves, bool_or(stopped_at is null and seen_at > now() - :alive::float8 * interval '1 second')
  from sendonce_workers
 where id <> :worker_id and serves is not null and seen_at > now() - :lately::float8 * interval '1 second'
 group by serves;

-- name: eldest_worker
select id
  from sendonce_workers
 where is_listening and stopped_at is null and seen_at > now() - :alive::float8 * interval '1 second'
 order by id
 limit 1;

-- name: beat
-- And the newest claim that any worker has seen, of those that are still there.
with u as (
  update sendonce_workers
     set seen_at = now(), progressed_at = case when :progressed then now() else progressed_at end, stopped_at = null,
         claimed_at = coalesce(:claimed_at::timestamptz, claimed_at), claim = coalesce(:claim::bigint[], claim)
   where id = :worker_id
  returning claim, claimed_at
)
select w.claim[1], w.claim[2]::int, w.claim[3], w.claim[4], w.claimed_at
  from (select u.claim, u.claimed_at from u
        union all
        select n.claim, n.claimed_at from sendonce_workers n where n.id <> :worker_id) w
 where exists (
   select 1 from sendonce_attempts a
    where a.delivery_id = w.claim[1] and a.attempt = w.claim[2] and a.lease_id = w.claim[3])
 order by w.claimed_at desc, w.claim[3]
 limit 1;

-- name: newest_claim
-- It came with the beat.

-- name: leave
update sendonce_workers set seen_at = now(), stopped_at = now() where id = :worker_id;

-- name: renew
-- In the order of the ids, as every statement that locks several leases.
update sendonce_leases
   set expires_at = now() + :hold::float8 * interval '1 second'
 where id = any(array(
   select id from sendonce_leases where id = any(:lease_ids::bigint[]) and expires_at > now() order by id for update))
returning id;

-- name: release
-- A lease under which something is still being sent stays: without it nobody would notice that its worker died.
delete from sendonce_leases l
 where l.id = any(array(
   select id from sendonce_leases where id = any(:lease_ids::bigint[]) order by id for update))
   and not exists (
     select 1 from sendonce_attempts a
      where a.delivery_id = any(l.deliveries) and a.lease_id = l.id and a.status is not distinct from 'Leased' offset 0);

-- name: expired_leases
select id, deliveries from sendonce_leases where expires_at <= now() order by expires_at, id limit :limit for update skip locked;

-- name: expired_claims
-- The same columns as a claim, without what only a sender needs.
select d.id, a.attempt, d.event_id, e.tenant, e.type, e.key, d.destination, coalesce(s.destination, d.destination),
       '', null, null, null, null, e.created_at, d.subscription_id, s.state, s.policy, d.if_unsure, d.attempt_count,
       d.deferred_count, d.corrections, d.generation, d.in_doubt, d.proven_at is not null, d.notification_id,
       extract(epoch from d.expires_at - now())::float8, extract(epoch from now() - d.put_off_since)::float8,
       s.ask, a.lease_id
  from unnest(:delivery_ids::bigint[]) as w(id)
 cross join lateral (
   select t.attempt, t.lease_id from sendonce_attempts t
    where t.delivery_id = w.id and t.lease_id = any(:lease_ids::bigint[]) and t.status = 'Leased' offset 0) a
 cross join lateral (select t.* from sendonce_deliveries t where t.id = w.id offset 0) d
 cross join lateral (
   select t.tenant, t.type, t.key, t.created_at from sendonce_events t where t.id = d.event_id offset 0) e
  left join sendonce_subscriptions s on s.id = d.subscription_id
 order by d.id;

-- name: is_idle
-- The least due time comes from its index; "exists" would have the planner scan a table that has much due at its end.
select ((select min(next_attempt_at) from sendonce_deliveries where next_attempt_at <= now()) is null
        or exists (select 1 from sendonce_stops where scope = 'all'))
   and not exists (
         select 1
           from sendonce_leases l
          cross join lateral unnest(l.deliveries) as w(id)
           join sendonce_attempts a on a.delivery_id = w.id and a.lease_id = l.id and a.status = 'Leased');

-- name: roll_up_counters
with gone as (
  delete from sendonce_counters
   where id = any(array(select id from sendonce_counters order by id limit :limit for update skip locked))
  returning name, amount, created_at
),
sums as (
  insert into sendonce_counters (name, amount, created_at)
  select name, sum(amount), max(created_at) from gone group by name
)
select count(*), null from gone;

-- name: add_counter_sums
-- Done as they were rolled up.

-- name: drop_counters
-- And they are gone.
