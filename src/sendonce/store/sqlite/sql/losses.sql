-- part: loss
id, noticed_at, noticed_by, ended_at, ended_by, upto_id, marked_id, doubted

-- part: lost_until
-- Of a delivery d that was given up before lost commits were noticed, or before a person has said so, and was not shown to
-- be none: until when it is left alone; null of any other. A person may have had it sent again in the time that is lost.
case when d.status = 'DeadLettered' then coalesce(
  (select max(l.noticed_at + cast(1000000 * l.wait as integer))
     from sendonce_losses l
    where l.upto_id >= d.id and l.noticed_at > d.updated_at and (l.ended_by is null or l.ended_by = 'sendonce worker')),
  case when d.updated_at < (select max(o.created_at) from sendonce_operations o where o.kind = 'doubt')
       then d.updated_at end) end

-- name: fence
-- The first that is so: the database has another name than the worker's settings say, no longer has the newest claim that
-- the worker has seen committed, or has lost commits before and is not ready yet.
select case
         when exists (select 1 from sendonce_meta where name = 'instance' and value is not :instance) then 'other_instance'
         when :seen_lease is not null and not exists (
                select 1 from sendonce_attempts
                 where delivery_id = :seen_delivery and attempt = :seen_attempt and lease_id = :seen_lease)
         then 'commits_lost'
         when exists (select 1 from sendonce_losses where ended_at is null and marked_id < upto_id) then 'unmarked'
       end;

-- name: notice_loss
-- Once for all workers: whoever has noticed it since the claim that is missing has noticed that too. Where retention has
-- taken away the history of its event, or has come past an event that is gone, the claim is not missing but old; of any
-- other event that is gone nobody knows after a month. One that is not settled yet is begun anew: what was recorded since,
-- and what was asked about already, may have been sent and be forgotten again.
insert into sendonce_losses (noticed_at, upto_id, wait, noticed_by)
select :now, coalesce((select max(id) from sendonce_deliveries), 0), :wait, :noticed_by
 where not exists (select 1 from sendonce_losses where noticed_at > :at)
   and not exists (select 1 from sendonce_events where id = :event_id and history_gone_at is not null)
   and (exists (select 1 from sendonce_events where id = :event_id)
        or (:at > :now - 30 * 86400000000
            and not exists (select 1 from sendonce_retention where part = 'keys' and last_id >= :event_id)))
on conflict (ended_at is null) where ended_at is null do update
   set noticed_at = excluded.noticed_at, noticed_by = excluded.noticed_by, upto_id = excluded.upto_id, marked_id = 0,
       wait = max(wait, excluded.wait)
returning :(loss);

-- name: noticed_since
select :(loss) from sendonce_losses where noticed_at > :at order by noticed_at desc limit 1;

-- name: loss_to_mark
select id, upto_id, marked_id, wait from sendonce_losses where ended_at is null and marked_id < upto_id;

-- name: loss_marked
update sendonce_losses set marked_id = :marked_id, doubted = doubted + :doubted where id = :loss_id
returning :(loss);

-- name: end_loss
update sendonce_losses
   set ended_at = :now, ended_by = :ended_by
 where ended_at is null and marked_id >= upto_id
   and not exists (
     select 1 from sendonce_deliveries d indexed by sendonce_deliveries_in_doubt
      where d.in_doubt = 1 and d.id <= sendonce_losses.upto_id and d.doubted_by = sendonce_losses.id
        and d.status not in ('Completed', 'DeadLettered'))
returning :(loss);

-- name: disprove_loss
update sendonce_losses set ended_at = :now, ended_by = :ended_by, marked_id = upto_id where ended_at is null
returning :(loss);

-- name: undoubt
-- The doubt that a loss alone has raised is over with it; what waits for its moment only for that is due again.
update sendonce_deliveries
   set in_doubt = 0, doubted_by = null, not_before = null, updated_at = :now,
       next_attempt_at = case when next_attempt_at = not_before then :now else next_attempt_at end
 where id in (
   select id from sendonce_deliveries indexed by sendonce_deliveries_in_doubt
    where in_doubt = 1 and doubted_by = :loss_id and status in ('Pending', 'PendingRetry')
    order by id
    limit :limit)
returning id;

-- name: open_loss
select :(loss) from sendonce_losses where ended_at is null;

-- name: instance
select value from sendonce_meta where name = 'instance';

-- name: set_instance
insert into sendonce_meta (name, value) values ('instance', :name)
on conflict (name) do update set value = excluded.value;

-- name: drop_instance
delete from sendonce_meta where name = 'instance';

-- name: server
-- A file has none.

-- name: orphans
-- What is being sent under a lease that is not there: nobody would ever take it over.
select d.id, a.lease_id
  from (select id, status from sendonce_deliveries not indexed where id > :after order by id limit :limit) d
 cross join sendonce_attempts a on a.delivery_id = d.id and a.status = 'Leased'
 where d.status = 'InProgress' and not exists (select 1 from sendonce_leases l where l.id = a.lease_id)
 order by d.id;
