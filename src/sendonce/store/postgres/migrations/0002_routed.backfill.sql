-- name: hold
lock table sendonce_events in share mode;

-- name: bound
select coalesce(max(id), 0) from sendonce_events;

-- name: late
select exists (select 1 from sendonce_events where id > :bound and routed is null);

-- name: upto
select max(w.id) from (select id from sendonce_events where id > :after and id <= :bound order by id limit :rows) w;

-- name: fill
-- In the order of the ids, as retention locks them. Where that has deleted the deliveries there is nothing to count.
with wanted as materialized (
  select id
    from sendonce_events
   where id > :after and id <= :upto and routed is null and history_gone_at is null
   order by id
     for no key update
)
update sendonce_events e
   set routed = (
     select count(*) from sendonce_deliveries d where d.event_id = e.id and d.generation = 0 and d.corrections = 0)
  from wanted w
 where e.id = w.id;
