-- name: oldest_due
select (select min(d.next_attempt_at) from sendonce_deliveries d where d.next_attempt_at <= :now), :now,
       exists (select 1 from sendonce_stops s where s.scope = 'all');

-- name: send_times
select (a.finished_at - a.created_at) / 1e6, coalesce(a.error_code = 'lease_expired', 0)
  from (select n.finished_at, n.created_at, n.error_code from sendonce_attempts n
         where n.delivery_id < :before
         order by n.delivery_id desc, n.attempt desc limit :limit) a
 where a.finished_at is not null;

-- name: newest_time
-- No row is newer than now, unless a clock was set back.
select max(coalesce((select d.created_at from sendonce_deliveries d not indexed
                   where d.id < :before order by d.id desc limit 1), 0),
           coalesce((select max(w.seen_at) from sendonce_workers w), 0));
