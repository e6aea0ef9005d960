-- name: take_turn
-- Nobody waits here for long: whoever comes second finds that it is not due any more.
update sendonce_retention
   set held_by = :worker_id, due_at = now() + :hold::float8 * interval '1 second',
       last_id = case when whole_at <= now() - :whole::float8 * interval '1 second' then 0 else last_id end,
       whole_at = case when whole_at <= now() - :whole::float8 * interval '1 second' then now() else whole_at end
 where part = :part and due_at <= now()
returning last_id;

-- name: keep_turn
update sendonce_retention
   set last_id = :last_id, due_at = now() + :hold::float8 * interval '1 second'
 where part = :part and held_by = :worker_id
returning part;

-- name: end_turn
update sendonce_retention
   set held_by = null, due_at = now() + :wait::float8 * interval '1 second'
 where part = :part and held_by = :worker_id;

-- name: pass_by
update sendonce_retention set last_id = greatest(last_id, :last_id) where part = :part and held_by is null;

-- name: retention_reached
select r.part, r.whole_at,
       (select e.created_at from sendonce_events e where e.id > r.last_id order by e.id limit 1)
  from sendonce_retention r
 where r.part <> 'rest'
 order by r.part;

-- name: retention_window
-- A bounded step up the primary key, up to the first event that is too young: so many events, and of these no more than
-- have so many deliveries together, but one.
with w as materialized (
  select e.id, e.created_at < now() - :age::float8 * interval '1 second' as is_old
    from sendonce_events e
   where e.id > :after
   order by e.id
   limit :limit
)
select w.id
  from w
 where w.is_old
   and w.id < coalesce((select min(y.id) from w y where not y.is_old), 9223372036854775807)
   and (w.id = (select min(f.id) from w f)
        or w.id < coalesce(
             (select d.event_id from sendonce_deliveries d where d.event_id > :after order by d.event_id
              offset :rows limit 1), 9223372036854775807))
 order by w.id;

-- name: ripe_events
-- Those of these events whose time has come: everything about them has ended, and longer ago than that. A person's
-- decision about a dead letter counts as its end.
select e.id
  from sendonce_events e
 cross join lateral (
   select max(greatest(t.updated_at, l.closed_at)) as ended_at,
          coalesce(bool_or(t.status not in ('Completed', 'DeadLettered') or l.is_open), false) as is_open
     from sendonce_deliveries t
     left join lateral (
       select z.closed_at, z.closed_at is null as is_open from sendonce_dead_letters z
        where z.delivery_id = t.id and t.status = 'DeadLettered' offset 0) l on true
    where t.event_id = e.id) d
 where e.id = any(:ids::bigint[])
   and (:stage::text <> 'payloads' or e.payload is not null or e.headers is not null
        or exists (select 1 from sendonce_contents c where c.event_id = e.id and c.content is not null offset 0))
   and (:stage::text <> 'history'
        or not exists (select 1 from sendonce_requests q where q.event_id = e.id offset 0))
   and (:stage::text <> 'history' or d.ended_at is not null)
   and not d.is_open
   and coalesce(d.ended_at, e.created_at) < now() - :age::float8 * interval '1 second'
 order by e.id;

-- name: held_events
-- Locks their deliveries; the events with one that somebody else holds, to open what comes after it.
with l as materialized (
  select id from sendonce_deliveries where event_id = any(:ids::bigint[]) order by id for update skip locked
)
select distinct d.event_id
  from sendonce_deliveries d
 where d.event_id = any(:ids::bigint[]) and not exists (select 1 from l where l.id = d.id)
 order by d.event_id;

-- name: lock_events
-- Whoever opens a generation of one of them meanwhile is let go first: it is looked at again another time.
select id from sendonce_events where id = any(:ids::bigint[]) order by id for update skip locked;

-- name: held_requests
-- Locks the requests of these events; those events whose request somebody else holds, to give it another key.
with l as materialized (
  select id from sendonce_requests where event_id = any(:ids::bigint[]) order by id for update skip locked
)
select q.event_id
  from sendonce_requests q
 where q.event_id = any(:ids::bigint[]) and not exists (select 1 from l where l.id = q.id)
 order by q.event_id;

-- name: deliveries_of_events
select id from sendonce_deliveries where event_id = any(:ids::bigint[]) order by id;

-- name: requests_of_events
select id from sendonce_requests where event_id = any(:ids::bigint[]) order by id;

-- name: blank_events
update sendonce_events
   set payload = null, headers = null, content_gone_at = coalesce(content_gone_at, now())
 where id = any(:ids::bigint[])
   and (payload is not null or headers is not null or content_gone_at is null);

-- name: blank_contents
update sendonce_contents
   set content = null
 where event_id = any(:ids::bigint[]) and content is not null;

-- name: delete_attempts
delete from sendonce_attempts where delivery_id = any(:ids::bigint[]);

-- name: delete_findings
delete from sendonce_findings where delivery_id = any(:ids::bigint[]);

-- name: delete_dead_letters
delete from sendonce_dead_letters where delivery_id = any(:ids::bigint[]);

-- name: delete_corrections
delete from sendonce_corrections where delivery_id = any(:ids::bigint[]);

-- name: delete_contents
delete from sendonce_contents where event_id = any(:ids::bigint[]);

-- name: count_removed
-- What was counted when it ended is counted when it goes: the difference is what is there.
insert into sendonce_counters (name, amount)
select case d.status when 'Completed' then 'removed_completed' else 'removed_dead_lettered' end, count(*)
  from sendonce_deliveries d
 where d.id = any(:ids::bigint[]) and (d.status = 'DeadLettered' or d.attempt_count > 0)
 group by d.status;

-- name: delete_deliveries
delete from sendonce_deliveries where id = any(:ids::bigint[]);

-- name: mark_history_gone
update sendonce_events set history_gone_at = now() where id = any(:ids::bigint[]) and history_gone_at is null;

-- name: delete_recipients
delete from sendonce_recipients where request_id = any(:ids::bigint[]);

-- name: delete_request_keys
delete from sendonce_request_keys where request_id = any(:ids::bigint[]);

-- name: delete_requests
delete from sendonce_requests where id = any(:ids::bigint[]);

-- name: delete_events
delete from sendonce_events where id = any(:ids::bigint[]);

-- name: drop_all_ended_secrets
delete from sendonce_subscription_secrets
 where id = any(array(
   select id from sendonce_subscription_secrets where expires_at <= now() order by expires_at, id limit :limit))
returning id;

-- name: drop_old_workers
-- The oldest rows are looked at: those of workers that have lived long are few.
delete from sendonce_workers
 where id = any(array(select w.id from (select id from sendonce_workers order by id limit :limit) w order by w.id))
   and seen_at < now() - :age::float8 * interval '1 second'
returning id;

-- name: drop_old_operations
delete from sendonce_operations
 where id = any(array(select w.id from (select id from sendonce_operations order by id limit :limit) w order by w.id))
   and finished_at < now() - :age::float8 * interval '1 second'
returning id;

-- name: log_upkeep
insert into sendonce_operations (kind, operator, reason, subject, affected, details, finished_at)
values (:kind, :operator, :reason, :subject, :affected, :details, now())
returning id;

-- name: without_content
-- Those of these deliveries that cannot be sent, because what they would send is no longer kept.
select d.id
  from sendonce_deliveries d
  join sendonce_events e on e.id = d.event_id
 where d.id = any(:delivery_ids::bigint[])
   and case when d.has_content
            then not exists (
              select 1 from sendonce_contents c
               where c.event_id = d.event_id and c.destination_hash = d.destination_hash
                 and c.corrections = d.corrections and c.content is not null offset 0)
            else e.payload is null end
 order by d.id;

-- name: take_audit
-- As take_turn; the first one of all makes the row.
insert into sendonce_audits as a (id, held_by, due_at)
values (1, :worker_id, now() + :hold::float8 * interval '1 second')
on conflict (id) do update set held_by = excluded.held_by, due_at = excluded.due_at
 where a.due_at <= now()
returning id;

-- name: keep_audit
update sendonce_audits set due_at = now() + :hold::float8 * interval '1 second'
 where id = 1 and held_by = :worker_id
returning id;

-- name: end_audit
update sendonce_audits set held_by = null, due_at = now() + :wait::float8 * interval '1 second'
 where id = 1 and held_by = :worker_id;
