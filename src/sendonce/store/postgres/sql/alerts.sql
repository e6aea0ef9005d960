-- name: tell_alert
-- The row comes back to the one caller who is to tell it: the others wait for its lock, and then it was told just now.
insert into sendonce_alerts as a (name, message, seen, told_size, met_at)
values (:name, :message, :seen, :size, :met_at)
on conflict (name) do update
   set raised_at = case when a.is_raised then a.raised_at else now() end,
       told_at = now(), is_raised = true, seen = excluded.seen, message = excluded.message,
       told_size = excluded.told_size, met_at = excluded.met_at
 where not a.is_raised or a.told_at <= now() - :repeat::float8 * interval '1 second'
    or excluded.told_size >= a.told_size * :growth::bigint
returning a.name;

-- name: note_alert
-- What is told already is kept up to date.
update sendonce_alerts
   set seen = :seen, message = :message, met_at = :met_at
 where name = :name and is_raised
   and (seen, message, met_at) is distinct from (:seen::bigint, :message::text, :met_at::text);

-- name: clear_alert
update sendonce_alerts
   set is_raised = false, told_at = now()
 where name = :name and is_raised
returning name;

-- name: alerts
select name, message, is_raised, seen, raised_at, told_at, met_at from sendonce_alerts order by name limit 1000;

-- name: readings
-- Each count walks its own index and stops at the cap; the newest first where what has ended stays in the index.
select now(),
       (select count(*) from (
         select 1 from sendonce_dead_letters
          where closed_at is null and reason <> 'cancelled' order by created_at limit :cap) a),
       (select min(next_attempt_at) from sendonce_deliveries where next_attempt_at <= now()),
       (select count(*) from (
         select status from sendonce_deliveries where in_doubt order by id desc limit :cap) a
        where a.status not in ('Completed', 'DeadLettered')),
       (select count(*) from (
         select kind, outcome, created_at from sendonce_findings order by id desc limit :cap) a
        where a.created_at > now() - :window::float8 * interval '1 second'
          and (a.kind in ('no_evidence', 'no_provider_id') or (a.kind = 'late_result' and a.outcome = 'Delivered'))),
       (select count(*) from sendonce_losses l
         where l.ended_at is null or l.noticed_at > now() - :window::float8 * interval '1 second'),
       exists (select 1 from sendonce_stops where scope = 'all');

-- name: open_channels
-- For each scheme the oldest of what is open, found at the fronts: of each room, of what is due, of what waits for a retry
-- (as far as the cap goes), and what is being sent; and the breakers that are open. "lateral … offset 0" keeps each step
-- a step down an index.
with recursive r(name, nth) as (
  (select d.parked_on, 1 from sendonce_deliveries d where d.parked_on > '' order by d.parked_on limit 1)
  union all
  select (select d.parked_on from sendonce_deliveries d where d.parked_on > r.name order by d.parked_on limit 1),
         r.nth + 1
    from r
   where r.name is not null and r.nth < :cap
),
f as (
  select d.id, d.subscription_id, d.destination, d.updated_at as since
    from r
   cross join lateral (
     select p.id, p.subscription_id, p.destination, p.updated_at
       from sendonce_deliveries p where p.parked_on = r.name order by p.id limit 1) d
   where r.name not like 'stop:%' and r.name not like 'subscription:%'
  union all
  (select d.id, d.subscription_id, d.destination, d.next_attempt_at
     from sendonce_deliveries d where d.next_attempt_at <= now() order by d.next_attempt_at limit :cap)
  union all
  select w.id, w.subscription_id, w.destination, w.next_attempt_at
    from (select d.id, d.subscription_id, d.destination, d.next_attempt_at, d.status
            from sendonce_deliveries d where d.next_attempt_at > now() order by d.next_attempt_at limit :cap) w
   where w.status = 'PendingRetry'
  union all
  select d.id, d.subscription_id, d.destination, l.created_at
    from sendonce_leases l
   cross join lateral unnest(l.deliveries) as w(id)
   cross join lateral (
     select p.id, p.subscription_id, p.destination, p.status from sendonce_deliveries p where p.id = w.id offset 0) d
   where d.status = 'InProgress'
)
select x.scheme, min(x.since), count(x.opened_at), min(x.opened_at)
  from (
    select split_part(coalesce(s.destination, f.destination), ':', 1) as scheme, coalesce(a.created_at, f.since) as since,
           null::timestamptz as opened_at
      from f
      left join lateral (
        select t.created_at from sendonce_attempts t where t.delivery_id = f.id and t.attempt = 1 offset 0) a on true
      left join lateral (
        select n.destination from sendonce_subscriptions n where n.id = f.subscription_id offset 0) s on true
    union all
    select split_part(coalesce(s.destination, substr(b.room, position(':' in b.room) + 1)), ':', 1), null, b.opened_at
      from sendonce_breakers b
      left join lateral (
        select n.destination from sendonce_subscriptions n
         where b.room ~ '^destination:subscription:[0-9]{1,18}$' and n.id = split_part(b.room, ':', 3)::bigint
        offset 0) s on true
     where b.allowance = 0) x
 group by x.scheme
 order by x.scheme
 limit 1000;

-- name: parked_by
select case split_part(w.room, ':', 1)
         when 'subscription' then 'subscription'
         when 'stop' then 'stop'
         when 'rate' then 'rate'
         when 'channel' then 'channel'
         when 'destination' then case when b.room is null then 'limit' else 'breaker' end
         when 'place' then case when b.room is null then 'limit' else 'breaker' end
         else 'other' end as cause,
       sum(w.waiting)::bigint
  from (select p.parked_on as room, count(*) as waiting
          from (select d.parked_on from sendonce_deliveries d
                 where d.parked_on is not null order by d.parked_on limit :cap) p
         group by p.parked_on) w
  left join sendonce_breakers b on b.room = w.room
 group by 1
 order by 1;

-- name: channel_rooms
-- What waits for workers that serve it, and since when the first of it does. One step down the index for each room; in
-- every collation these names stand together.
with recursive r(name) as (
  (select d.parked_on from sendonce_deliveries d where d.parked_on > 'channel:' order by d.parked_on limit 1)
  union all
  select (select d.parked_on from sendonce_deliveries d where d.parked_on > r.name order by d.parked_on limit 1)
    from r
   where r.name like 'channel:%'
)
select r.name,
       (select count(*) from (
         select 1 from sendonce_deliveries d where d.parked_on = r.name order by d.id limit :cap) w),
       (select d.updated_at from sendonce_deliveries d where d.parked_on = r.name order by d.id limit 1)
  from r
 where r.name like 'channel:%'
 limit 1000;
