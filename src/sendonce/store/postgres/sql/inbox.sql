-- part: message_columns
m.id, m.consumer, m.message_id, m.generation, m.status, m.reason, m.source, m.source_position, m.begun, m.finished,
m.sightings, m.created_at, m.seen_at, m.next_attempt_at, m.ended_at, m.error_code, m.error_message, m.closed_at,
m.closed_as, m.closed_by, m.content_gone_at, m.content_type, m.trace

-- name: message_window
select id from sendonce_messages where id < :before order by id desc limit :window;

-- name: dead_message_ids
select id
  from sendonce_messages
 where reason is not null and closed_at is null
 order by ended_at, id
 limit :window;

-- name: message_ids_called
select id from sendonce_messages where message_id = :message_id limit :window;

-- name: message_rows
select :(message_columns)
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (select :(message_columns) from sendonce_messages m where m.id = w.id offset 0) m
 where (:consumer::text is null or m.consumer = :consumer::text)
   and (:message_id::text is null or m.message_id = :message_id::text)
   and (:source::text is null or m.source = :source::text)
   and (:status::text is null or m.status = :status::text)
   and (:reason::text is null or m.reason = :reason::text)
   and (not :dead::boolean or (m.reason is not null and m.closed_at is null))
   and (:since::timestamptz is null or m.created_at >= :since::timestamptz)
 order by m.id desc
 limit :limit;

-- name: message_at
select created_at from sendonce_messages where id = :id;

-- name: tries_of
select number, begun_at, finished_at, outcome, error_code, error_message, worker
  from sendonce_tries
 where message = :id and number < :before::bigint
 order by number desc
 limit :limit;

-- name: receipts_of
select consumer, message_id, received_at, seen_at, coalesce(duplicates, 0)
  from sendonce_receipts
 where message_id = :message_id and consumer > :after
 order by consumer
 limit :limit;

-- name: inbox_counts
-- Each count walks its own index and stops at the cap; for each consumer the first that is due.
with recursive c(consumer) as (
  (select m.consumer from sendonce_messages m where m.next_attempt_at is not null order by m.consumer limit 1)
  union all
  select (select m.consumer from sendonce_messages m
           where m.next_attempt_at is not null and m.consumer > c.consumer order by m.consumer limit 1)
    from c
   where c.consumer is not null
),
d as (
  select c.consumer, n.next_attempt_at as due
    from c
   cross join lateral (
     select m.next_attempt_at from sendonce_messages m
      where m.consumer = c.consumer and m.next_attempt_at is not null
      order by m.next_attempt_at limit 1) n
)
select (select count(*) from (
         select 1 from sendonce_messages m where m.next_attempt_at is not null order by m.consumer limit :cap) a),
       (select count(*) from (
         select 1 from sendonce_messages m
          where m.reason is not null and m.closed_at is null order by m.ended_at limit :cap) a),
       (select min(d.due) from d where d.due <= now()),
       (select coalesce(sum(amount), 0)::bigint from sendonce_counters where name = 'duplicates'),
       (select d.consumer from d where d.due <= now() order by d.due limit 1);

-- name: lock_messages
select id from sendonce_messages where id = any(:ids::bigint[]) order by id for no key update;

-- name: close_messages
update sendonce_messages
   set closed_at = now(), closed_as = :closed_as, closed_by = :operator, updated_at = now()
 where id = any(:ids::bigint[]);

-- name: cancel_messages
update sendonce_messages
   set status = 'DeadLettered', reason = 'cancelled', next_attempt_at = null, ended_at = now(), updated_at = now()
 where id = any(:ids::bigint[]);

-- name: reopen_messages
insert into sendonce_messages
  (next_attempt_at, generation, consumer, message_id, source, source_position, trace, content_type, headers, body)
select now(), generation + 1, consumer, message_id, source, source_position, trace, content_type, headers, body
  from sendonce_messages
 where id = any(:ids::bigint[])
 order by id
returning id;

-- name: blank_messages
update sendonce_messages
   set body = null, headers = null, error_message = null, content_gone_at = coalesce(content_gone_at, now())
 where id = any(:ids::bigint[]);

-- name: blank_tries
update sendonce_tries set error_message = null
 where message = any(:ids::bigint[]) and finished_at is not null and error_message is not null;

-- name: blank_receipts
update sendonce_receipts set result = null where message_id = :message_id and result is not null;

-- name: old_contents
-- What waits for a person keeps its content: it may be handled again.
select id
  from sendonce_messages
 where ended_at < now() - :age::float8 * interval '1 second'
   and content_gone_at is null
   and greatest(ended_at, closed_at) < now() - :age::float8 * interval '1 second'
   and (status = 'Completed' or closed_at is not null)
 order by ended_at, id
 limit :limit
   for update skip locked;

-- name: old_messages
-- What waits for a person stays until somebody has decided.
select id
  from sendonce_messages
 where ended_at < now() - :age::float8 * interval '1 second'
   and greatest(ended_at, closed_at, seen_at) < now() - :age::float8 * interval '1 second'
   and (status = 'Completed' or closed_at is not null)
 order by ended_at, id
 limit :limit
   for update skip locked;

-- name: drop_tries
delete from sendonce_tries where message = any(:ids::bigint[]);

-- name: drop_messages
delete from sendonce_messages where id = any(:ids::bigint[]);

-- name: drop_old_receipts
-- By the last sight: what comes again is known for so long again. A message is deleted before its receipt.
delete from sendonce_receipts
 where ctid = any(array(
   select r.ctid
     from sendonce_receipts r
    where r.received_at < now() - :age::float8 * interval '1 second'
      and coalesce(r.seen_at, r.received_at) < now() - :age::float8 * interval '1 second'
      and not exists (
        select 1 from sendonce_messages m where m.message_id = r.message_id and m.consumer = r.consumer offset 0)
    order by r.received_at
    limit :limit
      for update skip locked))
returning 1;

-- name: drop_old_evidence
delete from sendonce_evidence
 where id = any(array(
   select id from sendonce_evidence
    where created_at < now() - :age::float8 * interval '1 second'
    order by created_at limit :limit))
returning id;
