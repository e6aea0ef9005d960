-- name: record_event
-- One round trip. No row back means that the key was there before, or came in from elsewhere at the same moment.
with subscribed as materialized (
  select distinct s.id, 'subscription:' || s.id as destination
    from sendonce_subscription_types t
    join sendonce_subscriptions s on s.id = t.subscription_id
   where t.pattern = any(cast(cast(:patterns as text) as text[]))
     and t.tenant = cast(:tenant as text)
     and s.state <> 'removed'
   order by s.id
),
recorded as (
  insert into sendonce_events (version, content_digest, tenant, type, key, subject, payload, headers, routed)
  values (
    cast(:version as bigint),
    cast(cast(:content_digest as text) as uuid),
    cast(:tenant as text),
    cast(:type as text),
    cast(:key as text),
    cast(:subject as text),
    cast(:payload as text),
    cast(:headers as text),
    cast(:named as int) + (select count(*) from subscribed)
  )
  on conflict (key, type, tenant) do nothing
  returning id, routed
),
named as materialized (
  select n.destination_hash, n.destination, n.content
    from unnest(
           cast(cast(:destination_hashes as text) as uuid[]),
           cast(cast(:destinations as text) as text[]),
           cast(cast(:contents as text) as text[])
         ) as n(destination_hash, destination, content)
),
sent as (
  insert into sendonce_deliveries
    (event_id, subscription_id, next_attempt_at, expires_at, destination_hash, has_content, destination, if_unsure)
  select r.id,
         d.subscription_id,
         coalesce(cast(cast(:deliver_at as text) as timestamptz), now()),
         cast(cast(:expires_at as text) as timestamptz),
         d.destination_hash,
         d.has_content,
         d.destination,
         cast(:if_unsure as text)
    from recorded r
   cross join (
     select cast(null as bigint) as subscription_id, destination_hash, content is not null as has_content, destination
       from named
      union all
     select id,
            cast(encode(substr(sha256(convert_to(length(destination) || ':' || destination, 'UTF8')), 1, 16), 'hex') as uuid),
            false,
            destination
       from subscribed
   ) d
),
rendered as (
  insert into sendonce_contents (event_id, destination_hash, content)
  select r.id, n.destination_hash, n.content
    from recorded r
   cross join named n
   where n.content is not null
)
select r.id,
       r.routed,
       case when cast(:notify as boolean) then cast(pg_notify('sendonce', '') as text) end as notified
  from recorded r;

-- name: record_events
-- A whole batch in one round trip, each column an array; one that is left out is filled up with nulls. Types and tenants
-- are given once for each kind, because a batch is nearly always of one. What the keys were used for before is looked up first, so that a key reused for different content is known before anything is written.
-- No row back for an event means that its key came in from elsewhere while this ran. A row without an id says how
-- many subscriptions listen to the events of one kind (a type of a tenant). Events are matched by one text and not by
-- three columns, because the planner would expect one match in all and choose a nested loop.
with subscribed as materialized (
  select distinct p.kind, s.id, 'subscription:' || s.id as destination
    from json_to_recordset(cast(cast(:patterns as text) as json)) as p(kind int, tenant text, pattern text)
    join sendonce_subscription_types t on t.pattern = p.pattern and t.tenant = p.tenant
    join sendonce_subscriptions s on s.id = t.subscription_id
   where s.state <> 'removed'
),
listening as materialized (
  select s.kind, count(*) as subscriptions
    from subscribed s
   group by s.kind
),
given as materialized (
  select g.n, g.kind, g.content_digest, k.tenant, k.type, g.key, g.subject, g.version, g.payload, g.headers,
         g.named + coalesce(l.subscriptions, 0) as routed,
         k.type || ' ' || length(k.tenant) || ' ' || k.tenant || g.key as identity,
         coalesce(g.deliver_at, now()) as deliver_at, g.expires_at, g.if_unsure
    from unnest(
           cast(cast(:numbers as text) as int[]),
           cast(cast(:kinds as text) as int[]),
           cast(cast(:content_digests as text) as uuid[]),
           cast(cast(:keys as text) as text[]),
           cast(cast(:subjects as text) as text[]),
           cast(cast(:versions as text) as bigint[]),
           cast(cast(:payloads as text) as text[]),
           cast(cast(:headers as text) as text[]),
           cast(cast(:deliver_at as text) as timestamptz[]),
           cast(cast(:expires_at as text) as timestamptz[]),
           cast(cast(:if_unsure as text) as text[]),
           cast(cast(:named as text) as int[])
         ) as g(n, kind, content_digest, key, subject, version, payload, headers, deliver_at, expires_at, if_unsure,
                named)
    join unnest(cast(cast(:kind_types as text) as text[]), cast(cast(:kind_tenants as text) as text[]))
         with ordinality as k(type, tenant, kind) on k.kind = g.kind
    left join listening l on l.kind = g.kind
),
known as materialized (
  select g.n, v.id, v.content_digest = g.content_digest as is_same
    from given g
   cross join lateral (
     select e.id, e.content_digest
       from sendonce_events e
      where e.key = g.key
        and e.type = g.type
        and e.tenant = g.tenant
     offset 0
   ) v
),
recorded as (
  insert into sendonce_events (version, content_digest, tenant, type, key, subject, payload, headers, routed)
  select g.version, g.content_digest, g.tenant, g.type, g.key, g.subject, g.payload, g.headers, g.routed
    from given g
   where (cast(:keep_first as boolean) or not exists (select 1 from known where not is_same))
     and g.n not in (select k.n from known k)
  on conflict (key, type, tenant) do nothing
  returning id, type || ' ' || length(tenant) || ' ' || tenant || key as identity
),
fresh as materialized (
  select g.n, g.kind, r.id, g.deliver_at, g.expires_at, g.if_unsure
    from recorded r
    join given g on g.identity = r.identity
),
named as materialized (
  select f.n, f.id as event_id, d.destination_hash, d.destination, d.content,
         f.deliver_at, f.expires_at, f.if_unsure
    from fresh f
    join unnest(
           cast(cast(:destination_numbers as text) as int[]),
           cast(cast(:destination_hashes as text) as uuid[]),
           cast(cast(:destinations as text) as text[]),
           cast(cast(:contents as text) as text[])
         ) as d(n, destination_hash, destination, content) on d.n = f.n
),
sent as (
  insert into sendonce_deliveries
    (event_id, subscription_id, next_attempt_at, expires_at, destination_hash, has_content, destination, if_unsure)
  select d.event_id, d.subscription_id, d.deliver_at, d.expires_at, d.destination_hash, d.has_content, d.destination,
         d.if_unsure
    from (
      select n, event_id, cast(null as bigint) as subscription_id, deliver_at, expires_at, destination_hash,
             content is not null as has_content, destination, if_unsure
        from named
       union all
      select f.n, f.id, s.id, f.deliver_at, f.expires_at,
             cast(encode(substr(sha256(convert_to(length(s.destination) || ':' || s.destination, 'UTF8')), 1, 16), 'hex')
               as uuid),
             false, s.destination, f.if_unsure
        from fresh f
        join subscribed s on s.kind = f.kind
    ) d
   order by d.n
),
rendered as (
  insert into sendonce_contents (event_id, destination_hash, content)
  select event_id, destination_hash, content
    from named
   where content is not null
)
select f.n, f.id, false as is_known, true as is_same, 0 as listening,
       case when cast(:notify as boolean) and f.n = (select min(n) from fresh)
            then cast(pg_notify('sendonce', '') as text) end as notified
  from fresh f
 union all
select k.n, k.id, true, k.is_same, 0, null
  from known k
 union all
select l.kind, null, false, true, l.subscriptions, null
  from listening l;

-- name: find_events
select g.n, v.id, v.content_digest = g.content_digest as is_same
  from json_to_recordset(cast(cast(:events as text) as json))
    as g(n int, content_digest uuid, tenant text, type text, key text)
 cross join lateral (
   select e.id, e.content_digest
     from sendonce_events e
    where e.key = g.key
      and e.type = g.type
      and e.tenant = coalesce(g.tenant, '')
   offset 0
 ) v;

-- name: fail_as_conflict
-- Part of a batch is written and one of its keys has just been used elsewhere for different content. Only the caller
-- can take the batch back, so the transaction is made to fail the way REPEATABLE READ would: run again, it is told why.
do $$
begin
  raise exception 'sendonce: another transaction has just used a key of this batch for different content'
    using errcode = '40001', hint = 'Run the transaction again.';
end
$$;

-- name: wait_for_turn
-- A statement of its own, so that the next one sees what was committed while this one waited. Always in this order.
select pg_advisory_xact_lock(cast(:key_lock as bigint)), pg_advisory_xact_lock(cast(:subject_lock as bigint));

-- name: find_request
-- The request that had the key (0), the one of this version (1), and the newest of this subject (2).
select 0, q.id, q.event_id, q.version, q.run, q.content_digest = cast(cast(:content_digest as text) as uuid)
  from sendonce_request_keys k
  join sendonce_requests q on q.id = k.request_id
 where k.key = cast(:key as text) and k.type = cast(:type as text) and k.tenant = cast(:tenant as text)
 union all
select 1, q.id, q.event_id, q.version, q.run, q.content_digest = cast(cast(:content_digest as text) as uuid)
  from sendonce_requests q
 where q.subject = cast(:subject as text) and q.type = cast(:type as text) and q.tenant = cast(:tenant as text)
   and q.version = cast(:version as bigint)
 union all
(select 2, q.id, q.event_id, q.version, q.run, false
   from sendonce_requests q
  where q.subject = cast(:subject as text) and q.type = cast(:type as text) and q.tenant = cast(:tenant as text)
  order by q.version desc
  limit 1);

-- name: add_request
-- With a fixed snapshot a request from elsewhere may be there that was not found: "on conflict" then asks for the
-- transaction to be run again. In every other case the next insert would find no id, and all of it fails.
with recorded as (
  insert into sendonce_requests (event_id, version, content_digest, run, tenant, type, subject)
  values (
    cast(:event_id as bigint),
    cast(:version as bigint),
    cast(cast(:content_digest as text) as uuid),
    cast(:run as int),
    cast(:tenant as text),
    cast(:type as text),
    cast(:subject as text)
  )
  on conflict do nothing
  returning id
),
keyed as (
  insert into sendonce_request_keys (request_id, tenant, type, key)
  values ((select id from recorded), cast(:tenant as text), cast(:type as text), cast(:key as text))
  on conflict do nothing
  returning request_id
),
named as (
  insert into sendonce_recipients (request_id, destination_hash, is_required, destination)
  select (select request_id from keyed), n.destination_hash, n.nth <= cast(:required as int), n.destination
    from unnest(
           cast(cast(:destination_hashes as text) as uuid[]), cast(cast(:destinations as text) as text[])
         ) with ordinality as n(destination_hash, destination, nth)
)
select id from recorded;

-- name: add_request_key
insert into sendonce_request_keys (request_id, tenant, type, key)
values (cast(:request_id as bigint), cast(:tenant as text), cast(:type as text), cast(:key as text))
on conflict do nothing
returning request_id;

-- name: request_state
-- All of its recipients, however many: a part of them would be a wrong answer. Times as on SQLite, in microseconds.
select q.id, q.tenant, q.type, q.subject, q.version, q.event_id,
       cast(extract(epoch from q.created_at) * 1000000 as bigint), s.status,
       r.destination, r.sent_to, r.is_required, r.delivery_id, r.status,
       cast(extract(epoch from r.notified_at) * 1000000 as bigint), r.notification_id, r.final_error_code,
       r.attempt_count
  from sendonce_requests q
  join sendonce_request_states s on s.request_id = q.id
  join sendonce_recipient_states r on r.request_id = q.id
 where q.id = cast(:request_id as bigint)
 order by r.is_required desc, r.destination;
