-- name: tell_alert
-- The row comes back to the one caller who is to tell it.
insert into sendonce_alerts as a (name, message, seen, raised_at, told_at, told_size, met_at)
values (:name, :message, :seen, :now, :now, :size, :met_at)
on conflict (name) do update
   set raised_at = case when a.is_raised then a.raised_at else :now end,
       told_at = :now, is_raised = 1, seen = excluded.seen, message = excluded.message,
       told_size = excluded.told_size, met_at = excluded.met_at
 where not a.is_raised or a.told_at <= :now - :repeat or excluded.told_size >= a.told_size * :growth
returning name;

-- name: note_alert
-- What is told already is kept up to date.
update sendonce_alerts set seen = :seen, message = :message, met_at = :met_at where name = :name and is_raised = 1;

-- name: clear_alert
update sendonce_alerts set is_raised = 0, told_at = :now where name = :name and is_raised = 1 returning name;

-- name: alerts
select name, message, is_raised, seen, raised_at, told_at, met_at from sendonce_alerts order by name limit 1000;

-- name: readings
-- Each count walks its own index and stops at the cap; the newest first where what has ended stays in the index.
select :now,
       (select count(*) from (
         select 1
           from sendonce_dead_letters indexed by sendonce_dead_letters_waiting
          where closed_at is null and reason <> 'cancelled'
          limit :cap)),
       (select min(next_attempt_at) from sendonce_deliveries where next_attempt_at <= :now),
       (select count(*) from (
         select status
           from sendonce_deliveries indexed by sendonce_deliveries_in_doubt
          where in_doubt = 1
          order by id desc
          limit :cap)
         where status not in ('Completed', 'DeadLettered')),
       (select count(*) from (
         select kind, outcome, created_at from sendonce_findings where id > 0 order by id desc limit :cap)
         where created_at > :now - :window
           and (kind in ('no_evidence', 'no_provider_id') or (kind = 'late_result' and outcome = 'Delivered'))),
       (select count(*) from sendonce_losses where ended_at is null or noticed_at > :now - :window),
       exists (select 1 from sendonce_stops where scope = 'all');

-- name: open_channels
-- For each scheme the oldest of what is open, found at the fronts: of each room, of what is due, of what waits for a retry
-- (as far as the cap goes), and what is being sent; and the breakers that are open.
with recursive r(name, nth) as (
  select min(parked_on), 1 from sendonce_deliveries indexed by sendonce_deliveries_parked where parked_on > ''
  union all
  select (select min(d.parked_on) from sendonce_deliveries d indexed by sendonce_deliveries_parked
           where d.parked_on > r.name),
         r.nth + 1
    from r
   where r.name is not null and r.nth < :cap
),
f(id, subscription_id, destination, since) as (
  select d.id, d.subscription_id, d.destination, d.updated_at
    from r
   cross join sendonce_deliveries d on d.id = (
     select p.id from sendonce_deliveries p indexed by sendonce_deliveries_parked
      where p.parked_on = r.name order by p.id limit 1)
   where r.name not like 'stop:%' and r.name not like 'subscription:%'
  union all
  select * from (
    select d.id, d.subscription_id, d.destination, d.next_attempt_at
      from sendonce_deliveries d where d.next_attempt_at <= :now order by d.next_attempt_at limit :cap)
  union all
  select w.id, w.subscription_id, w.destination, w.next_attempt_at
    from (select d.id, d.subscription_id, d.destination, d.next_attempt_at, d.status
            from sendonce_deliveries d where d.next_attempt_at > :now order by d.next_attempt_at limit :cap) w
   where w.status = 'PendingRetry'
  union all
  select d.id, d.subscription_id, d.destination, l.created_at
    from sendonce_leases l
   cross join json_each(l.deliveries) w
   cross join sendonce_deliveries d on d.id = w.value
   where d.status = 'InProgress'
)
select substr(x.address, 1, instr(x.address || ':', ':') - 1) as scheme, min(x.since), count(x.opened_at), min(x.opened_at)
  from (
    select coalesce(s.destination, f.destination) as address, coalesce(a.created_at, f.since) as since,
           null as opened_at
      from f
      left join sendonce_attempts a on a.delivery_id = f.id and a.attempt = 1
      left join sendonce_subscriptions s on s.id = f.subscription_id
    union all
    select coalesce(s.destination, substr(b.room, instr(b.room, ':') + 1)), null, b.opened_at
      from sendonce_breakers b
      left join sendonce_subscriptions s
        on b.room like 'destination:subscription:%' and s.id = cast(substr(b.room, 26) as integer)
     where b.allowance = 0) x
 group by scheme
 order by scheme
 limit 1000;

-- name: parked_by
select case substr(w.room, 1, instr(w.room, ':') - 1)
         when 'subscription' then 'subscription'
         when 'stop' then 'stop'
         when 'rate' then 'rate'
         when 'channel' then 'channel'
         when 'destination' then iif(b.room is null, 'limit', 'breaker')
         when 'place' then iif(b.room is null, 'limit', 'breaker')
         else 'other' end as cause,
       sum(w.waiting)
  from (select parked_on as room, count(*) as waiting
          from (select parked_on from sendonce_deliveries indexed by sendonce_deliveries_parked
                 where parked_on is not null order by parked_on limit :cap)
         group by parked_on) w
  left join sendonce_breakers b on b.room = w.room
 group by cause
 order by cause;

-- name: channel_rooms
-- What waits for workers that serve it, and since when the first of it does. One step down the index for each room.
with recursive r(name) as (
  select min(parked_on) from sendonce_deliveries indexed by sendonce_deliveries_parked where parked_on > 'channel:'
  union all
  select (select min(d.parked_on) from sendonce_deliveries d indexed by sendonce_deliveries_parked
           where d.parked_on > r.name)
    from r
   where r.name like 'channel:%'
)
select r.name,
       (select count(*) from (
         select 1 from sendonce_deliveries d indexed by sendonce_deliveries_parked
          where d.parked_on = r.name order by d.id limit :cap)),
       (select d.updated_at from sendonce_deliveries d indexed by sendonce_deliveries_parked
         where d.parked_on = r.name order by d.id limit 1)
  from r
 where r.name like 'channel:%'
 limit 1000;
