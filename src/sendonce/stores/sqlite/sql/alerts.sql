-- name: tell_alert
-- The row comes back to the one caller who is to tell it.
insert into sendonce_alerts as a (name, message, seen, raised_at, told_at) values (:name, :message, :seen, :now, :now)
on conflict (name) do update
   set raised_at = case when a.is_raised then a.raised_at else :now end,
       told_at = :now, is_raised = 1, seen = excluded.seen, message = excluded.message
 where not a.is_raised or a.told_at <= :now - :repeat
returning name;

-- name: note_alert
-- What is told already is kept up to date.
update sendonce_alerts set seen = :seen, message = :message where name = :name and is_raised = 1;

-- name: clear_alert
update sendonce_alerts set is_raised = 0, told_at = :now where name = :name and is_raised = 1 returning name;

-- name: alerts
select name, message, is_raised, seen, raised_at, told_at from sendonce_alerts order by name limit 1000;

-- name: readings
-- Each count walks its own index and stops at the cap; the newest first where what has ended stays in the index.
select :now,
       (select count(*) from (
         select 1
           from sendonce_dead_letters indexed by sendonce_dead_letters_waiting
          where closed_at is null and reason <> 'cancelled'
          limit :cap)),
       (select min(next_attempt_at) from sendonce_deliveries where next_attempt_at <= :now),
       (select count(*) from (
         select status
           from sendonce_deliveries indexed by sendonce_deliveries_in_doubt
          where in_doubt = 1
          order by id desc
          limit :cap)
         where status not in ('Completed', 'DeadLettered')),
       (select count(*) from (
         select kind, outcome, created_at from sendonce_findings where id > 0 order by id desc limit :cap)
         where created_at > :since
           and (kind in ('no_evidence', 'no_provider_id') or (kind = 'late_result' and outcome = 'Delivered'))),
       exists (select 1 from sendonce_stops where scope = 'all');
