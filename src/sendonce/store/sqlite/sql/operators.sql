-- name: log_operation
insert into sendonce_operations (created_at, updated_at, finished_at, kind, operator, reason, subject, affected)
values (:now, :now, :now, :kind, :operator, :reason, :subject, :affected)
returning id;

-- name: newest_generations
-- The newest generation of each of these deliveries' event and destination.
select d.id, d.status, n.id, n.generation
  from json_each(:delivery_ids) w
 cross join sendonce_deliveries d not indexed on d.id = w.value
 cross join sendonce_deliveries n on n.event_id = d.event_id and n.destination_hash = d.destination_hash
 where n.generation = (
   select max(t.generation) from sendonce_deliveries t
    where t.event_id = d.event_id and t.destination_hash = d.destination_hash)
 order by d.id;

-- name: open_generations
-- Doubt is sticky: what may have been sent is in doubt in its next generation too, and asked about by the same id; so is
-- what is marked sent without the other side's id for it, and what the other side has no record of (a repair), and
-- what was given up before commits were lost. Where nobody can be asked it is sent: whoever opens the generation has decided
-- so, and holding it again would undo that, until what it sends may have arrived too; but a repair is only for those who
-- can be asked. The moment before which it is to be left alone goes along.
insert into sendonce_deliveries
  (event_id, subscription_id, created_at, next_attempt_at, updated_at, destination, destination_hash, generation,
   corrections, has_content, if_unsure, in_doubt, notification_id, not_before)
select event_id, subscription_id, :now, max(:now, coalesce(case when doubtful then until end, :now)), :now, destination,
       destination_hash, generation + 1, corrections, has_content,
       case when doubtful and :kind <> 'repair' then 'resend' else if_unsure end, doubtful,
       case when doubtful then notification_id end, case when doubtful then until end
  from (
    select *, max(coalesce(not_before, lost_until), coalesce(lost_until, not_before)) as until,
           in_doubt or :kind = 'repair' or lost_until is not null
           or (status = 'Completed' and notification_id is null) as doubtful
      from (select d.*, wanted.key as place, :(lost_until) as lost_until
              from json_each(:delivery_ids) wanted
             cross join sendonce_deliveries d not indexed on d.id = wanted.value))
 order by place
returning id;

-- name: close_dead_letters_of
update sendonce_dead_letters
   set closed_at = :now, closed_as = 'requeued', closed_by = :operator
 where delivery_id in (select value from json_each(:delivery_ids)) and closed_at is null
returning delivery_id;

-- name: discard
update sendonce_dead_letters
   set closed_at = :now, closed_as = 'discarded', closed_by = :operator
 where id in (select value from json_each(:dead_letter_ids)) and closed_at is null
returning id;

-- name: stop
insert into sendonce_stops (scope, value, created_at, operator, reason)
values (:scope, :value, :now, :operator, :reason)
on conflict (scope, value) do nothing;

-- name: lift_stop
delete from sendonce_stops where scope = :scope and value = :value returning scope;

-- name: unpark
update sendonce_deliveries
   set next_attempt_at = max(:now, coalesce(case when in_doubt then not_before end, :now)), parked_on = null,
       updated_at = :now
 where parked_on = :parked_on;

-- name: add_subscription
insert into sendonce_subscriptions (tenant, destination, policy, rate, description, ask, created_at, updated_at)
values (:tenant, :destination, :policy, :rate, :description, :ask, :now, :now)
returning id;

-- name: add_subscription_types
insert into sendonce_subscription_types (tenant, pattern, subscription_id)
select :tenant, value, :subscription_id from json_each(:types) where true
on conflict do nothing;

-- name: set_subscription_state
update sendonce_subscriptions
   set state = :state, state_reason = :reason, updated_at = :now
 where id = :subscription_id and state <> 'removed'
returning id;

-- name: set_subscription_rate
update sendonce_subscriptions
   set rate = :rate, updated_at = :now
 where id = :subscription_id and state <> 'removed'
returning id;

-- name: remove_subscription_types
delete from sendonce_subscription_types where subscription_id = :subscription_id;
