-- name: backfill
-- Whoever else runs a step of it at the same time waits here.
select value from sendonce_meta where name = :name for update;

-- name: set_backfill
update sendonce_meta set value = :value where name = :name;

-- name: close_backfill
insert into sendonce_meta (name, value) values (:name, 'closed') on conflict (name) do nothing;

-- name: backfills
select name, value from sendonce_meta where starts_with(name, 'backfill:') order by name;
