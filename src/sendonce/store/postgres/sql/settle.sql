-- name: settle
-- One array per column, as text: nearly all results are plain successes, and then all but the first three are null.
-- "is not distinct from" is not indexable on purpose: the plan must come from the primary key.
with result as materialized (
  select given.delivery_id, given.attempt, given.lease_id, coalesce(given.outcome, 'Delivered') as outcome,
         given.error_code, given.error_message, given.notification_id, given.response,
         coalesce(given.to_status, 'Completed') as to_status, given.wait, given.reason, given.in_doubt,
         given.deferred, given.sent_at, given.left_alone
    from unnest(
      :deliveries::bigint[], :attempts::int[], :leases::bigint[], :outcomes::text[], :codes::text[], :messages::text[],
      :notification_ids::text[], :responses::text[], :states::text[], :waits::float8[], :reasons::text[],
      :doubts::boolean[], :deferrals::int[], :times::timestamptz[], :left_alone::float8[])
      as given(delivery_id, attempt, lease_id, outcome, error_code, error_message, notification_id, response, to_status,
               wait, reason, in_doubt, deferred, sent_at, left_alone)
),
closed as (
  update sendonce_attempts a
     set status = case when result.outcome in ('Delivered', 'Accepted') then 'Completed' else 'Failed' end,
         finished_at = now(), outcome = result.outcome, error_code = result.error_code,
         error_message = result.error_message, notification_id = result.notification_id, response = result.response
    from result
   where a.delivery_id = result.delivery_id and a.attempt = result.attempt
     and a.lease_id = result.lease_id and a.status is not distinct from 'Leased'
  returning result.delivery_id, result.attempt, result.lease_id, result.outcome, result.error_code,
            result.error_message, result.notification_id, result.to_status, result.wait, result.reason,
            result.in_doubt, result.deferred, result.sent_at, result.left_alone
),
moved as (
  update sendonce_deliveries d
     set status = closed.to_status,
         attempt_count = d.attempt_count + 1,
         -- 1: deferred; 2: put off by the other side.
         deferred_count = d.deferred_count + (closed.deferred is not null)::int,
         put_off_since = case closed.deferred when 1 then d.put_off_since
                                              when 2 then coalesce(d.put_off_since, now()) end,
         in_doubt = coalesce(closed.in_doubt, d.in_doubt and closed.to_status <> 'Completed'),
         -- Whoever opened this generation had what was sent before sent again: that is not said of what is sent by it.
         if_unsure = case when d.generation > 0 and closed.outcome in ('Unknown', 'Accepted')
                          then (select first.if_unsure from sendonce_deliveries first
                                 where first.event_id = d.event_id
                                   and first.destination_hash = d.destination_hash
                                   and first.generation = 0)
                          else d.if_unsure end,
         doubted_by = case when closed.outcome not in ('Unknown', 'Accepted') then d.doubted_by end,
         not_before = case when coalesce(closed.in_doubt, d.in_doubt and closed.to_status <> 'Completed')
                           then greatest(d.not_before, now() + closed.left_alone * interval '1 second') end,
         next_attempt_at = case when closed.wait is not null
                                then greatest(now() + closed.wait * interval '1 second',
                                              case when coalesce(closed.in_doubt, d.in_doubt)
                                                   then d.not_before end) end,
         final_error_code = coalesce(closed.error_code, d.final_error_code),
         notification_id = coalesce(closed.notification_id, d.notification_id),
         notified_at = case when closed.to_status = 'Completed' then coalesce(closed.sent_at, now()) end,
         updated_at = now()
    from closed
   where d.id = closed.delivery_id and d.status is not distinct from 'InProgress'
  returning d.id, closed.attempt, closed.lease_id, d.status, closed.in_doubt, closed.error_code,
            closed.error_message, closed.reason
),
dead_letters as (
  insert into sendonce_dead_letters (delivery_id, reason, error_code, error_message)
  select moved.id, moved.reason, moved.error_code, moved.error_message
    from moved where moved.status = 'DeadLettered' order by moved.id
),
counted as (
  insert into sendonce_counters (name, amount)
  select case moved.status when 'Completed' then 'completed' when 'PendingRetry' then 'retried'
                           else 'dead_lettered' end,
         count(*)
    from moved group by moved.status
  union all
  select 'in_doubt', count(*) from moved where moved.in_doubt having count(*) > 0
)
select count(*),
       case when count(*) < cardinality(:deliveries::bigint[])
            then array_agg(array[moved.id, moved.attempt, moved.lease_id]) end
  from moved;

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

-- name: add_late_result
-- The same late result reported twice is one finding.
insert into sendonce_findings (delivery_id, attempt, kind, outcome, error_code, notification_id, details)
select :delivery_id, :attempt, :kind::text, :outcome::text, :error_code::text, :notification_id::text, :details::text
 where not exists (
   select 1 from sendonce_findings
    where delivery_id = :delivery_id and attempt = :attempt and outcome = :outcome::text);

-- name: refuse_by_evidence
update sendonce_deliveries
   set status = 'DeadLettered', next_attempt_at = null, parked_on = null, updated_at = now(),
       final_error_code = :error_code
 where id = :delivery_id and status in ('Pending', 'PendingRetry') and proven_at is null
returning id;

-- name: bury_by_evidence
insert into sendonce_dead_letters (delivery_id, reason, error_code, error_message)
values (:delivery_id, 'refused', :error_code, :error_message)
returning id;

-- name: count_by_evidence
insert into sendonce_counters (name, amount) values ('dead_lettered', 1);
