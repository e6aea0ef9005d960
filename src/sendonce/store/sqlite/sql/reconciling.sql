-- name: policies_in_step
-- The subscriptions with a policy of their own, of what is open in this step.
select id, policy
  from sendonce_subscriptions
 where policy is not null and id in (
         select d.subscription_id from sendonce_deliveries d not indexed
          where d.id > :after and d.id <= :last and d.status not in ('Completed', 'DeadLettered'));

-- name: doubt
-- A bounded step up the primary key: what is open from there on may have been sent, and is left alone for a while,
-- or for longer where its subscription says so (waits: seconds by id). What waits in a room leaves it: a room is asked
-- about at once. Whoever opened a generation had what was sent before sent again: that is not said of what it may have
-- sent itself. What a person puts in doubt (no loss) is not a loss's alone.
update sendonce_deliveries as d
   set in_doubt = 1, updated_at = :now,
       doubted_by = case when not in_doubt or :loss_id is null then :loss_id else doubted_by end,
       if_unsure = case when generation > 0
                        then (select f.if_unsure from sendonce_deliveries f
                               where f.event_id = d.event_id and f.destination_hash = d.destination_hash
                                 and f.generation = 0)
                        else if_unsure end,
       (not_before, next_attempt_at) = (
         select n.at,
                case when d.status <> 'InProgress'
                      and (d.parked_on is null
                           or substr(d.parked_on, 1, instr(d.parked_on, ':')) not in ('stop:', 'subscription:'))
                     then max(coalesce(d.next_attempt_at, n.at), n.at) end
           from (select max(coalesce(d.not_before, 0), :now + cast(round(1e6 * max(
                          :wait, coalesce(:waits ->> ('$."' || d.subscription_id || '"'), :wait))) as integer)) as at) n),
       parked_on = case when substr(parked_on, 1, instr(parked_on, ':')) in ('stop:', 'subscription:') then parked_on end
 where id > :after and id <= :last and status not in ('Completed', 'DeadLettered') and proven_at is null
returning id;

-- name: last_of_step
select max(id) from (select id from sendonce_deliveries not indexed where id > :after and id <= :upto order by id limit :limit);

-- name: letters_to_attest
select id, delivery_id, closed_as from sendonce_dead_letters
 where id in (select value from json_each(:dead_letter_ids))
 order by id;

-- name: attest
-- The next generation, born completed: what has ended is frozen, so a person's word cannot be written into it.
insert into sendonce_deliveries
  (event_id, subscription_id, created_at, next_attempt_at, updated_at, destination, destination_hash, generation,
   corrections, has_content, if_unsure, notification_id, status, notified_at)
select d.event_id, d.subscription_id, :now, null, :now, d.destination, d.destination_hash, d.generation + 1,
       d.corrections, d.has_content, d.if_unsure, coalesce(:notification_id, d.notification_id), 'Completed', :now
  from json_each(:delivery_ids) w
 cross join sendonce_deliveries d not indexed on d.id = w.value
 order by w.key
returning id;

-- name: close_attested
update sendonce_dead_letters
   set closed_at = :now, closed_as = 'attested', closed_by = :operator
 where id in (select value from json_each(:dead_letter_ids)) and closed_at is null
returning id;

-- name: add_findings
-- The same found twice of a delivery is one finding.
insert into sendonce_findings (delivery_id, created_at, kind, notification_id, details)
select w.value, :now, :kind, :notification_id, :details
  from json_each(:delivery_ids) w
 where not exists (
   select 1 from sendonce_findings f
    where f.delivery_id = w.value and f.kind = :kind and f.notification_id is :notification_id)
returning id;

-- name: completed_window
-- A bounded step up the primary key, and which of these were notified since then and have no newer generation.
select d.id,
       d.status = 'Completed' and d.notified_at >= :since and not exists (
         select 1 from sendonce_deliveries n
          where n.event_id = d.event_id and n.destination_hash = d.destination_hash and n.generation = d.generation + 1)
  from sendonce_deliveries d not indexed
 where d.id > :after
 order by d.id
 limit :window;

-- name: delivery_from
select id, created_at from sendonce_deliveries not indexed where id >= :id order by id limit 1;

-- name: left_alone
select count(*), max(until)
  from (
    select coalesce(not_before, next_attempt_at) as until
      from sendonce_deliveries indexed by sendonce_deliveries_in_doubt
     where in_doubt = 1 and status in ('Pending', 'PendingRetry') and proven_at is null
       and coalesce(not_before, next_attempt_at) > :now
     order by id
     limit :cap);
