-- name: server_settings
-- What the whole server promises, and whether this one can be written to.
select current_setting('synchronous_commit'), current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
       current_setting('autovacuum') = 'on' and current_setting('track_counts') = 'on',
       pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on',
       current_setting('max_connections')::int
         - current_setting('superuser_reserved_connections')::int
         - coalesce(current_setting('reserved_connections', true), '0')::int,
       (select count(*)::int from pg_stat_activity a where a.backend_type = 'client backend'),
       pg_has_role(current_user, 'pg_read_all_stats', 'usage'),
       clock_timestamp(), current_setting('server_encoding');

-- name: careless_defaults
-- Whose sessions begin with commits that do not wait for the disk, in this database.
select coalesce(quote_ident(r.rolname) || case when s.setdatabase = 0 then '' else
         ' in database ' || quote_ident(current_database()) end, :every::text)
  from pg_db_role_setting s
  left join pg_roles r on r.oid = s.setrole
 where s.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database()))
   and exists (select 1 from unnest(s.setconfig) as c(text) where c.text in ('synchronous_commit=off', 'synchronous_commit=local'))
 order by 1
 limit 20;

-- name: vacuum_holders
-- What keeps vacuum from removing rows: who, for how many transactions, and for how long.
select 'transaction', a.pid::text, age(a.backend_xmin)::bigint, extract(epoch from clock_timestamp() - a.xact_start)::float8
  from pg_stat_activity a
 where a.backend_xmin is not null and a.pid <> pg_backend_pid() and a.xact_start is not null
   and a.backend_type = 'client backend' and a.datname = current_database()
 union all
select 'prepared transaction', p.gid, age(p.transaction)::bigint, extract(epoch from clock_timestamp() - p.prepared)::float8
  from pg_prepared_xacts p
 where p.database = current_database()
 union all
select case when s.active then 'replication slot' else 'unused replication slot' end, s.slot_name::text,
       age(coalesce(s.xmin, s.catalog_xmin))::bigint, null::float8
  from pg_replication_slots s
 where coalesce(s.xmin, s.catalog_xmin) is not null
 order by 3 desc
 limit 20;

-- name: table_health
-- Live and dead rows as they were last counted, the size in bytes, what it would be without room to spare, and whether
-- vacuum comes by itself.
select c.relname, coalesce(t.n_live_tup, 0), coalesce(t.n_dead_tup, 0), pg_relation_size(c.oid),
       (greatest(c.reltuples, 0) * (28 + coalesce(w.width, 0)) * 100
         / coalesce((select substr(o.text, 12)::int from unnest(c.reloptions) as o(text) where o.text like 'fillfactor=%'), 100)
       )::bigint,
       not coalesce('autovacuum_enabled=off' = any(c.reloptions) or 'autovacuum_enabled=false' = any(c.reloptions), false)
  from pg_class c
  left join pg_stat_user_tables t on t.relid = c.oid
  left join lateral (
    select sum(p.avg_width) as width from pg_stats p
     where p.schemaname = current_schema() and p.tablename = c.relname) w on true
 where c.relnamespace = quote_ident(current_schema())::regnamespace and c.relkind = 'r' and starts_with(c.relname, 'sendonce_')
 order by c.relname;

-- name: missing_rights
-- Of these rights, those that the role does not have. A right on columns is there when it is there on each. Roles are of
-- the whole server: one that has no right on a table here was made for another database, unless it is our own.
select k.role, k.privilege, k.object
  from (
    select r.rolname::text as role, w.privilege, w.object, h.is_held,
           r.rolname = current_user
             or bool_or(h.is_held and w.kind <> 'function') over (partition by r.rolname) as is_concerned
      from unnest(:roles::text[], :privileges::text[], :kinds::text[], :objects::text[], :columns::text[])
             as w(role, privilege, kind, object, columns)
      join pg_roles r on r.rolname = w.role
     cross join lateral (
       select case w.kind
                when 'function' then has_function_privilege(r.oid, to_regprocedure(w.object)::oid, w.privilege)
                when 'sequence' then has_sequence_privilege(r.oid, to_regclass(w.object)::oid, w.privilege)
                else has_table_privilege(r.oid, to_regclass(w.object)::oid, w.privilege)
                  or (w.columns <> '' and (
                    select bool_and(has_column_privilege(r.oid, to_regclass(w.object)::oid, c.name, w.privilege))
                      from unnest(string_to_array(w.columns, ',')) as c(name)))
              end as is_held) h
  ) k
 where not k.is_held and k.is_concerned
 order by 1, 3, 2
 limit 100;

-- name: strangers
-- Our schema, and who may create functions and operators in it beside the owners of it and of our tables.
select quote_ident(n.nspname), array_agg(distinct s.name order by s.name) filter (where s.name is not null)
  from pg_namespace n
  left join lateral (
    select case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name
      from aclexplode(n.nspacl) a
     where a.privilege_type = 'CREATE' and a.grantee <> n.nspowner
       and not exists (
         select 1 from pg_class c
          where c.relnamespace = n.oid and c.relowner = a.grantee and starts_with(c.relname::text, 'sendonce_'))) s on true
 where n.nspname = current_schema()
 group by n.nspname;

-- name: current_role
select current_user::text;

-- name: oldest_due
select (select min(d.next_attempt_at) from sendonce_deliveries d where d.next_attempt_at <= now()), now(),
       exists (select 1 from sendonce_stops s where s.scope = 'all');

-- name: send_times
-- How long the newest attempts took, without those whose worker has died.
select extract(epoch from a.finished_at - a.created_at)::float8, coalesce(a.error_code = 'lease_expired', false)
  from (select n.finished_at, n.created_at, n.error_code from sendonce_attempts n
         where n.delivery_id < :before
         order by n.delivery_id desc, n.attempt desc limit :limit) a
 where a.finished_at is not null;
