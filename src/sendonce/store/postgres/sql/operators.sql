-- name: log_operation
insert into sendonce_operations (kind, operator, reason, subject, affected, finished_at)
values (:kind, :operator, :reason, :subject, :affected, now())
returning id;

-- name: newest_generations
-- The newest generation of each of these deliveries' event and destination.
select d.id, d.status, n.id, n.generation
  from sendonce_deliveries d
 cross join lateral (
   select t.id, t.generation from sendonce_deliveries t
    where t.event_id = d.event_id and t.destination_hash = d.destination_hash
    order by t.generation desc limit 1) n
 where d.id = any(:delivery_ids::bigint[])
 order by d.id;

-- name: open_generations
-- Doubt is sticky: what may have been sent is in doubt in its next generation too, and asked about by the same id; so is
-- what is marked sent without the other side's id for it, and what the other side has no record of (a repair), and
-- what was given up before commits were lost. Where nobody can be asked it is sent: whoever opens the generation has decided
-- so, and holding it again would undo that, until what it sends may have arrived too; but a repair is only for those who
-- can be asked. The moment before which it is to be left alone goes along.
insert into sendonce_deliveries
  (event_id, subscription_id, destination, destination_hash, generation, corrections, has_content, if_unsure, in_doubt,
   notification_id, not_before, next_attempt_at)
select d.event_id, d.subscription_id, d.destination, d.destination_hash, d.generation + 1, d.corrections, d.has_content,
       case when g.in_doubt and :kind::text <> 'repair' then 'resend' else d.if_unsure end, g.in_doubt,
       case when g.in_doubt then d.notification_id end, g.not_before, greatest(now(), g.not_before)
  from unnest(:delivery_ids::bigint[]) with ordinality as w(id, place)
  join sendonce_deliveries d on d.id = w.id
 cross join lateral (
   select n.in_doubt, case when n.in_doubt then greatest(d.not_before, n.lost_until) end as not_before
     from (
       select l.lost_until, d.in_doubt or :kind::text = 'repair' or l.lost_until is not null
                            or (d.status = 'Completed' and d.notification_id is null) as in_doubt
         from (select :(lost_until) as lost_until) l) n) g
 order by w.place
returning id, event_id, destination_hash, generation;

-- name: close_dead_letters_of
-- In the order of the ids, as every statement that waits for several dead letters.
update sendonce_dead_letters
   set closed_at = now(), closed_as = 'requeued', closed_by = :operator
 where id = any(array(
         select id from sendonce_dead_letters where delivery_id = any(:delivery_ids::bigint[]) order by id for update))
   and closed_at is null
returning delivery_id;

-- name: discard
update sendonce_dead_letters
   set closed_at = now(), closed_as = 'discarded', closed_by = :operator
 where id = any(array(
         select id from sendonce_dead_letters where id = any(:dead_letter_ids::bigint[]) order by id for update))
   and closed_at is null
returning id;

-- name: stop
insert into sendonce_stops (scope, value, operator, reason) values (:scope, :value, :operator, :reason)
on conflict (scope, value) do nothing;

-- name: lift_stop
delete from sendonce_stops where scope = :scope and value = :value returning scope;

-- name: unpark
-- A statement of its own after the holder's row was changed: its snapshot sees what was parked until then. In the order
-- of the ids, as every statement that waits for several deliveries.
with d as (
  update sendonce_deliveries
     set next_attempt_at = greatest(now(), case when in_doubt then not_before end), parked_on = null, updated_at = now()
   where id = any(array(
           select id from sendonce_deliveries where parked_on = :parked_on order by id for update))
     and parked_on = :parked_on
  returning id
)
select count(*) from d;

-- name: add_subscription
insert into sendonce_subscriptions (tenant, destination, policy, rate, description, ask)
values (:tenant, :destination, :policy, :rate, :description, :ask)
returning id;

-- name: add_subscription_types
insert into sendonce_subscription_types (tenant, pattern, subscription_id)
select :tenant, t.pattern, :subscription_id from unnest(:types::text[]) as t(pattern)
on conflict do nothing;

-- name: set_subscription_state
update sendonce_subscriptions
   set state = :state, state_reason = :reason, updated_at = now()
 where id = :subscription_id and state <> 'removed'
returning id;

-- name: set_subscription_rate
update sendonce_subscriptions
   set rate = :rate, updated_at = now()
 where id = :subscription_id and state <> 'removed'
returning id;

-- name: remove_subscription_types
delete from sendonce_subscription_types where subscription_id = :subscription_id;
