-- part: of_event
(:type::text is null or e.type = :type::text)
and (:family::text is null or starts_with(e.type, :family::text))
and (:tenant::text is null or e.tenant = :tenant::text)

-- name: schema_version
select value::int from sendonce_meta where name = 'schema_version';

-- name: namespace
select value from sendonce_meta where name = 'namespace';

-- name: status_counts
-- Each count walks its own index, in its order, and stops at the cap.
select now(),
       (select value::int from sendonce_meta where name = 'schema_version'),
       (select count(*) from (
         select 1 from sendonce_deliveries where next_attempt_at <= now() order by next_attempt_at limit :cap) a),
       (select min(next_attempt_at) from sendonce_deliveries where next_attempt_at <= now()),
       (select count(*) from (
         select 1 from sendonce_deliveries where next_attempt_at > now() order by next_attempt_at limit :cap) a),
       (select count(*) from (
         select status from sendonce_deliveries where next_attempt_at is not null order by next_attempt_at limit :cap) a
        where a.status = 'PendingRetry'),
       (select count(*)
          from sendonce_leases l
         cross join lateral unnest(l.deliveries) as w(id)
          join sendonce_attempts a on a.delivery_id = w.id and a.lease_id = l.id and a.status = 'Leased'),
       (select count(*) from (
         select status from sendonce_deliveries where in_doubt order by id limit :cap) a
        where a.status not in ('Completed', 'DeadLettered')),
       (select count(*) from (
         select 1 from sendonce_dead_letters
          where closed_at is null and reason <> 'cancelled' order by created_at limit :cap) a),
       (select coalesce(sum(amount), 0)::bigint from sendonce_counters where name = 'completed');

-- name: live_workers
select id, name, version, concurrency, started_at, seen_at, progressed_at, stopped_at
  from sendonce_workers
 where stopped_at is null and seen_at > now() - :alive::float8 * interval '1 second'
 order by id
 limit 1000;

-- name: stops
select scope, value, operator, reason, created_at from sendonce_stops order by scope, value limit 1000;

-- name: event_window
-- A bounded step down the primary key.
select id from sendonce_events where id < :before order by id desc limit :window;

-- name: event_at
select created_at from sendonce_events where id = :id;

-- name: event_rows
-- A window may be much of the table, and a plain join would then read all of it.
select e.id, e.tenant, e.type, e.key, e.subject, e.version, e.headers, e.created_at, e.content_gone_at, e.history_gone_at
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (
   -- each by its name: who may look at events may not read their payloads
   select t.id, t.tenant, t.type, t.key, t.subject, t.version, t.headers, t.created_at, t.content_gone_at,
          t.history_gone_at
     from sendonce_events t where t.id = w.id offset 0) e
 where :(of_event)
   and (:since::timestamptz is null or e.created_at >= :since::timestamptz)
   and (:until::timestamptz is null or e.created_at < :until::timestamptz)
   and (coalesce(:status::text, :destination::text) is null or exists (
     select 1 from sendonce_deliveries d
      where d.event_id = e.id
        and (:status::text is null or d.status = :status::text)
        and (:destination::text is null or d.destination = :destination::text) offset 0))
 order by e.id desc
 limit :limit;

-- name: event_payload
select payload from sendonce_events where id = :event_id;

-- name: event_ids_of_key
select w.id from (select id from sendonce_events where key = :key limit 20000) w order by w.id desc limit 100;

-- name: delivery_window
select id from sendonce_deliveries where id < :before order by id desc limit :window;

-- name: delivery_at
select created_at from sendonce_deliveries where id = :id;

-- name: due_window
select id from sendonce_deliveries where next_attempt_at is not null order by next_attempt_at, id limit :window;

-- name: parked_window
select id from sendonce_deliveries where parked_on is not null order by parked_on, id limit :window;

-- name: in_flight_ids
select w.id
  from sendonce_leases l
 cross join lateral unnest(l.deliveries) as w(id)
  join sendonce_attempts a on a.delivery_id = w.id and a.lease_id = l.id and a.status = 'Leased'
 order by w.id desc
 limit :window;

-- name: dead_letter_window
select delivery_id from sendonce_dead_letters where delivery_id < :before order by delivery_id desc limit :window;

-- name: delivery_ids_of_event
select id from sendonce_deliveries where event_id = :event_id limit :window;

-- name: delivery_ids_among
-- Those of these that belong to the event.
select d.id
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (select t.id, t.event_id from sendonce_deliveries t where t.id = w.id offset 0) d
 where d.event_id = :event_id
 order by d.id desc
 limit :limit;

-- name: generation_ids
select n.id
  from sendonce_deliveries d
  join sendonce_deliveries n on n.event_id = d.event_id and n.destination_hash = d.destination_hash
 where d.id = :delivery_id
 order by n.generation desc
 limit :limit;

-- name: delivery_rows
select d.id, d.event_id, e.tenant, e.type, e.key, d.destination, d.subscription_id, d.generation, d.corrections, d.status,
       d.attempt_count, d.deferred_count, d.in_doubt, d.next_attempt_at, d.not_before, d.parked_on, d.proven_at, d.final_error_code,
       d.notification_id, d.notified_at, d.expires_at, d.if_unsure, d.created_at, d.updated_at
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (select t.* from sendonce_deliveries t where t.id = w.id offset 0) d
 cross join lateral (select t.tenant, t.type, t.key from sendonce_events t where t.id = d.event_id offset 0) e
 where :(wanted)
   and (:status::text is null or d.status = :status::text)
   and (:since::timestamptz is null or d.created_at >= :since::timestamptz)
   and (:until::timestamptz is null or d.created_at < :until::timestamptz)
   and (:reason::text is null or exists (
     select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.reason = :reason::text offset 0))
 order by d.id desc
 limit :limit;

-- name: delivery_ids_of_token
-- The token is computed, never stored: the same length-prefixed hash as provider_token().
select d.id
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (
   select t.id, t.event_id, t.destination, t.corrections from sendonce_deliveries t where t.id = w.id offset 0) d
 cross join lateral (select t.tenant, t.type, t.key from sendonce_events t where t.id = d.event_id offset 0) e
 where left(encode(sha256(
         convert_to(octet_length(:namespace::text)::text || ':' || :namespace::text, 'UTF8')
         || convert_to(octet_length(e.tenant)::text || ':' || e.tenant, 'UTF8')
         || convert_to(octet_length(e.type)::text || ':' || e.type, 'UTF8')
         || convert_to(octet_length(e.key)::text || ':' || e.key, 'UTF8')
         || convert_to(octet_length(d.destination)::text || ':' || d.destination, 'UTF8')
         || convert_to(length(d.corrections::text)::text || ':' || d.corrections::text, 'UTF8')), 'hex'), 40) = :token
 order by d.id desc
 limit 1;

-- name: attempts_of
select delivery_id, attempt, status, lease_id, outcome, error_code, error_message, notification_id, response, created_at,
       finished_at
  from sendonce_attempts
 where delivery_id = :delivery_id and attempt < :before::bigint
 order by attempt desc
 limit :limit;

-- name: lease_of
select l.id, l.worker_id, w.name, l.created_at, l.expires_at
  from sendonce_attempts a
  join sendonce_leases l on l.id = a.lease_id
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
  from sendonce_dead_letters
 where closed_at is null and (created_at, id) < (:before_at::timestamptz, :before_id::bigint)
 order by created_at desc, id desc
 limit :window;

-- name: waiting_dead_letter_window
-- The same without what a person has cancelled.
select id
  from sendonce_dead_letters
 where closed_at is null and reason <> 'cancelled' and (created_at, id) < (:before_at::timestamptz, :before_id::bigint)
 order by created_at desc, id desc
 limit :window;

-- name: dead_letter_at
-- Of this one, or of the one before it when it is gone.
select created_at from sendonce_dead_letters where id <= :id order by id desc limit 1;

-- name: dead_letter_id_of
select id from sendonce_dead_letters where delivery_id = :delivery_id;

-- name: dead_letter_rows
-- A window may be most of the dead letters there are, and plain joins would then walk through all deliveries.
select z.id, z.delivery_id, d.event_id, e.tenant, e.type, e.key, d.destination, d.generation,
       d.in_doubt or :(lost_until) is not null, z.reason,
       z.error_code, z.error_message, z.created_at, z.closed_at, z.closed_as, z.closed_by
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (select t.* from sendonce_dead_letters t where t.id = w.id offset 0) z
 cross join lateral (select t.* from sendonce_deliveries t where t.id = z.delivery_id offset 0) d
 cross join lateral (select t.tenant, t.type, t.key from sendonce_events t where t.id = d.event_id offset 0) e
 where (:reason::text is null or z.reason = :reason::text)
   and :(wanted)
   and (:since::timestamptz is null or z.created_at >= :since::timestamptz)
   and (:until::timestamptz is null or z.created_at < :until::timestamptz)
 order by z.created_at desc, z.id desc
 limit :limit;

-- name: given_up
-- How many dead letters have the same reason, error code, type and destination, and when they were given up.
select z.reason, z.error_code, e.type, coalesce(s.destination, d.destination), count(*), min(z.created_at), max(z.created_at)
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (select t.* from sendonce_dead_letters t where t.id = w.id offset 0) z
 cross join lateral (
   select t.event_id, t.destination, t.subscription_id from sendonce_deliveries t where t.id = z.delivery_id offset 0) d
 cross join lateral (select t.tenant, t.type from sendonce_events t where t.id = d.event_id offset 0) e
  left join sendonce_subscriptions s on s.id = d.subscription_id
 where (:reason::text is null or z.reason = :reason::text)
   and :(wanted)
   and (:since::timestamptz is null or z.created_at >= :since::timestamptz)
   and (:until::timestamptz is null or z.created_at < :until::timestamptz)
 group by 1, 2, 3, 4
 order by 1, 2, 3, 4;

-- name: subscription_window
select id from sendonce_subscriptions where id < :before order by id desc limit :window;

-- name: subscription_at
select created_at from sendonce_subscriptions where id = :id;

-- name: subscription_rows
select s.id, s.tenant,
       array(select t.pattern from sendonce_subscription_types t where t.subscription_id = s.id order by t.pattern),
       s.destination, s.state, s.state_reason, s.policy, s.rate, s.description, s.created_at, s.ask
  from sendonce_subscriptions s
 where s.id = any(:ids::bigint[])
   and (:tenant::text is null or s.tenant = :tenant::text)
   and (:is_removed::boolean is null or (s.state = 'removed') = :is_removed::boolean)
 order by s.id desc
 limit :limit;

-- name: held_subscription_rooms
-- One step down the index for each, however many wait there.
with recursive r(name) as (
  (select d.parked_on from sendonce_deliveries d where d.parked_on > 'subscription:' order by d.parked_on limit 1)
  union all
  select (select d.parked_on from sendonce_deliveries d where d.parked_on > r.name order by d.parked_on limit 1)
    from r
   where r.name is not null
)
select r.name from r where r.name like 'subscription:%' limit :limit;

-- name: waiting_in
select w.room, n.waiting
  from unnest(:rooms::text[]) as w(room)
 cross join lateral (
   select count(*) as waiting
     from (select 1 from sendonce_deliveries d where d.parked_on = w.room limit :cap) p) n
 order by w.room;

-- name: undelivered_places
-- What has not arrived is due or scheduled, parked, in flight, or an open dead letter: each part walks its own index, up
-- to the window. One may be due again before its lease is released.
select distinct id
  from (
    (select id from sendonce_deliveries where next_attempt_at is not null order by next_attempt_at, id limit :window)
    union all
    (select id from sendonce_deliveries where parked_on is not null order by parked_on, id limit :window)
    union all
    (select w.id from sendonce_leases l cross join lateral unnest(l.deliveries) as w(id) limit :window)
    union all
    (select delivery_id
       from sendonce_dead_letters
      where closed_at is null
      order by created_at, id
      limit :window)
  ) p
 order by id desc;

-- name: undelivered_ids
select d.id
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (select t.id, t.event_id, t.status from sendonce_deliveries t where t.id = w.id offset 0) d
 cross join lateral (select t.tenant from sendonce_events t where t.id = d.event_id offset 0) e
 where d.status <> 'Completed'
   and (:tenant::text is null or e.tenant = :tenant::text)
   and (d.status <> 'DeadLettered' or exists (
     select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.closed_at is null offset 0))
 order by d.id desc
 limit :limit;
