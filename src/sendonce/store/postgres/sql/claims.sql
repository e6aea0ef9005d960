-- part: fence
-- The attempt must survive the crash that follows it, so the commit waits for the disk whatever the default is.
fence as materialized (
  select :lease_id::bigint as lease_id, now() as at,
         sendonce_fence(:instance::text, :seen_delivery::bigint, :seen_attempt::int, :seen_lease::bigint) as refused,
         case when current_setting('synchronous_commit') in ('off', 'local')
              then set_config('synchronous_commit', 'on', true) end as durable
)

-- part: hold
-- Which of the candidates are held back.
held_back as materialized (
  select sendonce_held_back(
           array_agg(id), array_agg(event_id), array_agg(subscription_id), array_agg(destination), array_agg(room),
           :each::int, :each_place::int, :destinations::text[], :lefts::int[], :places::text[], :place_lefts::int[],
           :served::text[], :beginnings::text[], array_agg(id) filter (where is_proven)) as ids
    from candidates
),
judged as materialized (
  select c.id, c.place, c.next_attempt_at, coalesce(c.id = any(held_back.ids), false) as is_held
    from candidates c cross join held_back
)

-- part: lease
-- From what is judged to leased attempts: those that nothing holds back. A place in the table (ctid) cannot change,
-- because the rows are locked when they are updated, and no second look into the index is needed. One that was changed
-- after this statement began is locked at a place that it does not see: it is left for the next claim.
claimed as (
  update sendonce_deliveries d
     set status = 'InProgress', next_attempt_at = null, parked_on = null, updated_at = now()
   where d.ctid = any(array(select place from judged where not is_held))
  returning d.id, d.event_id, d.destination, d.destination_hash, d.subscription_id, d.if_unsure, d.attempt_count,
            d.deferred_count, d.corrections, d.generation, d.has_content, d.in_doubt, d.proven_at, d.notification_id,
            d.expires_at, d.put_off_since
),
-- What is told once, with the first row: or alone, when nothing was claimed.
told as materialized (
  select f.lease_id, (select min(id) from claimed) as first_id, f.at, f.refused,
         (select next_attempt_at from judged order by next_attempt_at desc, id desc limit 1) as until,
         (select id from judged order by next_attempt_at desc, id desc limit 1) as until_id,
         (select count(*) from judged where is_held) as held
    from fence f
),
attempts as (
  insert into sendonce_attempts (delivery_id, attempt, lease_id, status)
  select d.id, d.attempt_count + 1, f.lease_id, 'Leased' from claimed d, fence f
),
lease as (
  insert into sendonce_leases (id, worker_id, expires_at, deliveries)
  select f.lease_id, :worker_id, now() + :hold::float8 * interval '1 second', d.ids
    from fence f, (select array_agg(id) as ids from claimed) d
   where d.ids is not null
)
select d.id, d.attempt_count + 1, d.event_id, event.tenant, event.type, event.key, d.destination,
       coalesce(s.destination, d.destination),
       case when d.has_content and own.content is null then null else event.payload end,
       own.content, event.headers, event.subject, event.version, event.created_at, d.subscription_id, s.state, s.policy,
       d.if_unsure, d.attempt_count, d.deferred_count, d.corrections, d.generation, d.in_doubt,
       d.proven_at is not null, d.notification_id, extract(epoch from d.expires_at - now())::float8,
       extract(epoch from now() - d.put_off_since)::float8,
       s.ask,
       t.lease_id, t.until, t.until_id, t.held, t.at, t.refused
  from fence
  left join claimed d on true
  left join told t on t.first_id is not distinct from d.id
  left join lateral (
    select e.tenant, e.type, e.key, e.payload, e.headers, e.subject, e.version, e.created_at
      from sendonce_events e where e.id = d.event_id offset 0) event on true
  left join lateral (
    select n.destination, n.state, n.policy, n.ask
      from sendonce_subscriptions n where n.id = d.subscription_id offset 0) s on true
  left join lateral (
    select c.content from sendonce_contents c
     where d.has_content and c.event_id = d.event_id and c.destination_hash = d.destination_hash
       and c.corrections = d.corrections offset 0) own on true

-- part: ripe
-- What is in doubt is neither asked about nor sent before its moment, whoever has made it due.
(not d.in_doubt or d.not_before is null or d.not_before <= now())

-- part: may_claim
not exists (select 1 from sendonce_stops where scope = 'all') and (select refused from fence) is null

-- name: start
-- One statement, so that a claim is one round trip and one commit. "= any(array(…))" and "lateral … offset 0" keep every
-- plan off sequential scans, which plain joins become when the limit is not known.
with :(fence),
candidates as materialized (
  select d.id, d.ctid as place, d.next_attempt_at, d.event_id, d.subscription_id, d.destination, null::text as room,
         d.proven_at is not null as is_proven
    from sendonce_deliveries d
   where d.next_attempt_at <= now() and :(ripe)
     and (d.next_attempt_at, d.id) > (coalesce(:since::timestamptz, '-infinity'::timestamptz), :since_id::bigint)
     and :(may_claim)
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
candidates as materialized (
  select chosen.id, chosen.place, null::timestamptz as next_attempt_at, chosen.event_id, chosen.subscription_id,
         chosen.destination, wanted.room, chosen.is_proven
    from unnest(:rooms::text[], :quotas::int[], :spreads::float8[]) as wanted(room, quota, spread)
   cross join lateral (
     select id, place, event_id, subscription_id, destination, is_proven
       from (select front.*, true as is_front
               from (select d.id, d.ctid as place, d.event_id, d.subscription_id, d.destination, d.attempt_count,
                            d.proven_at is not null as is_proven
                       from sendonce_deliveries d
                      where d.parked_on = wanted.room and :(ripe) and :(may_claim)
                      order by d.id
                      limit greatest(wanted.quota, 20)
                      for update of d skip locked) front
             union all
             select spread.*, false
               from (select d.id, d.ctid as place, d.event_id, d.subscription_id, d.destination, d.attempt_count,
                            d.proven_at is not null as is_proven
                       from sendonce_deliveries d
                      where wanted.spread is not null and d.parked_on = wanted.room and :(ripe) and :(may_claim)
                        and d.id >= (
                          select lowest.id + floor(wanted.spread * (highest.id - lowest.id))::bigint
                            from (select n.id from sendonce_deliveries n
                                   where n.parked_on = wanted.room order by n.id limit 1) lowest,
                                 (select n.id from sendonce_deliveries n
                                   where n.parked_on = wanted.room order by n.id desc limit 1) highest)
                      order by d.id
                      limit 20
                      for update of d skip locked) spread) either
      order by attempt_count, is_front, id
      limit wanted.quota) chosen
),
:(hold),
:(lease);

-- name: start_doubtful
-- What waits and may have been sent, due or not, once its moment has come; what a program of the version before has left
-- in doubt has none, and is asked about when it is due. Asking is not sending: a rate, a breaker or a limit holds nothing
-- back here, a stop or a paused subscription does; and whoever does not serve it cannot ask.
with :(fence),
candidates as materialized (
  select d.id, d.ctid as place, d.event_id, d.subscription_id, d.destination, d.proven_at
    from sendonce_deliveries d
   where d.in_doubt and d.id > :after
     and (d.proven_at is not null or coalesce(d.not_before, d.next_attempt_at, '-infinity'::timestamptz) <= now())
     and (d.next_attempt_at is not null or split_part(d.parked_on, ':', 1) in ('destination', 'place', 'rate', 'channel'))
     and :(may_claim)
   order by d.id
   limit :limit
   for update of d skip locked
),
judged as materialized (
  select c.id, c.place, null::timestamptz as next_attempt_at,
         coalesce(s.state in ('paused', 'disabled'), false)
         or (:served::text[] is not null and c.proven_at is null
             and not (sendonce_channel(coalesce(s.destination, c.destination), c.subscription_id is not null, :beginnings::text[])
                      = any(:served::text[])))
         or sendonce_stop_of(c.event_id, c.subscription_id, c.destination) is not null as is_held
    from candidates c
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

-- name: unserved
-- A bounded step through a room that no live worker serves: which of them have expired, but for what may have been sent,
-- for whoever serves it asks first; and which need that channel no longer.
select d.id, d.expires_at <= now() and not d.in_doubt and d.proven_at is null,
       d.proven_at is not null or not starts_with(coalesce(s.destination, d.destination), :name::text)
  from sendonce_deliveries d
  left join lateral (
    select n.destination from sendonce_subscriptions n where n.id = d.subscription_id offset 0) s on true
 where d.parked_on = :room and d.id > :after
 order by d.id
 limit :limit;

-- name: make_due
-- By id, and never along the room, which may be long: so the room is not compared with =.
update sendonce_deliveries
   set next_attempt_at = now(), parked_on = null, updated_at = now()
 where id = any(array(select id from sendonce_deliveries where id = any(:ids::bigint[]) order by id for update))
   and parked_on is not distinct from :room;

-- name: give_up_unserved
update sendonce_deliveries
   set status = 'DeadLettered', next_attempt_at = null, parked_on = null, updated_at = now(),
       final_error_code = 'not_served'
 where id = any(array(select id from sendonce_deliveries where id = any(:ids::bigint[]) order by id for update))
   and parked_on is not distinct from :room and not in_doubt and proven_at is null
returning id;

-- name: add_unserved
insert into sendonce_dead_letters (delivery_id, reason, error_code, error_message)
select id, 'expired', 'not_served', :message::text from unnest(:ids::bigint[]) as given_up(id);

-- name: count
insert into sendonce_counters (name, amount) values (:name::text, :amount::bigint);

-- name: cancel
update sendonce_deliveries
   set status = 'DeadLettered', next_attempt_at = null, parked_on = null, updated_at = now(),
       final_error_code = coalesce(final_error_code, 'cancelled')
 where id = any(array(
         select id from sendonce_deliveries where id = any(:delivery_ids::bigint[]) order by id for update))
   and status in ('Pending', 'PendingRetry')
returning id;

-- name: add_cancelled
insert into sendonce_dead_letters (delivery_id, reason, error_code, error_message)
select id, 'cancelled', 'cancelled', :reason::text from unnest(:delivery_ids::bigint[]) as cancelled(id);
