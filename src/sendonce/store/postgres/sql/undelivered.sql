-- name: undelivered_places
-- What has not arrived is due or scheduled, parked, in flight, or an open dead letter: each part walks its own index, up
-- to the window. One may be due again before its lease is released.
select distinct id
  from (
    (select id from sendonce_deliveries where next_attempt_at is not null order by next_attempt_at, id limit :window)
    union all
    (select id from sendonce_deliveries where parked_on is not null order by parked_on, id limit :window)
    union all
    (select w.id from sendonce_leases l cross join lateral unnest(l.deliveries) as w(id) limit :window)
    union all
    (select delivery_id
       from sendonce_dead_letters
      where closed_at is null
      order by created_at, id
      limit :window)
  ) p
 order by id desc;

-- name: undelivered_ids
select d.id
  from sendonce_deliveries d
  join sendonce_events e on e.id = d.event_id
 where d.id = any(:ids::bigint[])
   and d.status <> 'Completed'
   and (:tenant::text is null or e.tenant = :tenant::text)
   and (d.status <> 'DeadLettered' or exists (
     select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.closed_at is null offset 0))
 order by d.id desc
 limit :limit;
