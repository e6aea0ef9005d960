-- name: register
insert into sendonce_workers (name, version, concurrency, is_listening, serves, started_at, seen_at)
values (:name, :version, :concurrency, :is_listening, :serves, :now, :now)
returning id;

-- name: served
select serves, max(stopped_at is null and seen_at > :now - :alive)
  from sendonce_workers
 where id <> :worker_id and serves is not null and seen_at > :now - :lately
 group by serves;

-- name: eldest_worker
select id
  from sendonce_workers
 where is_listening = 1 and stopped_at is null and seen_at > :now - :alive
 order by id
 limit 1;

-- name: beat
update sendonce_workers
   set seen_at = :now, progressed_at = case when :progressed then :now else progressed_at end, stopped_at = null,
       claimed_at = coalesce(:claimed_at, claimed_at), claim = coalesce(:claim, claim)
 where id = :worker_id;

-- name: newest_claim
-- That any worker has seen, of those that are still there.
select json_extract(w.claim, '$[0]'), json_extract(w.claim, '$[1]'), json_extract(w.claim, '$[2]'),
       json_extract(w.claim, '$[3]'), w.claimed_at
  from sendonce_workers w
 where exists (
   select 1 from sendonce_attempts a
    where a.delivery_id = json_extract(w.claim, '$[0]') and a.attempt = json_extract(w.claim, '$[1]')
      and a.lease_id = json_extract(w.claim, '$[2]'))
 order by w.claimed_at desc, json_extract(w.claim, '$[2]')
 limit 1;

-- name: leave
update sendonce_workers set seen_at = :now, stopped_at = :now where id = :worker_id;

-- name: renew
update sendonce_leases
   set expires_at = :now + :hold
 where id in (select value from json_each(:lease_ids)) and expires_at > :now
returning id;

-- name: release
-- A lease under which something is still being sent stays: without it nobody would notice that its worker died.
delete from sendonce_leases
 where id in (select value from json_each(:lease_ids))
   and not exists (
     select 1
       from json_each(sendonce_leases.deliveries) w
      cross join sendonce_attempts a on a.delivery_id = w.value
      where a.lease_id = sendonce_leases.id and a.status = 'Leased');

-- name: expired_leases
select id, deliveries from sendonce_leases where expires_at <= :now order by expires_at, id limit :limit;

-- name: expired_claims
-- The same columns as a claim, without what only a sender needs.
select d.id, a.attempt, d.event_id, e.tenant, e.type, e.key, d.destination, coalesce(s.destination, d.destination),
       '', null, null, null, null, e.created_at, d.subscription_id, s.state, s.policy, d.if_unsure, d.attempt_count,
       d.deferred_count, d.corrections, d.generation, d.in_doubt, d.proven_at is not null, d.notification_id,
       (d.expires_at - :now) / 1e6, (:now - d.put_off_since) / 1e6, s.ask, a.lease_id
  from json_each(:delivery_ids) w
 cross join sendonce_attempts a on a.delivery_id = w.value
 cross join sendonce_deliveries d not indexed on d.id = a.delivery_id
 cross join sendonce_events e not indexed on e.id = d.event_id
  left join sendonce_subscriptions s on s.id = d.subscription_id
 where a.lease_id in (select value from json_each(:lease_ids)) and a.status = 'Leased'
 order by d.id;

-- name: is_idle
select not exists (
         select 1 from sendonce_deliveries
          where next_attempt_at <= :now and not exists (select 1 from sendonce_stops where scope = 'all'))
   and not exists (
         select 1
           from sendonce_leases l
          cross join json_each(l.deliveries) w
          cross join sendonce_attempts a on a.delivery_id = w.value
          where a.lease_id = l.id and a.status = 'Leased');

-- name: roll_up_counters
-- Which are to be: all at once, where one name has several.
select 0, max(id) from sendonce_counters having count(*) > count(distinct name);

-- name: add_counter_sums
insert into sendonce_counters (created_at, amount, name)
select max(created_at), sum(amount), name from sendonce_counters where id <= :last group by name order by name;

-- name: drop_counters
delete from sendonce_counters where id <= :last;
