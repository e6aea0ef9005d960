-- name: rooms
-- One step down the index for each room: as cheap as there are rooms, however many wait in them.
with recursive r(name) as (
  select min(parked_on) from sendonce_deliveries indexed by sendonce_deliveries_parked where parked_on > :after
  union all
  select (select min(d.parked_on) from sendonce_deliveries d indexed by sendonce_deliveries_parked
           where d.parked_on > r.name)
    from r
   where r.name is not null
)
select r.name,
       (select count(*) from (
         select 1 from sendonce_deliveries d indexed by sendonce_deliveries_parked
          where d.parked_on = r.name order by d.id limit :cap)),
       b.opened_at, b.probe_at, b.allowance = 0 and b.probe_at <= :now, b.is_probing, b.allowance, b.error_code
  from r
  left join sendonce_breakers b on b.room = r.name
 where r.name like 'destination:%' or r.name like 'place:%' or r.name like 'rate:%'
 limit :limit;

-- name: trip
insert into sendonce_breakers (room, opened_at, updated_at, probe_at, pause, error_code)
values (:room, :now, :now, :now + cast(:pause * 1e6 as integer), :pause, :code)
on conflict (room) do update
   set probe_at = :now + cast(min(sendonce_breakers.pause * 2, :longest) * 1e6 as integer),
       pause = min(sendonce_breakers.pause * 2, :longest),
       allowance = 0, is_probing = 0, updated_at = :now, error_code = excluded.error_code
 where sendonce_breakers.is_probing = 1 or sendonce_breakers.allowance > 0
returning room;

-- name: ease
update sendonce_breakers
   set allowance = max(1, allowance) * 2, is_probing = 0, updated_at = :now
 where room = :room
returning allowance;

-- name: drop_breaker
delete from sendonce_breakers where room = :room;

-- name: take_probe
update sendonce_breakers
   set probe_at = :now + cast(:hold * 1e6 as integer), is_probing = 1, updated_at = :now
 where room = :room and allowance = 0 and probe_at <= :now
returning room;

-- name: forget_breakers
delete from sendonce_breakers
 where updated_at < :now - cast(:age * 1e6 as integer) and probe_at < :now
   and not exists (
     select 1 from sendonce_deliveries d indexed by sendonce_deliveries_parked where d.parked_on = sendonce_breakers.room)
returning room;

-- name: add_bucket
insert into sendonce_buckets (subscription_id, refilled_at, tokens) values (:subscription_id, :now, 1)
on conflict (subscription_id) do nothing;

-- name: tokens_of
-- A second's worth may be saved up, and at least one. No row: there is no rate, and nothing to wait for.
select min(max(s.rate, 1.0), b.tokens + max(:now - b.refilled_at, 0) / 1e6 * s.rate)
  from sendonce_buckets b
  join sendonce_subscriptions s on s.id = b.subscription_id
 where b.subscription_id = :subscription_id and s.rate is not null;

-- name: set_tokens
update sendonce_buckets set tokens = :tokens, refilled_at = :now where subscription_id = :subscription_id;
