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
       s.destination, b.allowance = 0 and b.probe_at <= :now,
       b.opened_at, b.probe_at, b.pause, b.turn, b.allowance, b.is_probing, b.on_way, b.through, b.failed, b.error_code,
       :now
  from r
  left join sendonce_breakers b on b.room = r.name
  left join sendonce_subscriptions s
    on s.id = cast(case when r.name glob 'rate:*' then substr(r.name, 6)
                        when r.name glob 'destination:subscription:*' then substr(r.name, 26) end as integer)
 where r.name like 'destination:%' or r.name like 'place:%' or r.name like 'rate:%' or r.name like 'channel:%'
 limit :limit;

-- name: breaker
select b.room, null, null, null, b.opened_at, b.probe_at, b.pause, b.turn, b.allowance, b.is_probing, b.on_way, b.through,
       b.failed, b.error_code, :now
  from sendonce_breakers b
 where b.room = :room;

-- name: clock
select :now;

-- name: add_breaker
insert into sendonce_breakers (room, opened_at, updated_at, probe_at, pause, turn, error_code)
values (:room, :opened_at, :now, :probe_at, :pause, :turn, :error_code)
on conflict (room) do nothing
returning room;

-- name: set_breaker
update sendonce_breakers
   set opened_at = :opened_at, probe_at = :probe_at, pause = :pause, turn = :turn, allowance = :allowance,
       is_probing = :is_probing, on_way = :on_way, through = :through, failed = :failed, error_code = :error_code,
       updated_at = :now
 where room = :room;

-- name: drop_breaker
delete from sendonce_breakers where room = :room;

-- name: forget_breakers
delete from sendonce_breakers
 where updated_at < :now - :age and probe_at < :now
   and not exists (
     select 1 from sendonce_deliveries d indexed by sendonce_deliveries_parked where d.parked_on = sendonce_breakers.room)
returning room;

-- name: add_bucket
insert into sendonce_buckets (subscription_id, refilled_at, tokens) values (:subscription_id, :now, 1)
on conflict (subscription_id) do nothing;

-- part: saved_up
-- A second's worth may be saved up, and at least one.
min(max(s.rate, 1.0), b.tokens + max(:now - b.refilled_at, 0) / 1e6 * s.rate)

-- name: take_tokens
-- No row: there is no rate, and nothing to wait for.
select min(cast(:(saved_up) as integer), :wanted)
  from sendonce_buckets b
  join sendonce_subscriptions s on s.id = b.subscription_id
 where b.subscription_id = :subscription_id and s.rate is not null;

-- name: spend_tokens
update sendonce_buckets as b
   set tokens = :(saved_up) - :taken, refilled_at = :now
  from sendonce_subscriptions s
 where b.subscription_id = :subscription_id and s.id = b.subscription_id;

-- name: give_back_tokens
update sendonce_buckets
   set tokens = min(max(s.rate, 1.0), tokens + :amount)
  from sendonce_subscriptions s
 where subscription_id = :subscription_id and s.id = :subscription_id and s.rate is not null;
