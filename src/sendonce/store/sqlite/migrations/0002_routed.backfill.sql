-- name: bound
select coalesce(max(id), 0) from sendonce_events;

-- name: late
select exists (select 1 from sendonce_events where id > :bound and routed is null);

-- name: upto
select max(w.id) from (select id from sendonce_events where id > :after and id <= :bound order by id limit :rows) w;

-- name: fill
-- Where retention has deleted the deliveries there is nothing to count.
update sendonce_events
   set routed = (
     select count(*) from sendonce_deliveries d
      where d.event_id = sendonce_events.id and d.generation = 0 and d.corrections = 0)
 where id > :after and id <= :upto and routed is null and history_gone_at is null;
