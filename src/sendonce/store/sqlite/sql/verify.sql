-- part: range
d.id > :after and d.id <= :upto

-- part: last_outcome
-- The outcome of the last attempt that has ended.
(select a.outcome from sendonce_attempts a
  where a.delivery_id = d.id and a.outcome is not null order by a.attempt desc limit 1)

-- name: verify_facts
select :now,
       coalesce((select sum(c.amount) from sendonce_counters c where c.name = 'completed'), 0),
       coalesce((select sum(c.amount) from sendonce_counters c where c.name = 'dead_lettered'), 0),
       coalesce((select sum(c.amount) from sendonce_counters c where c.name = 'removed_completed'), 0),
       coalesce((select sum(c.amount) from sendonce_counters c where c.name = 'removed_dead_lettered'), 0),
       not exists (select 1 from sendonce_counters c where c.name = 'removed_uncounted'),
       (select count(*) from sendonce_workers w where w.stopped_at is null and w.seen_at > :now - :alive),
       (select count(*) from sendonce_leases l where l.expires_at < :now);

-- name: event_span
with w as materialized (
  select e.id from sendonce_events e not indexed where e.id > :after order by e.id limit :limit
),
k as (
  select w.id from w
   where w.id = (select min(f.id) from w f)
      or w.id < coalesce(
           (select d.event_id from sendonce_deliveries d where d.event_id > :after order by d.event_id
             limit 1 offset :rows), 9223372036854775807)
)
select count(*), max(k.id), count(*) = :limit or count(*) < (select count(*) from w) from k;

-- name: delivery_span
select count(*), max(w.id), count(*) = :limit
  from (select id from sendonce_deliveries not indexed where id > :after order by id limit :limit) w;

-- name: lease_span
select count(*), max(w.id), count(*) = :limit
  from (select id from sendonce_leases not indexed where id > :after order by id limit :limit) w;

-- name: request_span
select count(*), max(w.id), count(*) = :limit
  from (select id from sendonce_requests not indexed where id > :after order by id limit :limit) w;

-- name: operation_span
select count(*), max(w.id), count(*) = :limit
  from (select id from sendonce_operations where id > :after order by id limit :limit) w;

-- name: verify_routed
-- Every event times every destination it was routed to; nothing is left of one whose history retention has removed. Null
-- was recorded by an older program, and cannot be told.
select e.id
  from sendonce_events e not indexed
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
  from sendonce_events e not indexed
 where e.id > :after and e.id <= :upto and e.routed is null and e.history_gone_at is null;

-- name: verify_contents
select distinct c.event_id
  from sendonce_contents c
 where c.event_id > :after and c.event_id <= :upto
   and not exists (
     select 1 from sendonce_deliveries d
      where d.event_id = c.event_id and d.destination_hash = c.destination_hash and d.corrections = c.corrections)
 order by c.event_id
 limit :cap;

-- name: verify_payloads
-- Gone, or an open delivery needs its content and does not have it, and nobody wrote down when.
select e.id
  from sendonce_events e not indexed
 where e.id > :after and e.id <= :upto and e.content_gone_at is null
   and (e.payload is null or exists (
     select 1 from sendonce_contents c
       join sendonce_deliveries d
         on d.event_id = c.event_id and d.destination_hash = c.destination_hash and d.corrections = c.corrections
      where c.event_id = e.id and c.content is null and d.status not in ('Completed', 'DeadLettered')))
 order by e.id
 limit :cap;

-- name: verify_digests
-- Where something is gone that the digest was made of, there is nothing to compare.
select w.id
  from (
    select e.id, e.payload, e.subject, e.version, e.content_digest, e.routed,
           (select json_array(
                     count(*),
                     count(*) filter (where d.subscription_id is null and d.has_content and c.content is null),
                     json_group_array(json_array(d.destination, case when d.has_content then c.content end)) filter (where d.subscription_id is null))
              from sendonce_deliveries d
              left join sendonce_contents c
                on c.event_id = d.event_id and c.destination_hash = d.destination_hash
                   and c.corrections = d.corrections
             where d.event_id = e.id and d.generation = 0 and d.corrections = 0) as named
      from sendonce_events e not indexed
     where e.id > :after and e.id <= :upto and e.payload is not null and e.history_gone_at is null) w
 where json_extract(w.named, '$[0]') = w.routed and json_extract(w.named, '$[1]') = 0
   and content_digest_of(w.payload, w.subject, w.version, json_extract(w.named, '$[2]')) <> w.content_digest
 order by w.id
 limit :cap;

-- name: verify_events
select d.id
  from sendonce_deliveries d not indexed
 where :(range) and not exists (select 1 from sendonce_events e where e.id = d.event_id)
 order by d.id
 limit :cap;

-- name: verify_content
select d.id
  from sendonce_deliveries d not indexed
 where :(range) and d.has_content = 1
   and not exists (
     select 1 from sendonce_contents c
      where c.event_id = d.event_id and c.destination_hash = d.destination_hash and c.corrections = d.corrections)
 order by d.id
 limit :cap;

-- name: verify_history
select distinct a.delivery_id
  from sendonce_attempts a
 where a.delivery_id > :after and a.delivery_id <= :upto
   and not exists (select 1 from sendonce_deliveries d where d.id = a.delivery_id)
 order by a.delivery_id
 limit :cap;

-- name: verify_attempts
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
  from sendonce_deliveries d not indexed
  left join n on n.delivery_id = d.id
 where :(range)
   and (coalesce(n.made, 0) <> d.attempt_count + (d.status = 'InProgress')
        or coalesce(n.open, 0) <> (d.status = 'InProgress')
        or n.last <> n.made or n.deferred <> d.deferred_count or n.wrong > 0)
 order by d.id
 limit :cap;

-- name: verify_leased
select d.id
  from sendonce_deliveries d not indexed
 where :(range) and d.status = 'InProgress'
   and exists (select 1 from sendonce_attempts a where a.delivery_id = d.id and a.outcome is null)
   and not exists (
     select 1 from sendonce_attempts a
      cross join sendonce_leases l on l.id = a.lease_id
      cross join json_each(l.deliveries) w
      where a.delivery_id = d.id and a.outcome is null and w.value = d.id)
 order by d.id
 limit :cap;

-- name: verify_waiting
select d.id
  from sendonce_deliveries d not indexed
 where :(range)
   and case when d.status in ('Pending', 'PendingRetry')
            then (d.next_attempt_at is null) <> (d.parked_on is not null)
                 or (d.status = 'Pending') <> (d.attempt_count = 0)
            else d.next_attempt_at is not null or d.parked_on is not null end
 order by d.id
 limit :cap;

-- name: verify_parked
select d.id
  from sendonce_deliveries d not indexed
 where :(range) and d.parked_on is not null
   and not case substr(d.parked_on, 1, instr(d.parked_on, ':') - 1)
             when 'subscription' then d.parked_on = 'subscription:' || d.subscription_id and exists (
               select 1 from sendonce_subscriptions s
                where s.id = d.subscription_id and s.state in ('paused', 'disabled'))
             when 'stop' then exists (
               select 1 from sendonce_stops t where d.parked_on = 'stop:' || t.scope || ':' || t.value)
             when 'rate' then d.parked_on = 'rate:' || d.subscription_id and exists (
               select 1 from sendonce_subscriptions s where s.id = d.subscription_id)
             when 'destination' then d.parked_on = 'destination:' || d.destination
             when 'place' then 1
             when 'channel' then 1
             else 0 end
 order by d.id
 limit :cap;

-- name: verify_expired
select d.id
  from sendonce_deliveries d not indexed
 where :(range) and d.in_doubt = 0
   and d.next_attempt_at > max(d.expires_at, :now) + :longest
   and d.attempt_count > 0
 order by d.id
 limit :cap;

-- name: verify_generations
select d.id
  from sendonce_deliveries d not indexed
 where :(range) and d.generation > 0
   and not exists (
     select 1 from sendonce_deliveries p
      where p.event_id = d.event_id and p.destination_hash = d.destination_hash and p.generation = d.generation - 1
        and p.status in ('Completed', 'DeadLettered'))
 order by d.id
 limit :cap;

-- name: verify_dead_letters
select d.id
  from sendonce_deliveries d not indexed
 where :(range) and d.status = 'DeadLettered'
   and not exists (select 1 from sendonce_dead_letters z where z.delivery_id = d.id)
 union all
select z.delivery_id
  from sendonce_dead_letters z
 where z.delivery_id > :after and z.delivery_id <= :upto
   and not exists (select 1 from sendonce_deliveries t where t.id = z.delivery_id and t.status = 'DeadLettered')
 order by 1
 limit :cap;

-- name: verify_decided
with n as materialized (
  select d.id, z.closed_as,
         exists (
           select 1 from sendonce_deliveries t
            where t.event_id = d.event_id and t.destination_hash = d.destination_hash
              and t.generation = d.generation + 1) as has_next
    from sendonce_dead_letters z
   cross join sendonce_deliveries d not indexed on d.id = z.delivery_id
   where z.delivery_id > :after and z.delivery_id <= :upto
)
select n.id
  from n
 where case when n.closed_as is null then n.has_next
            when n.closed_as in ('requeued', 'attested') then not n.has_next
            when n.closed_as = 'corrected' then not exists (
              select 1 from sendonce_corrections c where c.replaces = n.id)
            else 0 end
 order by n.id
 limit :cap;

-- name: verify_corrections
select c.delivery_id
  from sendonce_corrections c
 where c.delivery_id > :after and c.delivery_id <= :upto
   and not (exists (select 1 from sendonce_deliveries t where t.id = c.delivery_id and t.corrections > 0)
            and exists (select 1 from sendonce_deliveries t where t.id = c.replaces and t.status = 'DeadLettered'))
 order by c.delivery_id
 limit :cap;

-- name: verify_outcomes
select d.id
  from sendonce_deliveries d not indexed
 where :(range)
   and case when d.status = 'Completed'
            then d.notified_at is null or :(last_outcome) <> 'Delivered' or (d.attempt_count = 0 and d.generation = 0)
            else :(last_outcome) = 'Delivered' or (d.status = 'DeadLettered' and d.attempt_count = 0 and exists (
              select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.reason <> 'cancelled')) end
 order by d.id
 limit :cap;

-- name: verify_ended
select d.id
  from sendonce_deliveries d not indexed
 where :(range)
   and ((d.status = 'Completed' and d.updated_at <> case when d.attempt_count = 0 then d.created_at else (
         select a.finished_at from sendonce_attempts a
          where a.delivery_id = d.id and a.outcome is not null order by a.attempt desc limit 1) end)
     or (d.status = 'DeadLettered' and exists (
       select 1 from sendonce_dead_letters z where z.delivery_id = d.id and z.created_at <> d.updated_at)))
 order by d.id
 limit :cap;

-- name: verify_doubt
-- Who has an id may have been sent: it is asked about, or was, by an attempt that had it from another or from the
-- generation before.
select d.id
  from sendonce_deliveries d not indexed
 where :(range)
   and case when d.status = 'Completed' then d.in_doubt
            when d.in_doubt = 1 then 0
            when d.notification_id is not null and d.proven_at is null and d.status <> 'DeadLettered'
                 and (d.attempt_count = 0 or (d.generation = 0 and not exists (
                   select 1 from sendonce_attempts a
                    where a.delivery_id = d.id and a.notification_id = d.notification_id)))
            then 1
            when d.attempt_count = 0 and d.generation > 0 then exists (
              select 1 from sendonce_deliveries p
               where p.event_id = d.event_id and p.destination_hash = d.destination_hash
                 and p.generation = d.generation - 1 and p.corrections = d.corrections and p.in_doubt = 1)
            else :(last_outcome) in ('Unknown', 'Accepted') end
 order by d.id
 limit :cap;

-- name: verify_ids
select d.id
  from sendonce_deliveries d not indexed
 where :(range) and d.proven_at is null
   and (select a.notification_id from sendonce_attempts a
         where a.delivery_id = d.id and a.notification_id is not null order by a.attempt desc limit 1) <>
       coalesce(d.notification_id, '')
 order by d.id
 limit :cap;

-- name: verify_tokens
select max(t.id)
  from (
    select d.id, d.event_id || ':' || hex(d.destination_hash) as intent,
           provider_token('', e.tenant, e.type, e.key, d.destination, d.corrections) as token
      from sendonce_deliveries d not indexed
     cross join sendonce_events e not indexed on e.id = d.event_id
     where :(range)) t
 group by t.token
having count(distinct t.intent) > 1
 order by 1
 limit :cap;

-- name: tally_ended
select count(*) filter (where d.status = 'Completed' and d.attempt_count > 0 and d.updated_at <= :until),
       count(*) filter (where d.status = 'Completed' and d.attempt_count > 0 and d.updated_at <= :surely),
       count(*) filter (where d.status = 'DeadLettered' and d.updated_at <= :until),
       count(*) filter (where d.status = 'DeadLettered' and d.updated_at <= :surely)
  from sendonce_deliveries d not indexed
 where :(range);

-- name: verify_lease_ends
select l.id
  from sendonce_leases l not indexed
 where l.id > :after and l.id <= :upto and l.expires_at > :now + :longest
 order by l.id
 limit :cap;

-- name: verify_lease_expiry
select l.id
  from sendonce_leases l not indexed
 where l.id > :after and l.id <= :upto and l.expires_at < :now - :overdue
   and exists (
     select 1 from sendonce_workers w
      where w.stopped_at is null and w.seen_at > :now - :alive and w.started_at < :now - :overdue)
 order by l.id
 limit :cap;

-- name: verify_lease_use
select l.id
  from sendonce_leases l not indexed
 where l.id > :after and l.id <= :upto and l.expires_at > :now and l.created_at < :now - :longest
   and not exists (
     select 1 from json_each(l.deliveries) w
      cross join sendonce_attempts a on a.delivery_id = w.value
      where a.lease_id = l.id and a.outcome is null)
 order by l.id
 limit :cap;

-- name: verify_requests
select q.id
  from sendonce_requests q not indexed
 where q.id > :after and q.id <= :upto
   and (not exists (select 1 from sendonce_events e where e.id = q.event_id)
     or not exists (select 1 from sendonce_recipients r where r.request_id = q.id)
     or exists (
       select 1 from sendonce_recipients r
        where r.request_id = q.id
          and not exists (
            select 1 from sendonce_deliveries d
             where d.event_id = q.event_id and d.destination_hash = r.destination_hash)))
 order by q.id
 limit :cap;

-- name: verify_request_parts
select distinct p.request_id
  from (select r.request_id from sendonce_recipients r where r.request_id > :after and r.request_id <= :upto
         union all
        select k.request_id from sendonce_request_keys k where k.request_id > :after and k.request_id <= :upto) p
 where not exists (select 1 from sendonce_requests q where q.id = p.request_id)
 order by p.request_id
 limit :cap;

-- name: verify_operations
select o.id
  from sendonce_operations o
 where o.id > :after and o.id <= :upto and o.state = 'running' and o.updated_at < :now - :abandoned
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
     select 1 from sendonce_receipts r where r.message_id = m.message_id and r.consumer = m.consumer)
 order by m.id
 limit :cap;

-- name: verify_message_generations
select m.id
  from sendonce_messages m
 where m.id > :after and m.id <= :upto and m.closed_as = 'retried'
   and not exists (
     select 1 from sendonce_messages n
      where n.message_id = m.message_id and n.consumer = m.consumer and n.generation = m.generation + 1)
 order by m.id
 limit :cap;

-- name: verify_tries
select distinct t.message
  from sendonce_tries t
 where t.message > :after and t.message <= :upto
   and not exists (select 1 from sendonce_messages m where m.id = t.message)
 order by t.message
 limit :cap;

-- name: found_rules
-- Kind, name, table, and how it was made.
select m.type, m.name, m.tbl_name, coalesce(m.sql, '') from sqlite_master m where m.type in ('table', 'trigger', 'index');
