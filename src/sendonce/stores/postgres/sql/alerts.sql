-- name: tell_alert
-- The row comes back to the one caller who is to tell it: the others wait for its lock, and then it was told just now.
insert into sendonce_alerts as a (name, message, seen) values (:name, :message, :seen)
on conflict (name) do update
   set raised_at = case when a.is_raised then a.raised_at else now() end,
       told_at = now(), is_raised = true, seen = excluded.seen, message = excluded.message
 where not a.is_raised or a.told_at <= now() - :repeat::float8 * interval '1 second'
returning a.name;

-- name: note_alert
-- What is told already is kept up to date.
update sendonce_alerts
   set seen = :seen, message = :message
 where name = :name and is_raised and (seen, message) is distinct from (:seen::bigint, :message::text);

-- name: clear_alert
update sendonce_alerts
   set is_raised = false, told_at = now()
 where name = :name and is_raised
returning name;

-- name: alerts
select name, message, is_raised, seen, raised_at, told_at from sendonce_alerts order by name limit 1000;

-- name: readings
-- Each count walks its own index and stops at the cap; the newest first where what has ended stays in the index.
select now(),
       (select count(*) from (
         select 1 from sendonce_dead_letters
          where closed_at is null and reason <> 'cancelled' order by created_at limit :cap) a),
       (select min(next_attempt_at) from sendonce_deliveries where next_attempt_at <= now()),
       (select count(*) from (
         select status from sendonce_deliveries where in_doubt order by id desc limit :cap) a
        where a.status not in ('Completed', 'DeadLettered')),
       (select count(*) from (
         select kind, outcome, created_at from sendonce_findings order by id desc limit :cap) a
        where a.created_at > now() - :window::float8 * interval '1 second'
          and (a.kind in ('no_evidence', 'no_provider_id') or (a.kind = 'late_result' and a.outcome = 'Delivered'))),
       exists (select 1 from sendonce_stops where scope = 'all');
