-- part: wanted
(:type::text is null or e.type = :type::text)
and (:family::text is null or starts_with(e.type, :family::text))
and (:tenant::text is null or e.tenant = :tenant::text)
and (:destination::text is null or d.destination = :destination::text)

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
    from (select id, delivery_id, reason, created_at, closed_at from sendonce_dead_letters
           where id > :after and id <= :upper order by id limit :window) z
),
m as materialized (
  select w.id, w.nth, w.delivery_id, d.in_doubt or :(lost_until) is not null as may_have_arrived
    from w
   cross join lateral (
     select t.id, t.event_id, t.destination, t.status, t.in_doubt, t.updated_at from sendonce_deliveries t
      where t.id = w.delivery_id offset 0) d
   cross join lateral (select t.type, t.tenant from sendonce_events t where t.id = d.event_id offset 0) e
   where w.closed_at is null
     and case when :reason::text is null then w.reason <> 'cancelled' else w.reason = :reason::text end
     and (:since::timestamptz is null or w.created_at >= :since::timestamptz)
     and (:until::timestamptz is null or w.created_at < :until::timestamptz)
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
            from sendonce_deliveries where id > :after and id <= :upper order by id limit :window) z
),
m as materialized (
  select d.id, d.nth, d.id as delivery_id,
         d.in_doubt or d.status = 'Completed' or :(lost_until) is not null as may_have_arrived
    from w d
   cross join lateral (select t.type, t.tenant from sendonce_events t where t.id = d.event_id offset 0) e
   where d.status in ('Completed', 'DeadLettered')
     and (:since::timestamptz is null or d.created_at >= :since::timestamptz)
     and (:until::timestamptz is null or d.created_at < :until::timestamptz)
     and :(wanted)
     and not exists (
       select 1 from sendonce_deliveries n
        where n.event_id = d.event_id and n.destination_hash = d.destination_hash and n.generation = d.generation + 1
        offset 0)
     and ((d.status = 'Completed' and :reason::text is null) or exists (
       select 1 from sendonce_dead_letters z
        where z.delivery_id = d.id and z.closed_at is null
          and case when :reason::text is null then z.reason <> 'cancelled' else z.reason = :reason::text end
        offset 0))
   order by d.id
   limit :most
)
:(answer);

-- name: cancel_window
-- A bounded step up the deliveries: those that wait for their first or next attempt.
with w as materialized (
  select z.id, z.event_id, z.destination, z.status, z.in_doubt, z.created_at, row_number() over (order by z.id) as nth
    from (select id, event_id, destination, status, in_doubt, created_at
            from sendonce_deliveries where id > :after and id <= :upper order by id limit :window) z
),
m as materialized (
  select d.id, d.nth, d.id as delivery_id, d.in_doubt as may_have_arrived
    from w d
   cross join lateral (select t.type, t.tenant from sendonce_events t where t.id = d.event_id offset 0) e
   where d.status in ('Pending', 'PendingRetry')
     and (:since::timestamptz is null or d.created_at >= :since::timestamptz)
     and (:until::timestamptz is null or d.created_at < :until::timestamptz)
     and :(wanted)
   order by d.id
   limit :most
)
:(answer);

-- name: letter_bounds
-- From which id to which a walk up the dead letters goes.
select coalesce((select min(id) from sendonce_dead_letters), 1) - 1, coalesce((select max(id) from sendonce_dead_letters), 0);

-- name: delivery_bounds
select coalesce((select min(id) from sendonce_deliveries), 1) - 1, coalesce((select max(id) from sendonce_deliveries), 0);

-- name: still_open
-- Asked when their rows are held: which of these can still be opened again, and whether each is an open dead letter, which
-- somebody may be closing now. A requeue is for those only.
select d.id, d.status = 'DeadLettered'
  from unnest(:delivery_ids::bigint[]) as w(id)
 cross join lateral (select t.* from sendonce_deliveries t where t.id = w.id offset 0) d
  left join lateral (select t.closed_at, t.closed_as from sendonce_dead_letters t where t.delivery_id = d.id offset 0) z
    on true
 where d.status in ('Completed', 'DeadLettered')
   and not exists (
     select 1 from sendonce_deliveries n
      where n.event_id = d.event_id and n.destination_hash = d.destination_hash and n.generation = d.generation + 1
      offset 0)
   and case when :kind::text = 'requeue' then d.status = 'DeadLettered' else true end
   and z.closed_at is null
 order by d.id;

-- name: begin_operation
insert into sendonce_operations (kind, operator, reason, subject, state, filter, rate, first_id, last_id, upper_id)
values (:kind, :operator, :reason, :subject, 'running', :filter, :rate, :first_id, :first_id, :upper_id)
returning :(columns);

-- name: lock_operation
select :(columns) from sendonce_operations where id = :operation_id for update;

-- name: move_operation
update sendonce_operations
   set last_id = :last_id, looked = looked + :looked, affected = affected + :affected, skipped = skipped + :skipped,
       updated_at = now(), state = case when :ended::boolean then 'done' else state end,
       finished_at = case when :ended::boolean then now() end
 where id = :operation_id
returning :(columns);

-- name: set_operation_state
update sendonce_operations
   set state = :state::text, updated_at = now(), finished_at = case when :state::text = 'cancelled' then now() end
 where id = :operation_id
returning :(columns);

-- name: operation_window
select id from sendonce_operations where id < :before order by id desc limit :window;

-- name: operation_at
select created_at from sendonce_operations where id = :id;

-- name: operation_rows
select :(columns)
  from sendonce_operations
 where id = any(:ids::bigint[])
   and (:state::text is null or state = :state::text)
 order by id desc
 limit :limit;
