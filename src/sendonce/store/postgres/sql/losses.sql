-- part: loss
l.id, l.noticed_at, l.noticed_by, l.ended_at, l.ended_by, l.upto_id, l.marked_id, l.doubted

-- part: lost_until
-- Of a delivery d that was given up before lost commits were noticed, or before a person has said so, and was not shown to
-- be none: until when it is left alone; null of any other. A person may have had it sent again in the time that is lost.
case when d.status = 'DeadLettered' then coalesce(
  (select max(l.noticed_at + l.wait * interval '1 second')
     from sendonce_losses l
    where l.upto_id >= d.id and l.noticed_at > d.updated_at and (l.ended_by is null or l.ended_by = 'sendonce worker')),
  case when d.updated_at < (select max(o.created_at) from sendonce_operations o where o.kind = 'doubt')
       then d.updated_at end) end

-- name: notice_loss
-- Once for all workers: whoever has noticed it since the claim that is missing has noticed that too. Where retention has
-- taken away the history of its event, or has come past an event that is gone, the claim is not missing but old; of any
-- other event that is gone nobody knows after a month. One that is not settled yet is begun anew: what was recorded since,
-- and what was asked about already, may have been sent and be forgotten again.
insert into sendonce_losses as l (upto_id, wait, noticed_by)
select coalesce((select max(d.id) from sendonce_deliveries d), 0), :wait::float8, :noticed_by
 where not exists (select 1 from sendonce_losses n where n.noticed_at > :at::timestamptz)
   and not exists (select 1 from sendonce_events e where e.id = :event_id and e.history_gone_at is not null)
   and (exists (select 1 from sendonce_events e where e.id = :event_id)
        or (:at::timestamptz > now() - interval '30 days'
            and not exists (select 1 from sendonce_retention r where r.part = 'keys' and r.last_id >= :event_id)))
on conflict ((ended_at is null)) where ended_at is null do update
   set noticed_at = excluded.noticed_at, noticed_by = excluded.noticed_by, upto_id = excluded.upto_id, marked_id = 0,
       wait = greatest(l.wait, excluded.wait)
 where l.noticed_at <= :at::timestamptz
returning :(loss);

-- name: noticed_since
select :(loss) from sendonce_losses l where l.noticed_at > :at::timestamptz order by l.noticed_at desc limit 1;

-- name: loss_to_mark
select l.id, l.upto_id, l.marked_id, l.wait
  from sendonce_losses l
 where l.ended_at is null and l.marked_id < l.upto_id
   for update;

-- name: loss_marked
update sendonce_losses l
   set marked_id = :marked_id, doubted = l.doubted + :doubted
 where l.id = :loss_id
returning :(loss);

-- name: end_loss
update sendonce_losses l
   set ended_at = now(), ended_by = :ended_by
 where l.ended_at is null and l.marked_id >= l.upto_id
   and not exists (
     select 1 from sendonce_deliveries d
      where d.in_doubt and d.id <= l.upto_id and d.doubted_by = l.id and d.status not in ('Completed', 'DeadLettered'))
returning :(loss);

-- name: disprove_loss
update sendonce_losses l
   set ended_at = now(), ended_by = :ended_by, marked_id = l.upto_id
 where l.ended_at is null
returning :(loss);

-- name: undoubt
-- The doubt that a loss alone has raised is over with it; what waits for its moment only for that is due again.
with w as materialized (
  select d.id from sendonce_deliveries d
   where d.in_doubt and d.doubted_by = :loss_id and d.status in ('Pending', 'PendingRetry')
   order by d.id
   limit :limit
     for update
)
update sendonce_deliveries d
   set in_doubt = false, doubted_by = null, not_before = null, updated_at = now(),
       next_attempt_at = case when d.next_attempt_at = d.not_before then now() else d.next_attempt_at end
 where d.id = any(array(select w.id from w))
returning d.id;

-- name: open_loss
select :(loss) from sendonce_losses l where l.ended_at is null;

-- name: instance
select value from sendonce_meta where name = 'instance';

-- name: set_instance
insert into sendonce_meta (name, value) values ('instance', :name)
on conflict (name) do update set value = excluded.value;

-- name: drop_instance
delete from sendonce_meta where name = 'instance';

-- name: orphans
-- What is being sent under a lease that is not there: nobody would ever take it over.
with d as materialized (
  select n.id, n.status from sendonce_deliveries n where n.id > :after order by n.id limit :limit
)
select d.id, a.lease_id
  from d
 cross join lateral (
   select t.lease_id from sendonce_attempts t
    where t.delivery_id = d.id and t.status is not distinct from 'Leased' order by t.attempt desc limit 1) a
 where d.status = 'InProgress' and not exists (select 1 from sendonce_leases l where l.id = a.lease_id)
 order by d.id;

-- name: fence
select sendonce_fence(:instance::text, :seen_delivery::bigint, :seen_attempt::int, :seen_lease::bigint);

-- name: server
select s.system_identifier::text, c.timeline_id::text, pg_postmaster_start_time()::text
  from pg_control_system() s, pg_control_checkpoint() c;
