-- name: has_meta
select 1 from sqlite_master where type = 'table' and name = 'sendonce_meta';

-- name: schema_version
select cast(value as integer) from sendonce_meta where name = 'schema_version';

-- name: set_schema_version
insert into sendonce_meta (name, value) values ('schema_version', :version)
on conflict (name) do update set value = excluded.value;

-- name: backfill
select value from sendonce_meta where name = :name;

-- name: set_backfill
update sendonce_meta set value = :value where name = :name;

-- name: close_backfill
insert into sendonce_meta (name, value) values (:name, 'closed') on conflict (name) do nothing;

-- name: backfills
select name, value from sendonce_meta where name between 'backfill:' and 'backfill;' order by name;
