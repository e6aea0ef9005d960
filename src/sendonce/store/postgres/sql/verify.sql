-- part: range
d.id > :after and d.id <= :upto

-- part: step
-- The rows of the step by their key, whatever an index says of the rest.
(select d.* from sendonce_deliveries d where d.id > :after and d.id <= :upto order by d.id offset 0) d

-- part: last_attempt
-- The last attempt that has ended.
left join lateral (
  select a.outcome, a.finished_at from sendonce_attempts a
   where a.delivery_id = d.id and a.outcome is not null
   order by a.attempt desc limit 1) x on true

-- name: read_snapshot
-- All that one step looks at is of one moment, and nothing can be written.
set transaction isolation level repeatable read, read only;

-- name: verify_facts
select now(),
       coalesce((select sum(c.amount) from sendonce_counters c where c.name = 'completed'), 0)::bigint,
       coalesce((select sum(c.amount) from sendonce_counters c where c.name = 'dead_lettered'), 0)::bigint,
       coalesce((select sum(c.amount) from sendonce_counters c where c.name = 'removed_completed'), 0)::bigint,
       coalesce((select sum(c.amount) from sendonce_counters c where c.name = 'removed_dead_lettered'), 0)::bigint,
       not exists (select 1 from sendonce_counters c where c.name = 'removed_uncounted'),
       (select count(*) from sendonce_workers w
         where w.stopped_at is null and w.seen_at > now() - :alive::float8 * interval '1 second'),
       (select count(*) from sendonce_leases l where l.expires_at < now());

-- name: event_span
-- So many events, and of these no more than have so many deliveries together, but one: how many, the last, and whether
-- there are more.
with w as materialized (
  select e.id from sendonce_events e where e.id > :after order by e.id limit :limit
),
k as (
  select w.id from w
   where w.id = (select min(f.id) from w f)
      or w.id < coalesce(
           (select d.event_id from sendonce_deliveries d where d.event_id > :after order by d.event_id
            offset :rows limit 1), 9223372036854775807)
)
select count(*), max(k.id), count(*) = :limit or count(*) < (select count(*) from w) from k;

-- name: delivery_span
select count(*), max(w.id), count(*) = :limit
  from (select id from sendonce_deliveries where id > :after order by id limit :limit) w;

-- name: lease_span
select count(*), max(w.id), count(*) = :limit
  from (select id from sendonce_leases where id > :after order by id limit :limit) w;

-- name: request_span
select count(*), max(w.id), count(*) = :limit
  from (select id from sendonce_requests where id > :after order by id limit :limit) w;

-- name: operation_span
select count(*), max(w.id), count(*) = :limit
  from (select id from sendonce_operations where id > :after order by id limit :limit) w;

-- name: verify_routed
-- Every event times every destination it was routed to; nothing is left of one whose history retention has removed. Null
-- was recorded by an older program, and cannot be told.
select e.id
  from sendonce_events e
  left join (
    select d.event_id, count(*) as kept, count(*) filter (where d.generation = 0 and d.corrections = 0) as made
      from sendonce_deliveries d
     where d.event_id > :after and d.event_id <= :upto
     group by d.event_id) n on n.event_id = e.id
 where e.id > :after and e.id <= :upto
   and case when e.history_gone_at is null then coalesce(n.made, 0) <> e.routed else n.kept > 0 end
 order by e.id
 limit :cap;

-- name: count_unrouted
select count(*)
  from sendonce_events e
 where e.id > :after and e.id <= :upto and e.routed is null and e.history_gone_at is null;

-- name: verify_contents
select distinct c.event_id
  from sendonce_contents c
 where c.event_id > :after and c.event_id <= :upto
   and not exists (
     select 1 from sendonce_deliveries d
      where d.event_id = c.event_id and d.destination_hash = c.destination_hash and d.corrections = c.corrections
      offset 0)
 order by c.event_id
 limit :cap;

-- name: verify_payloads
select * from sendonce_blanked(:after::bigint, :upto::bigint, :cap::int);

-- name: verify_digests
select * from sendonce_altered(:after::bigint, :upto::bigint, :cap::int);

-- name: verify_events
select d.id
  from sendonce_deliveries d
 where :(range) and not exists (select 1 from sendonce_events e where e.id = d.event_id offset 0)
 order by d.id
 limit :cap;

-- name: verify_content
select d.id
  from sendonce_deliveries d
 where :(range) and d.has_content
   and not exists (
     select 1 from sendonce_contents c
      where c.event_id = d.event_id and c.destination_hash = d.destination_hash and c.corrections = d.corrections
      offset 0)
 order by d.id
 limit :cap;

-- name: verify_history
select distinct a.delivery_id
  from sendonce_attempts a
 where a.delivery_id > :after and a.delivery_id <= :upto
   and not exists (select 1 from sendonce_deliveries d where d.id = a.delivery_id offset 0)
 order by a.delivery_id
 limit :cap;

-- name: verify_attempts
-- Numbers are distinct and begin at 1, so that as many as the highest of them are all there.
with n as materialized (
  select a.delivery_id, count(*) as made, max(a.attempt) as last,
         count(*) filter (where a.outcome = 'Deferred') as deferred,
         count(*) filter (where a.outcome is null) as open,
         count(*) filter (where (a.outcome is null) <> (a.status in ('Pending', 'Leased'))
                             or (a.outcome is null) <> (a.finished_at is null)) as wrong
    from sendonce_attempts a
   where a.delivery_id > :after and a.delivery_id <= :upto
   group by a.delivery_id
)
select d.id
  from sendonce_deliveries d
  left join n on n.delivery_id = d.id
 where :(range)
   and (coalesce(n.made, 0) <> d.attempt_count + (d.status = 'InProgress')::int
        or coalesce(n.open, 0) <> (d.status = 'InProgress')::int
        or n.last <> n.made or n.deferred <> d.deferred_count or n.wrong > 0)
 order by d.id
 limit :cap;

-- name: verify_leased
select d.id
  from sendonce_deliveries d
 where :(range) and d.status = 'InProgress'
   and exists (select 1 from sendonce_attempts a where a.delivery_id = d.id and a.outcome is null offset 0)
   and not exists (
     select 1 from sendonce_attempts a join sendonce_leases l on l.id = a.lease_id
      where a.delivery_id = d.id and a.outcome is null and d.id = any(l.deliveries)
      offset 0)
 order by d.id
 limit :cap;

-- name: verify_waiting
select d.id
  from sendonce_deliveries d
 where :(range)
   and case when d.status in ('Pending', 'PendingRetry')
            then (d.next_attempt_at is null) <> (d.parked_on is not null)
                 or (d.status = 'Pending') <> (d.attempt_count = 0)
            else d.next_attempt_at is not null or d.parked_on is not null end
 order by d.id
 limit :cap;

-- name: verify_parked
-- Rooms of destinations, places and rates are served by workers that serve their addresses, those of channels too.
select d.id
  from :(step)
 where d.parked_on is not null
   and not case split_part(d.parked_on, ':', 1)
             when 'subscription' then d.parked_on = 'subscription:' || d.subscription_id and exists (
               select 1 from sendonce_subscriptions s
                where s.id = d.subscription_id and s.state in ('paused', 'disabled') offset 0)
             when 'stop' then exists (
               select 1 from sendonce_stops t where d.parked_on = 'stop:' || t.scope || ':' || t.value offset 0)
             when 'rate' then d.parked_on = 'rate:' || d.subscription_id and exists (
               select 1 from sendonce_subscriptions s where s.id = d.subscription_id offset 0)
             when 'destination' then d.parked_on = 'destination:' || d.destination
             when 'place' then true
             when 'channel' then true
             else false end
 order by d.id
 limit :cap;

-- name: verify_expired
-- An attempt in flight may have begun before the deadline, and taken as long as a lease can be.
select d.id
  from sendonce_deliveries d
 where :(range) and not d.in_doubt
   and d.next_attempt_at > greatest(d.expires_at, now()) + :longest::float8 * interval '1 second'
   and d.attempt_count > 0
 order by d.id
 limit :cap;

-- name: verify_generations
select d.id
  from :(step)
 where d.generation > 0
   and not exists (
     select 1 from sendonce_deliveries p
      where p.event_id = d.event_id and p.destination_hash = d.destination_hash and p.generation = d.generation - 1
        and p.status in ('Completed', 'DeadLettered')
      offset 0)
 order by d.id
 limit :cap;

-- name: verify_dead_letters
select coalesce(d.id, z.delivery_id)
  from (select d.id, d.status from sendonce_deliveries d where :(range)) d
  full join (
    select l.delivery_id from sendonce_dead_letters l where l.delivery_id > :after and l.delivery_id <= :upto) z
    on z.delivery_id = d.id
 where (d.status is not distinct from 'DeadLettered') <> (z.delivery_id is not null)
 order by 1
 limit :cap;

-- name: verify_decided
select d.id
  from (select l.delivery_id, l.closed_as from sendonce_dead_letters l
         where l.delivery_id > :after and l.delivery_id <= :upto order by l.delivery_id offset 0) z
 cross join lateral (
   select t.id, t.event_id, t.destination_hash, t.generation from sendonce_deliveries t
    where t.id = z.delivery_id offset 0) d
 cross join lateral (
   select exists (
     select 1 from sendonce_deliveries n
      where n.event_id = d.event_id and n.destination_hash = d.destination_hash and n.generation = d.generation + 1
      offset 0) as has_next) n
 where case when z.closed_as is null then n.has_next
            when z.closed_as in ('requeued', 'attested') then not n.has_next
            when z.closed_as = 'corrected' then not exists (
              select 1 from sendonce_corrections c where c.replaces = d.id offset 0)
            else false end
 order by d.id
 limit :cap;

-- name: verify_corrections
select c.delivery_id
  from sendonce_corrections c
 where c.delivery_id > :after and c.delivery_id <= :upto
   and not (exists (select 1 from sendonce_deliveries t where t.id = c.delivery_id and t.corrections > 0 offset 0)
            and exists (
              select 1 from sendonce_deliveries t where t.id = c.replaces and t.status = 'DeadLettered' offset 0))
 order by c.delivery_id
 limit :cap;

-- name: verify_outcomes
select d.id
  from sendonce_deliveries d
  :(last_attempt)
 where :(range)
   and case when d.status = 'Completed'
            then d.notified_at is null or x.outcome <> 'Delivered' or (d.attempt_count = 0 and d.generation = 0)
            else x.outcome = 'Delivered' or (d.status = 'DeadLettered' and d.attempt_count = 0 and exists (
              select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.reason <> 'cancelled' offset 0)) end
 order by d.id
 limit :cap;

-- name: verify_ended
-- What ends a delivery writes the same time into its attempt or dead letter.
select d.id
  from sendonce_deliveries d
  :(last_attempt)
 where :(range)
   and ((d.status = 'Completed' and d.updated_at <> case when d.attempt_count > 0 then x.finished_at else d.created_at end)
     or (d.status = 'DeadLettered' and exists (
       select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.created_at <> d.updated_at offset 0)))
 order by d.id
 limit :cap;

-- name: verify_doubt
-- Who has an id may have been sent: it is asked about, or was, by an attempt that had it from another or from the
-- generation before.
select d.id
  from sendonce_deliveries d
  :(last_attempt)
 where :(range)
   and case when d.status = 'Completed' then d.in_doubt
            when d.in_doubt then false
            when d.notification_id is not null and d.proven_at is null and d.status <> 'DeadLettered'
                 and (d.attempt_count = 0 or (d.generation = 0 and not exists (
                   select 1 from sendonce_attempts a
                    where a.delivery_id = d.id and a.notification_id = d.notification_id offset 0)))
            then true
            when d.attempt_count = 0 and d.generation > 0 then exists (
              select 1 from sendonce_deliveries p
               where p.event_id = d.event_id and p.destination_hash = d.destination_hash
                 and p.generation = d.generation - 1 and p.corrections = d.corrections and p.in_doubt
               offset 0)
            else x.outcome in ('Unknown', 'Accepted') end
 order by d.id
 limit :cap;

-- name: verify_ids
-- The last id that the other side has given; one that came in a late answer is newer.
select d.id
  from sendonce_deliveries d
 cross join lateral (
   select a.notification_id from sendonce_attempts a
    where a.delivery_id = d.id and a.notification_id is not null
    order by a.attempt desc limit 1) x
 where :(range) and d.proven_at is null and d.notification_id is distinct from x.notification_id
 order by d.id
 limit :cap;

-- name: verify_tokens
-- Two intents with the same token, among those of one step. That there are none across steps is held by the unique keys
-- of events and of deliveries, which are looked at on their own.
with t as materialized (
  select d.id, d.event_id, d.destination_hash,
         sha256(
           convert_to(octet_length(e.tenant)::text || ':' || e.tenant, 'UTF8')
           || convert_to(octet_length(e.type)::text || ':' || e.type, 'UTF8')
           || convert_to(octet_length(e.key)::text || ':' || e.key, 'UTF8')
           || convert_to(octet_length(d.destination)::text || ':' || d.destination, 'UTF8')
           || convert_to(length(d.corrections::text)::text || ':' || d.corrections::text, 'UTF8')) as token
    from sendonce_deliveries d
   cross join lateral (select n.tenant, n.type, n.key from sendonce_events n where n.id = d.event_id offset 0) e
   where :(range)
)
select max(t.id)
  from t
 group by t.token
having count(distinct (t.event_id, t.destination_hash)) > 1
 order by 1
 limit :cap;

-- name: tally_ended
-- How many have ended by that time, and how many so long before that everybody has seen it.
select count(*) filter (where d.status = 'Completed' and d.attempt_count > 0 and d.updated_at <= :until),
       count(*) filter (where d.status = 'Completed' and d.attempt_count > 0 and d.updated_at <= :surely),
       count(*) filter (where d.status = 'DeadLettered' and d.updated_at <= :until),
       count(*) filter (where d.status = 'DeadLettered' and d.updated_at <= :surely)
  from sendonce_deliveries d
 where :(range);

-- name: verify_lease_ends
select l.id
  from sendonce_leases l
 where l.id > :after and l.id <= :upto and l.expires_at > now() + :longest::float8 * interval '1 second'
 order by l.id
 limit :cap;

-- name: verify_lease_expiry
-- While somebody is there who should have closed it: a worker that has been up for as long.
select l.id
  from sendonce_leases l
 where l.id > :after and l.id <= :upto and l.expires_at < now() - :overdue::float8 * interval '1 second'
   and exists (
     select 1 from sendonce_workers w
      where w.stopped_at is null and w.seen_at > now() - :alive::float8 * interval '1 second'
        and w.started_at < now() - :overdue::float8 * interval '1 second')
 order by l.id
 limit :cap;

-- name: verify_lease_use
select l.id
  from sendonce_leases l
 where l.id > :after and l.id <= :upto
   and l.expires_at > now() and l.created_at < now() - :longest::float8 * interval '1 second'
   and not exists (
     select 1 from unnest(l.deliveries) as w(id)
      cross join lateral (
        select 1 from sendonce_attempts a
         where a.delivery_id = w.id and a.lease_id = l.id and a.outcome is null offset 0) o)
 order by l.id
 limit :cap;

-- name: verify_requests
-- Its event, its recipients, and the delivery of each of these.
select q.id
  from sendonce_requests q
 where q.id > :after and q.id <= :upto
   and (not exists (select 1 from sendonce_events e where e.id = q.event_id offset 0)
     or not exists (select 1 from sendonce_recipients r where r.request_id = q.id offset 0)
     or exists (
       select 1 from sendonce_recipients r
        where r.request_id = q.id
          and not exists (
            select 1 from sendonce_deliveries d
             where d.event_id = q.event_id and d.destination_hash = r.destination_hash offset 0)
        offset 0))
 order by q.id
 limit :cap;

-- name: verify_request_parts
select distinct p.request_id
  from (select r.request_id from sendonce_recipients r where r.request_id > :after and r.request_id <= :upto
         union all
        select k.request_id from sendonce_request_keys k where k.request_id > :after and k.request_id <= :upto) p
 where not exists (select 1 from sendonce_requests q where q.id = p.request_id offset 0)
 order by p.request_id
 limit :cap;

-- name: verify_operations
select o.id
  from sendonce_operations o
 where o.id > :after and o.id <= :upto and o.state = 'running'
   and o.updated_at < now() - :abandoned::float8 * interval '1 second'
 order by o.id
 limit :cap;

-- name: message_span
select count(*), max(w.id), count(*) = :limit
  from (select id from sendonce_messages where id > :after order by id limit :limit) w;

-- name: verify_handled
-- Retention takes a message before its receipt.
select m.id
  from sendonce_messages m
 where m.id > :after and m.id <= :upto and m.status = 'Completed'
   and not exists (
     select 1 from sendonce_receipts r where r.message_id = m.message_id and r.consumer = m.consumer
      offset 0)
 order by m.id
 limit :cap;

-- name: verify_message_generations
select m.id
  from sendonce_messages m
 where m.id > :after and m.id <= :upto and m.closed_as = 'retried'
   and not exists (
     select 1 from sendonce_messages n
      where n.message_id = m.message_id and n.consumer = m.consumer and n.generation = m.generation + 1
      offset 0)
 order by m.id
 limit :cap;

-- name: verify_tries
select distinct t.message
  from sendonce_tries t
 where t.message > :after and t.message <= :upto
   and not exists (select 1 from sendonce_messages m where m.id = t.message offset 0)
 order by t.message
 limit :cap;

-- name: found_rules
-- Kind, name, table, how it was made, and what is wrong with it.
select 'table', c.relname::text, '', '', ''
  from pg_class c
 where c.relnamespace = quote_ident(current_schema())::regnamespace and c.relkind in ('r', 'p')
 union all
select 'trigger', t.tgname::text, c.relname::text, pg_get_triggerdef(t.oid),
       case when t.tgenabled in ('O', 'A') then '' else :disabled::text end
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
 where c.relnamespace = quote_ident(current_schema())::regnamespace and not t.tgisinternal
 union all
select 'function', p.proname::text, '', p.prosrc, ''
  from pg_proc p
 where p.pronamespace = quote_ident(current_schema())::regnamespace and starts_with(p.proname::text, 'sendonce_')
 union all
select 'index', c.relname::text, r.relname::text, '',
       case when i.indisvalid and i.indisready then '' else :not_valid::text end
  from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class r on r.oid = i.indrelid
 where c.relnamespace = quote_ident(current_schema())::regnamespace
 union all
select 'constraint', n.conname::text, r.relname::text, '', case when n.convalidated then '' else :not_valid::text end
  from pg_constraint n join pg_class r on r.oid = n.conrelid
 where n.connamespace = quote_ident(current_schema())::regnamespace;
