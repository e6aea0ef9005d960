-- In all these files "not indexed" sends the planner to the primary key: after an ANALYZE of nearly empty tables it would
-- walk another index instead, and go on doing so when there are a million rows.

-- part: claim
-- The columns of a claim, and a subscription's rate.
select d.id, d.attempt_count + 1, d.event_id, e.tenant, e.type, e.key, d.destination,
       coalesce(s.destination, d.destination), case when d.has_content and own.content is null then null else e.payload end,
       own.content, e.headers, e.subject, e.version,
       e.created_at, d.subscription_id, s.state, s.policy, d.if_unsure, d.attempt_count, d.deferred_count,
       d.corrections, d.generation, d.in_doubt, d.proven_at is not null, d.notification_id,
       (d.expires_at - :now) / 1e6, (:now - d.put_off_since) / 1e6, s.ask, s.rate

-- part: claimed
 cross join sendonce_events e not indexed on e.id = d.event_id
  left join sendonce_subscriptions s on s.id = d.subscription_id
  left join sendonce_contents own
    on d.has_content = 1
   and own.event_id = d.event_id
   and own.destination_hash = d.destination_hash
   and own.corrections = d.corrections

-- part: ripe
-- What is in doubt is neither asked about nor sent before its moment, whoever has made it due.
(d.in_doubt = 0 or d.not_before is null or d.not_before <= :now)

-- name: claim_due
-- Walks the index of due times, so the oldest come first without a sort.
:(claim)
  from sendonce_deliveries d indexed by sendonce_deliveries_due
:(claimed)
 where d.next_attempt_at <= :now and :(ripe)
 order by d.next_attempt_at, d.id
 limit :limit;

-- name: claim_waiting
:(claim)
  from sendonce_deliveries d indexed by sendonce_deliveries_parked
:(claimed)
 where d.parked_on = :room and d.id >= :from_id and :(ripe)
 order by d.id
 limit :limit;

-- name: room_bounds
select (select min(d.id) from sendonce_deliveries d indexed by sendonce_deliveries_parked where d.parked_on = :room),
       (select max(d.id) from sendonce_deliveries d indexed by sendonce_deliveries_parked where d.parked_on = :room);

-- name: claim_doubtful
-- Once its moment has come; what a program of the version before has left in doubt has none, and is asked about when it is
-- due.
:(claim)
  from sendonce_deliveries d indexed by sendonce_deliveries_in_doubt
:(claimed)
 where d.in_doubt = 1 and d.id > :after
   and (d.proven_at is not null or coalesce(d.not_before, d.next_attempt_at, 0) <= :now)
   and (d.next_attempt_at is not null
        or substr(d.parked_on, 1, instr(d.parked_on, ':')) in ('destination:', 'place:', 'rate:', 'channel:'))
 order by d.id
 limit :limit;

-- part: holders
-- What may hold a delivery back, and for how long it has been due.
select d.id, d.destination, coalesce(s.destination, d.destination), e.tenant, s.id, s.state, d.proven_at is not null,
       s.rate, :now - d.next_attempt_at

-- name: front_due
:(holders)
  from sendonce_deliveries d indexed by sendonce_deliveries_due
 cross join sendonce_events e not indexed on e.id = d.event_id
  left join sendonce_subscriptions s on s.id = d.subscription_id
 where d.next_attempt_at <= :now
 order by d.next_attempt_at, d.id
 limit :limit;

-- name: front_waiting
:(holders)
  from sendonce_deliveries d indexed by sendonce_deliveries_parked
 cross join sendonce_events e not indexed on e.id = d.event_id
  left join sendonce_subscriptions s on s.id = d.subscription_id
 where d.parked_on = :room
 order by d.id
 limit :limit;

-- name: park
-- Each says what it waits for.
update sendonce_deliveries not indexed
   set next_attempt_at = null, parked_on = parked.value ->> 1, updated_at = :now
  from json_each(:parked) parked
 where sendonce_deliveries.id = +(parked.value ->> 0);

-- name: unserved
-- A bounded step through a room that no live worker serves: which of them have expired, but for what may have been sent,
-- for whoever serves it asks first; and which need that channel no longer.
select d.id, d.expires_at <= :now and d.in_doubt = 0 and d.proven_at is null,
       d.proven_at is not null or substr(coalesce(s.destination, d.destination), 1, length(:name)) <> :name
  from sendonce_deliveries d indexed by sendonce_deliveries_parked
  left join sendonce_subscriptions s on s.id = d.subscription_id
 where d.parked_on = :room and d.id > :after
 order by d.id
 limit :limit;

-- name: make_due
update sendonce_deliveries
   set next_attempt_at = :now, parked_on = null, updated_at = :now
 where id in (select value from json_each(:ids));

-- name: give_up_unserved
update sendonce_deliveries
   set status = 'DeadLettered', parked_on = null, updated_at = :now, final_error_code = 'not_served'
 where id in (select value from json_each(:ids))
returning id;

-- name: add_unserved
insert into sendonce_dead_letters (delivery_id, created_at, reason, error_code, error_message)
select value, :now, 'expired', 'not_served', :message from json_each(:ids);

-- name: breakers
select room from sendonce_breakers;

-- name: open_lease
insert into sendonce_leases (id, worker_id, created_at, expires_at, deliveries)
values (:lease_id, :worker_id, :now, :now + :hold, :ids)
returning created_at;

-- name: open_attempts
insert into sendonce_attempts (delivery_id, lease_id, created_at, attempt, status)
select d.id, :lease_id, :now, d.attempt_count + 1, 'Leased'
  from json_each(:ids) wanted
 cross join sendonce_deliveries d not indexed on d.id = wanted.value;

-- name: mark_in_progress
update sendonce_deliveries
   set status = 'InProgress', next_attempt_at = null, parked_on = null, updated_at = :now
 where id in (select value from json_each(:ids));

-- name: cancel
update sendonce_deliveries
   set status = 'DeadLettered', next_attempt_at = null, parked_on = null, updated_at = :now,
       final_error_code = coalesce(final_error_code, 'cancelled')
 where id in (select value from json_each(:delivery_ids)) and status in ('Pending', 'PendingRetry')
returning id;

-- name: add_cancelled
insert into sendonce_dead_letters (delivery_id, created_at, reason, error_code, error_message)
select value, :now, 'cancelled', 'cancelled', :reason from json_each(:delivery_ids);
