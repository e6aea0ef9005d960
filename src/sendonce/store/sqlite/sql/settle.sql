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
   set status = result.status, finished_at = :now, outcome = result.outcome, error_code = result.error_code,
       error_message = result.error_message, notification_id = result.notification_id, response = result.response
  from temp.sendonce_results result
 where a.delivery_id = +result.delivery_id
   and a.attempt = +result.attempt
   and a.lease_id = +result.lease_id
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
         select result.to_status, d.attempt_count + 1, d.deferred_count + (result.deferred > 0),
                case result.deferred when 1 then d.put_off_since when 2 then coalesce(d.put_off_since, :now) end,
                coalesce(result.in_doubt, d.in_doubt and result.to_status <> 'Completed'),
                case when d.generation > 0 and result.outcome in ('Unknown', 'Accepted')
                     then (select first.if_unsure from sendonce_deliveries first
                            where first.event_id = d.event_id and first.destination_hash = d.destination_hash
                              and first.generation = 0)
                     else d.if_unsure end,
                case when result.outcome not in ('Unknown', 'Accepted') then d.doubted_by end,
                case when coalesce(result.in_doubt, d.in_doubt and result.to_status <> 'Completed')
                     then max(coalesce(d.not_before, result.not_before), coalesce(result.not_before, d.not_before)) end,
                max(result.next_attempt_at,
                    coalesce(case when coalesce(result.in_doubt, d.in_doubt) then d.not_before end, result.next_attempt_at)),
                coalesce(result.error_code, d.final_error_code), coalesce(result.notification_id, d.notification_id),
                case when result.to_status = 'Completed' then coalesce(result.sent_at, :now) end, :now
           from temp.sendonce_results result
          where result.delivery_id = d.id)
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
  from json_each(:delivery_ids) wanted
 cross join sendonce_attempts a
    on a.delivery_id = wanted.value and a.attempt = json_extract(:attempts, '$[' || wanted.key || ']')
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

-- name: add_late_result
-- The same late result reported twice is one finding.
insert into sendonce_findings (delivery_id, attempt, created_at, kind, outcome, error_code, notification_id, details)
select :delivery_id, :attempt, :now, :kind, :outcome, :error_code, :notification_id, :details
 where not exists (
   select 1 from sendonce_findings
    where delivery_id = :delivery_id and attempt = :attempt and outcome = :outcome);

-- name: refuse_by_evidence
update sendonce_deliveries
   set status = 'DeadLettered', next_attempt_at = null, parked_on = null, updated_at = :now,
       final_error_code = :error_code
 where id = :delivery_id and status in ('Pending', 'PendingRetry') and proven_at is null
returning id;

-- name: bury_by_evidence
insert into sendonce_dead_letters (delivery_id, created_at, reason, error_code, error_message)
values (:delivery_id, :now, 'refused', :error_code, :error_message)
returning id;

-- name: count_by_evidence
insert into sendonce_counters (created_at, amount, name) values (:now, 1, 'dead_lettered');
