-- part: fence
-- The attempt must survive the crash that follows it, so the commit waits for the disk whatever the default is.
f as materialized (
  select :lease_id::bigint as lease_id, now() as at,
         sendonce_fence(:instance::text, :seen_delivery::bigint, :seen_attempt::int, :seen_lease::bigint) as refused,
         case when current_setting('synchronous_commit') in ('off', 'local')
              then set_config('synchronous_commit', 'on', true) end as durable
)

-- part: hold
-- Which of the candidates c are held back.
y as materialized (
  select sendonce_held_back(
           array_agg(c.id), array_agg(c.event_id), array_agg(c.subscription_id), array_agg(c.destination), array_agg(c.room),
           :each::int, :each_place::int, :destinations::text[], :lefts::int[], :places::text[], :place_lefts::int[],
           :served::text[], :beginnings::text[], array_agg(c.id) filter (where c.is_proven)) as ids
    from c
),
k as materialized (
  select c.id, c.place, c.next_attempt_at, coalesce(c.id = any(y.ids), false) as held from c cross join y
)

-- part: lease
-- From k to leased attempts: those that nothing holds back. A place in the table (ctid) cannot change, because the rows
-- are locked when they are updated, and no second look into the index is needed. One that was changed after this
-- statement began is locked at a place that it does not see: it is left for the next claim.
g as materialized (
  select count(*) filter (where k.held) as held,
         (select n.next_attempt_at from k n order by n.next_attempt_at desc, n.id desc limit 1) as until,
         (select n.id from k n order by n.next_attempt_at desc, n.id desc limit 1) as until_id
    from k
),
u as (
  update sendonce_deliveries d
     set status = 'InProgress', next_attempt_at = null, parked_on = null, updated_at = now()
   where d.ctid = any(array(select k.place from k where not k.held))
  returning d.id, d.event_id, d.destination, d.destination_hash, d.subscription_id, d.if_unsure, d.attempt_count,
            d.deferred_count, d.corrections, d.generation, d.has_content, d.in_doubt, d.proven_at, d.notification_id,
            d.expires_at, d.put_off_since
),
h as materialized (
  select min(u.id) as first from u
),
j as (
  insert into sendonce_attempts (delivery_id, attempt, lease_id, status)
  select u.id, u.attempt_count + 1, f.lease_id, 'Leased' from u, f
),
l as (
  insert into sendonce_leases (id, worker_id, expires_at, deliveries)
  select f.lease_id, :worker_id, now() + :hold::float8 * interval '1 second', a.ids
    from f, (select array_agg(u.id) as ids from u) a
   where a.ids is not null
)
select u.id, u.attempt_count + 1, u.event_id, e.tenant, e.type, e.key, u.destination,
       coalesce(s.destination, u.destination), case when u.has_content and x.content is null then null else e.payload end,
       x.content, e.headers, e.subject, e.version, e.created_at,
       u.subscription_id, s.state, s.policy, u.if_unsure, u.attempt_count, u.deferred_count, u.corrections,
       u.generation, u.in_doubt, u.proven_at is not null, u.notification_id,
       extract(epoch from u.expires_at - now())::float8, extract(epoch from now() - u.put_off_since)::float8,
       case when u.id is not distinct from h.first then f.lease_id end,
       case when u.id is not distinct from h.first then g.until end,
       case when u.id is not distinct from h.first then g.until_id end,
       case when u.id is not distinct from h.first then g.held end,
       case when u.id is not distinct from h.first then f.at end,
       case when u.id is not distinct from h.first then f.refused end
  from g
  cross join f
  cross join h
  left join u on true
  left join lateral (
    select n.tenant, n.type, n.key, n.payload, n.headers, n.subject, n.version, n.created_at
      from sendonce_events n where n.id = u.event_id offset 0) e on true
  left join lateral (
    select n.destination, n.state, n.policy from sendonce_subscriptions n where n.id = u.subscription_id offset 0) s on true
  left join lateral (
    select n.content from sendonce_contents n
     where u.has_content and n.event_id = u.event_id and n.destination_hash = u.destination_hash
       and n.corrections = u.corrections offset 0) x on true

-- part: ripe
-- What is in doubt is neither asked about nor sent before its moment, whoever has made it due.
(not d.in_doubt or d.not_before is null or d.not_before <= now())

-- name: start
-- One statement, so that a claim is one round trip and one commit. "= any(array(…))" and "lateral … offset 0" keep every
-- plan off sequential scans, which plain joins become when the limit is not known.
with :(fence),
c as materialized (
  select d.id, d.ctid as place, d.next_attempt_at, d.event_id, d.subscription_id, d.destination, null::text as room,
         d.proven_at is not null as is_proven
    from sendonce_deliveries d
   where d.next_attempt_at <= now() and :(ripe)
     and (d.next_attempt_at, d.id) > (coalesce(:since::timestamptz, '-infinity'::timestamptz), :since_id::bigint)
     and not exists (select 1 from sendonce_stops where scope = 'all')
     and (select f.refused from f) is null
   order by d.next_attempt_at, d.id
   limit :limit
   for update of d skip locked
),
:(hold),
:(lease);

-- name: start_waiting
-- The same out of rooms: so many of each, of those at its front the least tried, so that one that always fails is not what
-- every probe is made with. A probe (a quota of one, with a spread) may also be one of those from that part of its room on.
with :(fence),
c as materialized (
  select d.id, d.place, null::timestamptz as next_attempt_at, d.event_id, d.subscription_id, d.destination, q.room,
         d.is_proven
    from unnest(:rooms::text[], :quotas::int[], :spreads::float8[]) as q(room, quota, spread)
   cross join lateral (
     select x.id, x.place, x.event_id, x.subscription_id, x.destination, x.is_proven
       from (select a.id, a.place, a.event_id, a.subscription_id, a.destination, a.attempt_count, a.is_proven,
                    true as is_front
               from (select n.id, n.ctid as place, n.event_id, n.subscription_id, n.destination, n.attempt_count,
                            n.proven_at is not null as is_proven
                       from sendonce_deliveries n
                      where n.parked_on = q.room and (not n.in_doubt or n.not_before is null or n.not_before <= now())
                        and not exists (select 1 from sendonce_stops where scope = 'all')
                        and (select f.refused from f) is null
                      order by n.id
                      limit greatest(q.quota, 20)
                      for update of n skip locked) a
             union all
             select p.id, p.place, p.event_id, p.subscription_id, p.destination, p.attempt_count, p.is_proven, false
               from (select n.id, n.ctid as place, n.event_id, n.subscription_id, n.destination, n.attempt_count,
                            n.proven_at is not null as is_proven
                       from sendonce_deliveries n
                      where q.spread is not null
                        and n.parked_on = q.room and (not n.in_doubt or n.not_before is null or n.not_before <= now())
                        and not exists (select 1 from sendonce_stops where scope = 'all')
                        and (select f.refused from f) is null
                        and n.id >= (
                          select l.id + floor(q.spread * (h.id - l.id))::bigint
                            from (select w.id from sendonce_deliveries w where w.parked_on = q.room order by w.id limit 1) l,
                                 (select w.id from sendonce_deliveries w
                                   where w.parked_on = q.room order by w.id desc limit 1) h)
                      order by n.id
                      limit 20
                      for update of n skip locked) p) x
      order by x.attempt_count, x.is_front, x.id
      limit q.quota) d
),
:(hold),
:(lease);

-- name: start_doubtful
-- What waits and may have been sent, due or not, once its moment has come; what a program of the version before has left
-- in doubt has none, and is asked about when it is due. Asking is not sending: a rate, a breaker or a limit holds nothing
-- back here, a stop or a paused subscription does; and whoever does not serve it cannot ask.
with :(fence),
c as materialized (
  select d.id, d.ctid as place, d.event_id, d.subscription_id, d.destination, d.proven_at
    from sendonce_deliveries d
   where d.in_doubt and d.id > :after
     and (d.proven_at is not null or coalesce(d.not_before, d.next_attempt_at, '-infinity'::timestamptz) <= now())
     and (d.next_attempt_at is not null or split_part(d.parked_on, ':', 1) in ('destination', 'place', 'rate', 'channel'))
     and not exists (select 1 from sendonce_stops where scope = 'all')
     and (select f.refused from f) is null
   order by d.id
   limit :limit
   for update of d skip locked
),
k as materialized (
  select c.id, c.place, null::timestamptz as next_attempt_at,
         coalesce(s.state in ('paused', 'disabled'), false)
         or (:served::text[] is not null and c.proven_at is null
             and not (sendonce_channel(coalesce(s.destination, c.destination), c.subscription_id is not null, :beginnings::text[])
                      = any(:served::text[])))
         or sendonce_stop_of(c.event_id, c.subscription_id, c.destination) is not null as held
    from c
    left join lateral (select n.state, n.destination from sendonce_subscriptions n where n.id = c.subscription_id offset 0) s on true
),
:(lease);

-- name: lock_due
-- What start found in its way: the oldest due rows, to be looked at for parking.
select d.id
  from sendonce_deliveries d
 where d.next_attempt_at <= now()
 order by d.next_attempt_at, d.id
 limit :limit
   for update skip locked;

-- name: lock_waiting
-- The same in a room: what is at its front may be held by something else by now.
select d.id
  from sendonce_deliveries d
 where d.parked_on = :room
 order by d.id
 limit :limit
   for update skip locked;

-- name: park
select sendonce_set_aside(
  :delivery_ids::bigint[], :destinations::text[], :places::text[], :room::text,
  :served::text[], :beginnings::text[], :live::text[], :spare::float8);

-- name: give_up_unserved
-- A bounded step through a room that no live worker serves. What has expired is given up, unless it may have been sent:
-- then whoever serves it asks first. What needs that channel no longer is due again.
with w as materialized (
  select d.id, d.expires_at <= now() and not d.in_doubt and d.proven_at is null as is_over,
         d.proven_at is not null or not starts_with(coalesce(s.destination, d.destination), :name::text) as is_due
    from sendonce_deliveries d
    left join lateral (
      select n.destination from sendonce_subscriptions n where n.id = d.subscription_id offset 0) s on true
   where d.parked_on = :room and d.id > :after
   order by d.id
   limit :limit
),
n as (
  update sendonce_deliveries d
     set next_attempt_at = now(), parked_on = null, updated_at = now()
   where d.id = any(array(
           select t.id from sendonce_deliveries t
            where t.id = any(array(select w.id from w where w.is_due)) order by t.id for update))
     and d.parked_on = :room
),
d as (
  update sendonce_deliveries d
     set status = 'DeadLettered', next_attempt_at = null, parked_on = null, updated_at = now(),
         final_error_code = 'not_served'
   where d.id = any(array(
           select t.id from sendonce_deliveries t
            where t.id = any(array(select w.id from w where w.is_over and not w.is_due)) order by t.id for update))
     and d.parked_on = :room and not d.in_doubt and d.proven_at is null
  returning d.id
),
z as (
  insert into sendonce_dead_letters (delivery_id, reason, error_code, error_message)
  select d.id, 'expired', 'not_served', :message::text from d
),
k as (
  insert into sendonce_counters (name, amount) select 'dead_lettered', count(*) from d having count(*) > 0
)
select (select count(*) from d), case when count(*) = :limit then max(w.id) end from w;

-- name: settle
-- One array per column, as text: nearly all results are plain successes, and then all but the first three are null.
-- "is not distinct from" is not indexable on purpose: the plan must come from the primary key.
with x as materialized (
  select n.d, n.a, n.l, coalesce(n.o, 'Delivered') as o, n.c, n.m, n.n, n.r, coalesce(n.s, 'Completed') as s, n.w, n.y, n.q,
         n.p, n.t, n.h
    from unnest(
      :deliveries::bigint[], :attempts::int[], :leases::bigint[], :outcomes::text[], :codes::text[], :messages::text[],
      :notification_ids::text[], :responses::text[], :states::text[], :waits::float8[], :reasons::text[],
      :doubts::boolean[], :deferrals::int[], :times::timestamptz[], :left_alone::float8[])
      as n(d, a, l, o, c, m, n, r, s, w, y, q, p, t, h)
),
j as (
  update sendonce_attempts t
     set status = case when x.o in ('Delivered', 'Accepted') then 'Completed' else 'Failed' end,
         finished_at = now(), outcome = x.o, error_code = x.c, error_message = x.m, notification_id = x.n, response = x.r
    from x
   where t.delivery_id = x.d and t.attempt = x.a and t.lease_id = x.l and t.status is not distinct from 'Leased'
  returning x.d, x.a, x.l, x.o, x.c, x.m, x.n, x.s, x.w, x.y, x.q, x.p, x.t, x.h
),
d as (
  update sendonce_deliveries t
     set status = x.s,
         attempt_count = t.attempt_count + 1,
         -- 1: deferred; 2: put off by the other side.
         deferred_count = t.deferred_count + (x.p is not null)::int,
         put_off_since = case x.p when 1 then t.put_off_since when 2 then coalesce(t.put_off_since, now()) end,
         in_doubt = coalesce(x.q, t.in_doubt and x.s <> 'Completed'),
         -- Whoever opened this generation had what was sent before sent again: that is not said of what is sent by it.
         if_unsure = case when t.generation > 0 and x.o in ('Unknown', 'Accepted')
                          then (select f.if_unsure from sendonce_deliveries f
                                 where f.event_id = t.event_id and f.destination_hash = t.destination_hash
                                   and f.generation = 0)
                          else t.if_unsure end,
         doubted_by = case when x.o not in ('Unknown', 'Accepted') then t.doubted_by end,
         not_before = case when coalesce(x.q, t.in_doubt and x.s <> 'Completed')
                           then greatest(t.not_before, now() + x.h * interval '1 second') end,
         next_attempt_at = case when x.w is not null
                                then greatest(now() + x.w * interval '1 second',
                                              case when coalesce(x.q, t.in_doubt) then t.not_before end) end,
         final_error_code = coalesce(x.c, t.final_error_code),
         notification_id = coalesce(x.n, t.notification_id),
         notified_at = case when x.s = 'Completed' then coalesce(x.t, now()) end,
         updated_at = now()
    from j x
   where t.id = x.d and t.status is not distinct from 'InProgress'
  returning t.id, x.a, x.l, t.status, x.q, x.c, x.m, x.y
),
z as (
  insert into sendonce_dead_letters (delivery_id, reason, error_code, error_message)
  select d.id, d.y, d.c, d.m from d where d.status = 'DeadLettered' order by d.id
),
k as (
  insert into sendonce_counters (name, amount)
  select case d.status when 'Completed' then 'completed' when 'PendingRetry' then 'retried' else 'dead_lettered' end,
         count(*)
    from d group by d.status
  union all
  select 'in_doubt', count(*) from d where d.q having count(*) > 0
)
select count(*), case when count(*) < cardinality(:deliveries::bigint[]) then array_agg(array[d.id, d.a, d.l]) end from d;

-- name: judge
-- Results that changed nothing: what their attempt and delivery look like now.
select a.delivery_id, a.attempt, a.lease_id, a.outcome, a.error_code, a.notification_id, d.status
  from sendonce_attempts a
  join sendonce_deliveries d on d.id = a.delivery_id
 where (a.delivery_id, a.attempt) in (select * from unnest(:delivery_ids::bigint[], :attempts::int[]));

-- name: prove
-- A late Delivered for a delivery that waits: its next attempt completes it without sending. What it was sent for is told
-- by its token's parts: a database that has lost commits gives a row's number to another one.
update sendonce_deliveries
   set proven_at = now(), notification_id = coalesce(:notification_id, notification_id), updated_at = now(),
       not_before = null, next_attempt_at = case when parked_on is null then now() end
 where id = any(array(
         select d.id from sendonce_events e join sendonce_deliveries d on d.event_id = e.id
          where e.key = :key and e.type = :type and e.tenant = :tenant and d.destination = :destination
            and d.corrections = :corrections and d.generation = :generation))
   and status in ('Pending', 'PendingRetry') and proven_at is null
returning id;

-- name: find
-- The same late result reported twice is one finding.
insert into sendonce_findings (delivery_id, attempt, kind, outcome, error_code, notification_id, details)
select :delivery_id, :attempt, :kind::text, :outcome::text, :error_code::text, :notification_id::text, :details::text
 where not exists (
   select 1 from sendonce_findings
    where delivery_id = :delivery_id and attempt = :attempt and outcome = :outcome::text);

-- name: cancel
with d as (
  update sendonce_deliveries
     set status = 'DeadLettered', next_attempt_at = null, parked_on = null, updated_at = now(),
         final_error_code = coalesce(final_error_code, 'cancelled')
   where id = any(array(select id from sendonce_deliveries where id = any(:delivery_ids::bigint[]) order by id for update))
     and status in ('Pending', 'PendingRetry')
  returning id
),
z as (
  insert into sendonce_dead_letters (delivery_id, reason, error_code, error_message)
  select d.id, 'cancelled', 'cancelled', :reason::text from d order by d.id
),
k as (
  insert into sendonce_counters (name, amount) select 'dead_lettered', count(*) from d having count(*) > 0
)
select d.id from d order by d.id;
