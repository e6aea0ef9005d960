-- part: of_event
(:type is null or e.type = :type)
and (:family is null or substr(e.type, 1, length(:family)) = :family)
and (:tenant is null or e.tenant = :tenant)

-- name: namespace
select value from sendonce_meta where name = 'namespace';

-- name: status_counts
-- Each count walks its own index and stops at the cap. Those that wait for a retry are mostly due later than now.
select :now,
       (select cast(value as integer) from sendonce_meta where name = 'schema_version'),
       (select count(*) from (
         select 1 from sendonce_deliveries where next_attempt_at <= :now limit :cap)),
       (select min(next_attempt_at) from sendonce_deliveries where next_attempt_at <= :now),
       (select count(*) from (
         select 1 from sendonce_deliveries where next_attempt_at > :now limit :cap)),
       (select count(*) from (
         select status from (select status from sendonce_deliveries where next_attempt_at > :now limit :cap)
         union all
         select status from (select status from sendonce_deliveries where next_attempt_at <= :now limit :cap))
         where status = 'PendingRetry'),
       (select count(*)
          from sendonce_leases l
         cross join json_each(l.deliveries) w
         cross join sendonce_attempts a on a.delivery_id = w.value
         where a.lease_id = l.id and a.status = 'Leased'),
       (select count(*) from (
         select status
           from sendonce_deliveries indexed by sendonce_deliveries_in_doubt
          where in_doubt = 1
          order by id desc
          limit :cap)
         where status not in ('Completed', 'DeadLettered')),
       (select count(*) from (
         select 1
           from sendonce_dead_letters indexed by sendonce_dead_letters_waiting
          where closed_at is null and reason <> 'cancelled'
          limit :cap)),
       (select coalesce(sum(amount), 0) from sendonce_counters where name = 'completed');

-- name: live_workers
select id, name, version, concurrency, started_at, seen_at, progressed_at, stopped_at
  from sendonce_workers
 where stopped_at is null and seen_at > :now - :alive
 order by id
 limit 1000;

-- name: stops
select scope, value, operator, reason, created_at from sendonce_stops order by scope, value limit 1000;

-- name: event_window
-- A bounded step down the primary key, whatever the planner thinks of how few rows there are.
select id from sendonce_events not indexed where id < :before order by id desc limit :window;

-- name: event_at
select created_at from sendonce_events where id = :id;

-- name: event_rows
select e.id, e.tenant, e.type, e.key, e.subject, e.version, e.headers, e.created_at, e.content_gone_at, e.history_gone_at
  from json_each(:ids) w
 cross join sendonce_events e not indexed on e.id = w.value
 where :(of_event)
   and (:since is null or e.created_at >= :since)
   and (:until is null or e.created_at < :until)
   and (coalesce(:status, :destination) is null or exists (
     select 1 from sendonce_deliveries d
      where d.event_id = e.id
        and (:status is null or d.status = :status)
        and (:destination is null or d.destination = :destination)))
 order by e.id desc
 limit :limit;

-- name: event_payload
select payload from sendonce_events where id = :event_id;

-- name: event_ids_of_key
-- "+" keeps the planner from walking all events in the order that is asked for.
select id from (select id from sendonce_events where key = :key limit 20000) order by +id desc limit 100;

-- name: delivery_window
select id from sendonce_deliveries not indexed where id < :before order by id desc limit :window;

-- name: delivery_at
select created_at from sendonce_deliveries where id = :id;

-- name: due_window
select id
  from sendonce_deliveries indexed by sendonce_deliveries_due
 where next_attempt_at is not null
 order by next_attempt_at, id
 limit :window;

-- name: parked_window
select id
  from sendonce_deliveries indexed by sendonce_deliveries_parked
 where parked_on is not null
 order by parked_on, id
 limit :window;

-- name: in_flight_ids
select a.delivery_id
  from sendonce_leases l
 cross join json_each(l.deliveries) w
 cross join sendonce_attempts a on a.delivery_id = w.value
 where a.lease_id = l.id and a.status = 'Leased'
 order by a.delivery_id desc
 limit :window;

-- name: dead_letter_window
select delivery_id from sendonce_dead_letters where delivery_id < :before order by delivery_id desc limit :window;

-- name: delivery_ids_of_event
select id from sendonce_deliveries where event_id = :event_id limit :window;

-- name: delivery_ids_among
-- Those of these that belong to the event.
select d.id
  from json_each(:ids) w
 cross join sendonce_deliveries d not indexed on d.id = w.value
 where d.event_id = :event_id
 order by d.id desc
 limit :limit;

-- name: generation_ids
select n.id
  from sendonce_deliveries d not indexed
 cross join sendonce_deliveries n on n.event_id = d.event_id and n.destination_hash = d.destination_hash
 where d.id = :delivery_id
 order by n.generation desc
 limit :limit;

-- name: delivery_rows
select d.id, d.event_id, e.tenant, e.type, e.key, d.destination, d.subscription_id, d.generation, d.corrections, d.status,
       d.attempt_count, d.deferred_count, d.in_doubt, d.next_attempt_at, d.not_before, d.parked_on, d.proven_at, d.final_error_code,
       d.notification_id, d.notified_at, d.expires_at, d.if_unsure, d.created_at, d.updated_at
  from json_each(:ids) w
 cross join sendonce_deliveries d not indexed on d.id = w.value
 cross join sendonce_events e not indexed on e.id = d.event_id
 where :(wanted)
   and (:status is null or d.status = :status)
   and (:since is null or d.created_at >= :since)
   and (:until is null or d.created_at < :until)
   and (:reason is null or exists (
     select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.reason = :reason))
 order by d.id desc
 limit :limit;

-- name: delivery_ids_of_token
-- The token is computed, never stored.
select d.id
  from json_each(:ids) w
 cross join sendonce_deliveries d not indexed on d.id = w.value
 cross join sendonce_events e not indexed on e.id = d.event_id
 where provider_token(:namespace, e.tenant, e.type, e.key, d.destination, d.corrections) = :token
 order by d.id desc
 limit 1;

-- name: attempts_of
select delivery_id, attempt, status, lease_id, outcome, error_code, error_message, notification_id, response, created_at,
       finished_at
  from sendonce_attempts
 where delivery_id = :delivery_id and attempt < :before
 order by attempt desc
 limit :limit;

-- name: lease_of
select l.id, l.worker_id, w.name, l.created_at, l.expires_at
  from sendonce_attempts a
 cross join sendonce_leases l on l.id = a.lease_id
  left join sendonce_workers w on w.id = l.worker_id
 where a.delivery_id = :delivery_id and a.status = 'Leased'
 order by a.attempt desc
 limit 1;

-- name: findings_of
select id, delivery_id, attempt, kind, outcome, error_code, notification_id, details, created_at
  from sendonce_findings
 where delivery_id = :delivery_id and id < :before
 order by id desc
 limit :limit;

-- name: open_dead_letter_window
select id
  from sendonce_dead_letters indexed by sendonce_dead_letters_open
 where closed_at is null and (created_at, id) < (:before_at, :before_id)
 order by created_at desc, id desc
 limit :window;

-- name: waiting_dead_letter_window
-- The same without what a person has cancelled.
select id
  from sendonce_dead_letters indexed by sendonce_dead_letters_waiting
 where closed_at is null and reason <> 'cancelled' and (created_at, id) < (:before_at, :before_id)
 order by created_at desc, id desc
 limit :window;

-- name: dead_letter_at
-- Of this one, or of the one before it when it is gone.
select created_at from sendonce_dead_letters not indexed where id <= :id order by id desc limit 1;

-- name: dead_letter_id_of
select id from sendonce_dead_letters where delivery_id = :delivery_id;

-- name: dead_letter_rows
select z.id, z.delivery_id, d.event_id, e.tenant, e.type, e.key, d.destination, d.generation,
       d.in_doubt or :(lost_until) is not null, z.reason,
       z.error_code, z.error_message, z.created_at, z.closed_at, z.closed_as, z.closed_by
  from json_each(:ids) w
 cross join sendonce_dead_letters z not indexed on z.id = w.value
 cross join sendonce_deliveries d not indexed on d.id = z.delivery_id
 cross join sendonce_events e not indexed on e.id = d.event_id
 where (:reason is null or z.reason = :reason)
   and :(wanted)
   and (:since is null or z.created_at >= :since)
   and (:until is null or z.created_at < :until)
 order by z.created_at desc, z.id desc
 limit :limit;

-- name: given_up
-- How many dead letters have the same reason, error code, type and destination, and when they were given up.
select z.reason, z.error_code, e.type, coalesce(s.destination, d.destination), count(*), min(z.created_at), max(z.created_at)
  from json_each(:ids) w
 cross join sendonce_dead_letters z not indexed on z.id = w.value
 cross join sendonce_deliveries d not indexed on d.id = z.delivery_id
 cross join sendonce_events e not indexed on e.id = d.event_id
  left join sendonce_subscriptions s on s.id = d.subscription_id
 where (:reason is null or z.reason = :reason)
   and :(wanted)
   and (:since is null or z.created_at >= :since)
   and (:until is null or z.created_at < :until)
 group by 1, 2, 3, 4
 order by 1, 2, 3, 4;

-- name: subscription_window
select id from sendonce_subscriptions not indexed where id < :before order by id desc limit :window;

-- name: subscription_at
select created_at from sendonce_subscriptions where id = :id;

-- name: subscription_rows
select s.id, s.tenant,
       (select json_group_array(t.pattern)
          from (select pattern from sendonce_subscription_types where subscription_id = s.id order by pattern) t),
       s.destination, s.state, s.state_reason, s.policy, s.rate, s.description, s.created_at, s.ask
  from sendonce_subscriptions s not indexed
 where s.id in (select value from json_each(:ids))
   and (:tenant is null or s.tenant = :tenant)
   and (:is_removed is null or (s.state = 'removed') = :is_removed)
 order by s.id desc
 limit :limit;

-- name: held_subscription_rooms
-- One step down the index for each, however many wait there.
with recursive r(name) as (
  select min(parked_on) from sendonce_deliveries indexed by sendonce_deliveries_parked where parked_on > 'subscription:'
  union all
  select (select min(d.parked_on) from sendonce_deliveries d indexed by sendonce_deliveries_parked
           where d.parked_on > r.name)
    from r
   where r.name is not null
)
select r.name from r where r.name like 'subscription:%' limit :limit;

-- name: waiting_in
select w.value,
       (select count(*) from (select 1 from sendonce_deliveries d where d.parked_on = w.value limit :cap))
  from json_each(:rooms) w
 order by w.value;

-- name: undelivered_places
-- What has not arrived is due or scheduled, parked, in flight, or an open dead letter: each part walks its own index, up
-- to the window. One may be due again before its lease is released.
select distinct id
  from (
    select * from (
      select id
        from sendonce_deliveries indexed by sendonce_deliveries_due
       where next_attempt_at is not null
       order by next_attempt_at, id
       limit :window)
    union all
    select * from (
      select id
        from sendonce_deliveries indexed by sendonce_deliveries_parked
       where parked_on is not null
       order by parked_on, id
       limit :window)
    union all
    select * from (select w.value from sendonce_leases l cross join json_each(l.deliveries) w limit :window)
    union all
    select * from (
      select delivery_id
        from sendonce_dead_letters indexed by sendonce_dead_letters_open
       where closed_at is null
       order by created_at, id
       limit :window))
 order by id desc;

-- name: undelivered_ids
select d.id
  from json_each(:ids) w
 cross join sendonce_deliveries d not indexed on d.id = w.value
 cross join sendonce_events e not indexed on e.id = d.event_id
 where d.status <> 'Completed'
   and (:tenant is null or e.tenant = :tenant)
   and (d.status <> 'DeadLettered' or exists (
     select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.closed_at is null))
 order by d.id desc
 limit :limit;
