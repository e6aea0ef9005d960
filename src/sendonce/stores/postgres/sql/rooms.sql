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
       b.opened_at, b.probe_at, b.allowance = 0 and b.probe_at <= now(), b.is_probing, b.allowance, b.error_code
  from r
  left join lateral (
    select n.opened_at, n.probe_at, n.is_probing, n.allowance, n.error_code
      from sendonce_breakers n where n.room = r.name offset 0) b on true
 where r.name like 'destination:%' or r.name like 'place:%' or r.name like 'rate:%'
 limit :limit;

-- name: trip
insert into sendonce_breakers (room, probe_at, pause, error_code)
values (:room, now() + :pause::float8 * interval '1 second', :pause::float8, :code)
on conflict (room) do update
   set probe_at = now() + least(sendonce_breakers.pause * 2, :longest::float8) * interval '1 second',
       pause = least(sendonce_breakers.pause * 2, :longest::float8),
       allowance = 0, is_probing = false, updated_at = now(), error_code = excluded.error_code
 where sendonce_breakers.is_probing or sendonce_breakers.allowance > 0
returning room;

-- name: ease
update sendonce_breakers
   set allowance = greatest(1, allowance) * 2, is_probing = false, updated_at = now()
 where room = :room
returning allowance;

-- name: drop_breaker
delete from sendonce_breakers where room = :room;

-- name: take_probe
update sendonce_breakers
   set probe_at = now() + :hold::float8 * interval '1 second', is_probing = true, updated_at = now()
 where room = :room and allowance = 0 and probe_at <= now()
returning room;

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
