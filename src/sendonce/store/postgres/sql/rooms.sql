-- name: rooms
-- One step down the index for each room: as cheap as there are rooms, however many wait in them. "lateral … offset 0"
-- keeps their order: a plain join may become one that does not, and whoever goes on after the last row would miss rooms.
with recursive r(name) as (
  (select d.parked_on from sendonce_deliveries d where d.parked_on > :after order by d.parked_on limit 1)
  union all
  select (select d.parked_on from sendonce_deliveries d where d.parked_on > r.name order by d.parked_on limit 1)
    from r
   where r.name is not null
)
select r.name,
       (select count(*) from (
         select 1 from sendonce_deliveries d where d.parked_on = r.name order by d.id limit :cap) w),
       s.destination, b.allowance = 0 and b.probe_at <= now(),
       b.opened_at, b.probe_at, b.pause, b.turn, b.allowance, b.is_probing, b.on_way, b.through, b.failed, b.error_code,
       now()
  from r
  left join lateral (
    select n.opened_at, n.probe_at, n.pause, n.turn, n.allowance, n.is_probing, n.on_way, n.through, n.failed, n.error_code
      from sendonce_breakers n where n.room = r.name offset 0) b on true
  left join lateral (
    select n.destination
      from sendonce_subscriptions n
     where n.id = (regexp_match(r.name, '^(rate|destination.subscription).([0-9]{1,18})$'))[2]::bigint offset 0) s on true
 where r.name like 'destination:%' or r.name like 'place:%' or r.name like 'rate:%' or r.name like 'channel:%'
 limit :limit;

-- name: breaker
select b.room, null, null, null, b.opened_at, b.probe_at, b.pause, b.turn, b.allowance, b.is_probing, b.on_way, b.through,
       b.failed, b.error_code, now()
  from sendonce_breakers b
 where b.room = :room
   for update;

-- name: clock
select now();

-- name: add_breaker
insert into sendonce_breakers (room, opened_at, probe_at, pause, turn, error_code)
values (:room, :opened_at, :probe_at, :pause::float8, :turn, :error_code)
on conflict (room) do nothing
returning room;

-- name: set_breaker
update sendonce_breakers
   set opened_at = :opened_at, probe_at = :probe_at, pause = :pause::float8, turn = :turn, allowance = :allowance,
       is_probing = :is_probing, on_way = :on_way, through = :through, failed = :failed, error_code = :error_code,
       updated_at = now()
 where room = :room;

-- name: drop_breaker
delete from sendonce_breakers where room = :room;

-- name: forget_breakers
delete from sendonce_breakers
 where updated_at < now() - :age::float8 * interval '1 second' and probe_at < now()
   and not exists (
     select 1 from sendonce_deliveries d where d.parked_on = sendonce_breakers.room)
returning room;

-- name: add_bucket
insert into sendonce_buckets (subscription_id, refilled_at, tokens)
values (:subscription_id, clock_timestamp(), 1)
on conflict (subscription_id) do nothing;

-- name: take_tokens
-- A second's worth may be saved up, and at least one. No row: there is no rate, and nothing to wait for.
with x as materialized (
  select b.subscription_id,
         least(greatest(s.rate, 1),
               b.tokens + greatest(extract(epoch from clock_timestamp() - b.refilled_at)::float8, 0) * s.rate) as tokens
    from sendonce_buckets b
    join sendonce_subscriptions s on s.id = b.subscription_id
   where b.subscription_id = :subscription_id and s.rate is not null
     for update of b
)
update sendonce_buckets b
   set tokens = x.tokens - least(floor(x.tokens), :wanted::int), refilled_at = clock_timestamp()
  from x
 where b.subscription_id = x.subscription_id
returning least(floor(x.tokens), :wanted::int)::int;

-- name: spend_tokens
-- They were spent as they were taken.

-- name: give_back_tokens
update sendonce_buckets b
   set tokens = least(greatest(s.rate, 1), b.tokens + :amount::int)
  from sendonce_subscriptions s
 where b.subscription_id = :subscription_id and s.id = b.subscription_id and s.rate is not null;
