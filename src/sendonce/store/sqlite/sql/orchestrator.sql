-- In all these files "not indexed" sends the planner to the primary key: after an ANALYZE of nearly empty tables it would
-- walk another index instead, and go on doing so when there are a million rows.

-- part: claim
-- The columns of a claim, and a subscription's rate.
select d.id, d.attempt_count + 1, d.event_id, e.tenant, e.type, e.key, d.destination,
       coalesce(s.destination, d.destination), case when d.has_content and x.content is null then null else e.payload end,
       x.content, e.headers, e.subject, e.version,
       e.created_at, d.subscription_id, s.state, s.policy, d.if_unsure, d.attempt_count, d.deferred_count,
       d.corrections, d.generation, d.in_doubt, d.proven_at is not null, d.notification_id,
       (d.expires_at - :now) / 1e6, (:now - d.put_off_since) / 1e6, s.rate

-- part: claimed
 cross join sendonce_events e not indexed on e.id = d.event_id
  left join sendonce_subscriptions s on s.id = d.subscription_id
  left join sendonce_contents x
    on d.has_content = 1
   and x.event_id = d.event_id
   and x.destination_hash = d.destination_hash
   and x.corrections = d.corrections

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
-- What may hold a delivery back.
select d.id, d.destination, coalesce(s.destination, d.destination), e.tenant, s.id, s.state, d.proven_at is not null,
       s.rate, d.next_attempt_at

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
   set next_attempt_at = null, parked_on = w.value ->> 1, updated_at = :now
  from json_each(:parked) w
 where sendonce_deliveries.id = +(w.value ->> 0);

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
 where id in (select value from json_each(:ids));

-- name: add_unserved
insert into sendonce_dead_letters (delivery_id, created_at, reason, error_code, error_message)
select value, :now, 'expired', 'not_served', :message from json_each(:ids);

-- name: breakers
select room from sendonce_breakers;

-- name: open_lease
insert into sendonce_leases (id, worker_id, created_at, expires_at, deliveries)
values (:lease_id, :worker_id, :now, :expires_at, :ids);

-- name: open_attempts
insert into sendonce_attempts (delivery_id, lease_id, created_at, attempt, status)
select d.id, :lease_id, :now, d.attempt_count + 1, 'Leased'
  from json_each(:ids) w
 cross join sendonce_deliveries d not indexed on d.id = w.value;

-- name: mark_in_progress
update sendonce_deliveries
   set status = 'InProgress', next_attempt_at = null, parked_on = null, updated_at = :now
 where id in (select value from json_each(:ids));

-- name: make_results
-- The results of one settle: a table in memory of this connection alone, so that the rows that matter are changed by
-- whole statements. One statement per row costs twice as much.
create temp table if not exists sendonce_results (
  delivery_id integer not null,
  attempt integer not null,
  lease_id integer not null,
  status text not null,
  outcome text not null,
  error_code text,
  error_message text,
  notification_id text,
  response text,
  to_status text not null,
  deferred integer not null,
  in_doubt integer,
  next_attempt_at integer,
  not_before integer,
  sent_at integer,
  reason text,
  primary key (delivery_id, attempt, lease_id)
) without rowid;

-- name: clear_results
delete from temp.sendonce_results;

-- name: add_result
insert into temp.sendonce_results
  (delivery_id, attempt, lease_id, status, outcome, error_code, error_message, notification_id, response, to_status,
   deferred, in_doubt, next_attempt_at, not_before, sent_at, reason)
values
  (:delivery_id, :attempt, :lease_id, :status, :outcome, :error_code, :error_message, :notification_id, :response,
   :to_status, :deferred, :in_doubt, :next_attempt_at, :not_before, :sent_at, :reason);

-- name: close_attempts
-- No row back means that the lease was lost, or that the result had been written before.
-- "+" keeps the planner from walking all attempts and looking them up among the results.
update sendonce_attempts as a
   set status = r.status, finished_at = :now, outcome = r.outcome, error_code = r.error_code,
       error_message = r.error_message, notification_id = r.notification_id, response = r.response
  from temp.sendonce_results r
 where a.delivery_id = +r.delivery_id
   and a.attempt = +r.attempt
   and a.lease_id = +r.lease_id
   and a.status = 'Leased'
returning delivery_id, attempt, lease_id;

-- name: drop_result
delete from temp.sendonce_results where delivery_id = :delivery_id and attempt = :attempt and lease_id = :lease_id;

-- name: move_deliveries
-- Deferred is 1, or 2 when the other side has put it off.
-- Whoever opened a generation had what was sent before sent again: that is not said of what is sent by it.
update sendonce_deliveries as d
   set (status, attempt_count, deferred_count, put_off_since, in_doubt, if_unsure, doubted_by, not_before,
        next_attempt_at, final_error_code, notification_id, notified_at, updated_at) = (
         select r.to_status, d.attempt_count + 1, d.deferred_count + (r.deferred > 0),
                case r.deferred when 1 then d.put_off_since when 2 then coalesce(d.put_off_since, :now) end,
                coalesce(r.in_doubt, d.in_doubt and r.to_status <> 'Completed'),
                case when d.generation > 0 and r.outcome in ('Unknown', 'Accepted')
                     then (select f.if_unsure from sendonce_deliveries f
                            where f.event_id = d.event_id and f.destination_hash = d.destination_hash
                              and f.generation = 0)
                     else d.if_unsure end,
                case when r.outcome not in ('Unknown', 'Accepted') then d.doubted_by end,
                case when coalesce(r.in_doubt, d.in_doubt and r.to_status <> 'Completed')
                     then max(coalesce(d.not_before, r.not_before), coalesce(r.not_before, d.not_before)) end,
                max(r.next_attempt_at,
                    coalesce(case when coalesce(r.in_doubt, d.in_doubt) then d.not_before end, r.next_attempt_at)),
                coalesce(r.error_code, d.final_error_code), coalesce(r.notification_id, d.notification_id),
                case when r.to_status = 'Completed' then coalesce(r.sent_at, :now) end, :now
           from temp.sendonce_results r
          where r.delivery_id = d.id)
 where d.id in (select delivery_id from temp.sendonce_results)
   and d.status = 'InProgress';

-- name: add_dead_letters
insert into sendonce_dead_letters (delivery_id, created_at, reason, error_code, error_message)
select delivery_id, :now, reason, error_code, error_message
  from temp.sendonce_results
 where to_status = 'DeadLettered'
 order by delivery_id;

-- name: count
insert into sendonce_counters (created_at, amount, name) values (:now, :amount, :name);

-- name: judge
-- Results that changed nothing: what their attempt and delivery look like now.
select a.delivery_id, a.attempt, a.lease_id, a.outcome, a.error_code, a.notification_id, d.status
  from json_each(:pairs) w
 cross join sendonce_attempts a on a.delivery_id = w.value ->> 0 and a.attempt = w.value ->> 1
 cross join sendonce_deliveries d not indexed on d.id = a.delivery_id;

-- name: prove
-- A late Delivered for a delivery that waits: its next attempt completes it without sending. What it was sent for is told
-- by its token's parts: a database that has lost commits gives a row's number to another one.
update sendonce_deliveries
   set proven_at = :now, notification_id = coalesce(:notification_id, notification_id), updated_at = :now,
       not_before = null, next_attempt_at = case when parked_on is null then :now end
 where id in (
         select d.id from sendonce_events e cross join sendonce_deliveries d on d.event_id = e.id
          where e.key = :key and e.type = :type and e.tenant = :tenant and d.destination = :destination
            and d.corrections = :corrections and d.generation = :generation)
   and status in ('Pending', 'PendingRetry') and proven_at is null
returning id;

-- name: find
-- The same late result reported twice is one finding.
insert into sendonce_findings (delivery_id, attempt, created_at, kind, outcome, error_code, notification_id, details)
select :delivery_id, :attempt, :now, :kind, :outcome, :error_code, :notification_id, :details
 where not exists (
   select 1 from sendonce_findings
    where delivery_id = :delivery_id and attempt = :attempt and outcome = :outcome);

-- name: cancel
update sendonce_deliveries
   set status = 'DeadLettered', next_attempt_at = null, parked_on = null, updated_at = :now,
       final_error_code = coalesce(final_error_code, 'cancelled')
 where id in (select value from json_each(:delivery_ids)) and status in ('Pending', 'PendingRetry')
returning id;

-- name: add_cancelled
insert into sendonce_dead_letters (delivery_id, created_at, reason, error_code, error_message)
select value, :now, 'cancelled', 'cancelled', :reason from json_each(:delivery_ids);
