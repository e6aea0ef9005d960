-- name: undelivered_places
-- What has not arrived is due or scheduled, parked, in flight, or an open dead letter: each part walks its own index, up
-- to the window. One may be due again before its lease is released.
select distinct id
  from (
    select * from (
      select id
        from sendonce_deliveries indexed by sendonce_deliveries_due
       where next_attempt_at is not null
       order by next_attempt_at, id
       limit :window)
    union all
    select * from (
      select id
        from sendonce_deliveries indexed by sendonce_deliveries_parked
       where parked_on is not null
       order by parked_on, id
       limit :window)
    union all
    select * from (select w.value from sendonce_leases l cross join json_each(l.deliveries) w limit :window)
    union all
    select * from (
      select delivery_id
        from sendonce_dead_letters indexed by sendonce_dead_letters_open
       where closed_at is null
       order by created_at, id
       limit :window))
 order by id desc;

-- name: undelivered_ids
select d.id
  from json_each(:ids) w
 cross join sendonce_deliveries d not indexed on d.id = w.value
 cross join sendonce_events e not indexed on e.id = d.event_id
 where d.status <> 'Completed'
   and (:tenant is null or e.tenant = :tenant)
   and (d.status <> 'DeadLettered' or exists (
     select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.closed_at is null))
 order by d.id desc
 limit :limit;
