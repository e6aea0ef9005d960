-- name: take_turn
update sendonce_retention
   set held_by = :worker_id, due_at = :now + :hold,
       last_id = case when whole_at <= :now - :whole then 0 else last_id end,
       whole_at = case when whole_at <= :now - :whole then :now else whole_at end
 where part = :part and due_at <= :now
returning last_id;

-- name: keep_turn
update sendonce_retention
   set last_id = :last_id, due_at = :now + :hold
 where part = :part and held_by = :worker_id
returning part;

-- name: end_turn
update sendonce_retention set held_by = null, due_at = :now + :wait where part = :part and held_by = :worker_id;

-- name: pass_by
update sendonce_retention set last_id = max(last_id, :last_id) where part = :part and held_by is null;

-- name: retention_reached
select r.part, r.whole_at,
       (select e.created_at from sendonce_events e not indexed where e.id > r.last_id order by e.id limit 1)
  from sendonce_retention r
 where r.part <> 'rest'
 order by r.part;

-- name: retention_window
-- A bounded step up the primary key, up to the first event that is too young: so many events, and of these no more than
-- have so many deliveries together, but one.
with w as materialized (
  select e.id, e.created_at < :now - :age as is_old from sendonce_events e where e.id > :after order by e.id limit :limit
)
select w.id
  from w
 where w.is_old
   and w.id < coalesce((select min(y.id) from w y where not y.is_old), 9223372036854775807)
   and (w.id = (select min(f.id) from w f)
        or w.id < coalesce(
             (select d.event_id from sendonce_deliveries d where d.event_id > :after order by d.event_id
               limit 1 offset :rows), 9223372036854775807))
 order by w.id;

-- name: ripe_events
-- Those of these events whose time has come: everything about them has ended, and longer ago than that. A person's
-- decision about a dead letter counts as its end.
select r.id
  from (
    select e.id, e.created_at,
           (select max(max(t.updated_at, coalesce(z.closed_at, 0)))
              from sendonce_deliveries t
              left join sendonce_dead_letters z on z.delivery_id = t.id
             where t.event_id = e.id) as ended_at,
           exists (
             select 1
               from sendonce_deliveries t
               left join sendonce_dead_letters z on z.delivery_id = t.id
              where t.event_id = e.id
                and (t.status not in ('Completed', 'DeadLettered') or (z.id is not null and z.closed_at is null))) as is_open
      from json_each(:ids) w
     cross join sendonce_events e on e.id = w.value
     where (:stage <> 'payloads' or e.payload is not null or e.headers is not null
            or exists (select 1 from sendonce_contents c where c.event_id = e.id and c.content is not null))
       and (:stage <> 'history' or not exists (select 1 from sendonce_requests q where q.event_id = e.id))) r
 where not r.is_open
   and (:stage <> 'history' or r.ended_at is not null)
   and coalesce(r.ended_at, r.created_at) < :now - :age
 order by r.id;

-- name: held_events
-- There is one writer: nobody else holds any.

-- name: lock_events
select value from json_each(:ids);

-- name: held_requests
-- As with events.

-- name: deliveries_of_events
select d.id
  from json_each(:ids) w
 cross join sendonce_deliveries d on d.event_id = w.value
 order by d.id;

-- name: requests_of_events
select id from sendonce_requests where event_id in (select value from json_each(:ids)) order by id;

-- name: blank_events
-- One event at a time: for a list of ids old statistics could have the whole table read.
update sendonce_events
   set payload = null, headers = null, content_gone_at = coalesce(content_gone_at, :now)
 where id = :each_id
   and (payload is not null or headers is not null or content_gone_at is null);

-- name: blank_contents
update sendonce_contents
   set content = null
 where event_id in (select value from json_each(:ids)) and content is not null;

-- name: delete_attempts
delete from sendonce_attempts where delivery_id in (select value from json_each(:ids));

-- name: delete_findings
delete from sendonce_findings where delivery_id in (select value from json_each(:ids));

-- name: delete_dead_letters
delete from sendonce_dead_letters where delivery_id in (select value from json_each(:ids));

-- name: delete_corrections
delete from sendonce_corrections where delivery_id in (select value from json_each(:ids));

-- name: delete_contents
delete from sendonce_contents where event_id in (select value from json_each(:ids));

-- name: count_removed
-- What was counted when it ended is counted when it goes: the difference is what is there.
insert into sendonce_counters (created_at, amount, name)
select :now, count(*), case d.status when 'Completed' then 'removed_completed' else 'removed_dead_lettered' end
  from sendonce_deliveries d
 where d.id in (select value from json_each(:ids)) and (d.status = 'DeadLettered' or d.attempt_count > 0)
 group by d.status;

-- name: delete_deliveries
delete from sendonce_deliveries where id in (select value from json_each(:ids));

-- name: mark_history_gone
update sendonce_events set history_gone_at = :now where id = :each_id and history_gone_at is null;

-- name: delete_recipients
delete from sendonce_recipients where request_id in (select value from json_each(:ids));

-- name: delete_request_keys
delete from sendonce_request_keys where request_id in (select value from json_each(:ids));

-- name: delete_requests
delete from sendonce_requests where id in (select value from json_each(:ids));

-- name: delete_events
delete from sendonce_events where id = :each_id;

-- name: drop_all_ended_secrets
delete from sendonce_subscription_secrets
 where id in (
   select id from sendonce_subscription_secrets where expires_at <= :now order by expires_at, id limit :limit)
returning id;

-- name: drop_old_workers
-- The oldest rows are looked at: those of workers that have lived long are few.
delete from sendonce_workers
 where id in (select id from (select id from sendonce_workers order by id limit :limit)) and seen_at < :now - :age
returning id;

-- name: drop_old_operations
delete from sendonce_operations
 where id in (
   select w.id from (select id from sendonce_operations where id > 0 order by id limit :limit) w)
   and finished_at < :now - :age
returning id;

-- name: log_upkeep
insert into sendonce_operations (created_at, finished_at, updated_at, kind, operator, reason, subject, affected, details)
values (:now, :now, :now, :kind, :operator, :reason, :subject, :affected, :details)
returning id;

-- name: without_content
-- Those of these deliveries that cannot be sent, because what they would send is no longer kept.
select d.id
  from json_each(:delivery_ids) w
 cross join sendonce_deliveries d on d.id = w.value
 cross join sendonce_events e on e.id = d.event_id
 where case when d.has_content
            then not exists (
              select 1 from sendonce_contents c
               where c.event_id = d.event_id and c.destination_hash = d.destination_hash
                 and c.corrections = d.corrections and c.content is not null)
            else e.payload is null end
 order by d.id;

-- name: take_audit
-- As take_turn; the first one of all makes the row.
insert into sendonce_audits as a (id, held_by, due_at) values (1, :worker_id, :now + :hold)
on conflict (id) do update set held_by = excluded.held_by, due_at = excluded.due_at where a.due_at <= :now
returning id;

-- name: keep_audit
update sendonce_audits set due_at = :now + :hold where id = 1 and held_by = :worker_id returning id;

-- name: end_audit
update sendonce_audits set held_by = null, due_at = :now + :wait where id = 1 and held_by = :worker_id;
