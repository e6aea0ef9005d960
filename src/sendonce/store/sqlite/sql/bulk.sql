-- part: wanted
(:type is null or e.type = :type)
and (:family is null or substr(e.type, 1, length(:family)) = :family)
and (:tenant is null or e.tenant = :tenant)
and (:destination is null or d.destination = :destination)

-- part: answer
-- How far was looked, and what matches; one row without a match when nothing does.
select g.last_id, g.looked, m.id, m.nth, m.delivery_id, m.may_have_arrived
  from (select max(w.id) as last_id, count(*) as looked from w) g
  left join m on true
 order by m.id

-- part: columns
id, kind, operator, reason, subject, state, filter, rate, first_id, last_id, upper_id, looked, affected, skipped,
created_at, updated_at, finished_at

-- name: letter_window
-- A bounded step up the dead letters. What a person has cancelled is meant only when it is asked for.
with w as materialized (
  select z.id, z.delivery_id, z.reason, z.created_at, z.closed_at, row_number() over (order by z.id) as nth
    from (select id, delivery_id, reason, created_at, closed_at from sendonce_dead_letters not indexed
           where id > :after and id <= :upper order by id limit :window) z
),
m as materialized (
  select w.id, w.nth, w.delivery_id, d.in_doubt or :(lost_until) is not null as may_have_arrived
    from w
   cross join sendonce_deliveries d not indexed on d.id = w.delivery_id
   cross join sendonce_events e not indexed on e.id = d.event_id
   where w.closed_at is null
     and case when :reason is null then w.reason <> 'cancelled' else w.reason = :reason end
     and (:since is null or w.created_at >= :since)
     and (:until is null or w.created_at < :until)
     and :(wanted)
   order by w.id
   limit :most
)
:(answer);

-- name: replay_window
-- A bounded step up the deliveries: those that were sent, or given up with nobody having decided about that; and that
-- have no newer generation. To cancel is to decide: those are found only when this reason is asked for.
with w as materialized (
  select z.id, z.event_id, z.destination, z.destination_hash, z.generation, z.status, z.in_doubt, z.created_at,
         z.updated_at, row_number() over (order by z.id) as nth
    from (select id, event_id, destination, destination_hash, generation, status, in_doubt, created_at, updated_at
            from sendonce_deliveries not indexed where id > :after and id <= :upper order by id limit :window) z
),
m as materialized (
  select d.id, d.nth, d.id as delivery_id,
         d.in_doubt or d.status = 'Completed' or :(lost_until) is not null as may_have_arrived
    from w d
   cross join sendonce_events e not indexed on e.id = d.event_id
   where d.status in ('Completed', 'DeadLettered')
     and (:since is null or d.created_at >= :since)
     and (:until is null or d.created_at < :until)
     and :(wanted)
     and not exists (
       select 1 from sendonce_deliveries n
        where n.event_id = d.event_id and n.destination_hash = d.destination_hash and n.generation = d.generation + 1)
     and ((d.status = 'Completed' and :reason is null) or exists (
       select 1 from sendonce_dead_letters l
        where l.delivery_id = d.id and l.closed_at is null
          and case when :reason is null then l.reason <> 'cancelled' else l.reason = :reason end))
   order by d.id
   limit :most
)
:(answer);

-- name: cancel_window
-- A bounded step up the deliveries: those that wait for their first or next attempt.
with w as materialized (
  select z.id, z.event_id, z.destination, z.status, z.in_doubt, z.created_at, row_number() over (order by z.id) as nth
    from (select id, event_id, destination, status, in_doubt, created_at
            from sendonce_deliveries not indexed where id > :after and id <= :upper order by id limit :window) z
),
m as materialized (
  select d.id, d.nth, d.id as delivery_id, d.in_doubt as may_have_arrived
    from w d
   cross join sendonce_events e not indexed on e.id = d.event_id
   where d.status in ('Pending', 'PendingRetry')
     and (:since is null or d.created_at >= :since)
     and (:until is null or d.created_at < :until)
     and :(wanted)
   order by d.id
   limit :most
)
:(answer);

-- name: letter_bounds
-- From which id to which a walk up the dead letters goes.
select coalesce((select min(id) from sendonce_dead_letters not indexed), 1) - 1, coalesce((select max(id) from sendonce_dead_letters not indexed), 0);

-- name: delivery_bounds
select coalesce((select min(id) from sendonce_deliveries not indexed), 1) - 1, coalesce((select max(id) from sendonce_deliveries not indexed), 0);

-- name: still_open
-- Which of these can still be opened again, and whether each is an open dead letter. A requeue is for those only.
select d.id, d.status = 'DeadLettered'
  from json_each(:delivery_ids) wanted
 cross join sendonce_deliveries d not indexed on d.id = wanted.value
  left join sendonce_dead_letters z on z.delivery_id = d.id
 where d.status in ('Completed', 'DeadLettered')
   and not exists (
     select 1 from sendonce_deliveries n
      where n.event_id = d.event_id and n.destination_hash = d.destination_hash and n.generation = d.generation + 1)
   and case when :kind = 'requeue' then d.status = 'DeadLettered' else true end
   and z.closed_at is null
 order by d.id;

-- name: lock_operation
select :(columns) from sendonce_operations where id = :operation_id;

-- name: begin_operation
insert into sendonce_operations
  (created_at, updated_at, kind, operator, reason, subject, state, filter, rate, first_id, last_id, upper_id)
values (:now, :now, :kind, :operator, :reason, :subject, 'running', :filter, :rate, :first_id, :first_id, :upper_id)
returning :(columns);

-- name: move_operation
update sendonce_operations
   set last_id = :last_id, looked = looked + :looked, affected = affected + :affected, skipped = skipped + :skipped,
       updated_at = :now, state = case when :ended then 'done' else state end,
       finished_at = case when :ended then :now end
 where id = :operation_id
returning :(columns);

-- name: set_operation_state
update sendonce_operations
   set state = :state, updated_at = :now, finished_at = case when :state = 'cancelled' then :now end
 where id = :operation_id
returning :(columns);

-- name: operation_window
select id from sendonce_operations not indexed where id < :before order by id desc limit :window;

-- name: operation_at
select created_at from sendonce_operations where id = :id;

-- name: operation_rows
select :(columns)
  from sendonce_operations not indexed
 where id in (select value from json_each(:ids))
   and (:state is null or state = :state)
 order by id desc
 limit :limit;
