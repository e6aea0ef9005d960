-- part: message_columns
m.id, m.consumer, m.message_id, m.generation, m.status, m.reason, m.source, m.source_position, m.begun, m.finished,
m.sightings, m.created_at, m.seen_at, m.next_attempt_at, m.ended_at, m.error_code, m.error_message, m.closed_at,
m.closed_as, m.closed_by, m.content_gone_at, m.content_type, m.trace

-- name: message_window
select id from sendonce_messages where id < :before order by id desc limit :window;

-- name: dead_message_ids
select id
  from sendonce_messages indexed by sendonce_messages_dead
 where reason is not null and closed_at is null
 order by ended_at, id
 limit :window;

-- name: message_ids_called
select id from sendonce_messages where message_id = :message_id limit :window;

-- name: message_rows
select :(message_columns)
  from json_each(:ids) i
  join sendonce_messages m on m.id = i.value
 where (:consumer is null or m.consumer = :consumer)
   and (:message_id is null or m.message_id = :message_id)
   and (:source is null or m.source = :source)
   and (:status is null or m.status = :status)
   and (:reason is null or m.reason = :reason)
   and (not :dead or (m.reason is not null and m.closed_at is null))
   and (:since is null or m.created_at >= :since)
 order by m.id desc
 limit :limit;

-- name: message_at
select created_at from sendonce_messages where id = :id;

-- name: tries_of
select number, begun_at, finished_at, outcome, error_code, error_message, worker
  from sendonce_tries
 where message = :id and number < :before
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
  select * from (
    select m.consumer from sendonce_messages m where m.next_attempt_at is not null order by m.consumer limit 1)
  union all
  select (select m.consumer from sendonce_messages m
           where m.next_attempt_at is not null and m.consumer > c.consumer order by m.consumer limit 1)
    from c
   where c.consumer is not null
),
d as (
  select c.consumer,
         (select m.next_attempt_at from sendonce_messages m
           where m.consumer = c.consumer and m.next_attempt_at is not null
           order by m.next_attempt_at limit 1) as due
    from c
)
select (select count(*) from (
         select 1 from sendonce_messages m where m.next_attempt_at is not null order by m.consumer limit :cap)),
       (select count(*) from (
         select 1 from sendonce_messages m
          where m.reason is not null and m.closed_at is null order by m.ended_at limit :cap)),
       (select min(d.due) from d where d.due <= :now),
       (select coalesce(sum(amount), 0) from sendonce_counters where name = 'duplicates'),
       (select d.consumer from d where d.due <= :now order by d.due limit 1);

-- name: lock_messages
select m.id from json_each(:ids) i join sendonce_messages m on m.id = i.value order by m.id;

-- name: close_messages
update sendonce_messages
   set closed_at = :now, closed_as = :closed_as, closed_by = :operator, updated_at = :now
 where id in (select value from json_each(:ids));

-- name: cancel_messages
update sendonce_messages
   set status = 'DeadLettered', reason = 'cancelled', next_attempt_at = null, ended_at = :now, updated_at = :now
 where id in (select value from json_each(:ids));

-- name: reopen_messages
insert into sendonce_messages
  (created_at, updated_at, seen_at, next_attempt_at, generation, consumer, message_id, source, source_position, trace,
   content_type, headers, body)
select :now, :now, :now, :now, m.generation + 1, m.consumer, m.message_id, m.source, m.source_position, m.trace,
       m.content_type, m.headers, m.body
  from json_each(:ids) i
  join sendonce_messages m on m.id = i.value
 order by m.id
returning id;

-- name: blank_messages
update sendonce_messages
   set body = null, headers = null, error_message = null, content_gone_at = coalesce(content_gone_at, :now)
 where id in (select value from json_each(:ids));

-- name: blank_tries
update sendonce_tries set error_message = null
 where message in (select value from json_each(:ids)) and finished_at is not null and error_message is not null;

-- name: blank_receipts
update sendonce_receipts set result = null where message_id = :message_id and result is not null;

-- name: old_contents
-- What waits for a person keeps its content: it may be handled again.
select id
  from sendonce_messages indexed by sendonce_messages_content
 where ended_at < :now - :age
   and content_gone_at is null
   and max(ended_at, coalesce(closed_at, 0)) < :now - :age
   and (status = 'Completed' or closed_at is not null)
 order by ended_at, id
 limit :limit;

-- name: old_messages
-- What waits for a person stays until somebody has decided.
select id
  from sendonce_messages
 where ended_at < :now - :age
   and max(ended_at, coalesce(closed_at, 0), seen_at) < :now - :age
   and (status = 'Completed' or closed_at is not null)
 order by ended_at, id
 limit :limit;

-- name: drop_tries
delete from sendonce_tries where message in (select value from json_each(:ids));

-- name: drop_messages
delete from sendonce_messages where id in (select value from json_each(:ids));

-- name: drop_old_receipts
-- By the last sight: what comes again is known for so long again. A message is deleted before its receipt.
delete from sendonce_receipts
 where (message_id, consumer) in (
   select message_id, consumer
     from sendonce_receipts
    where received_at < :now - :age and coalesce(seen_at, received_at) < :now - :age
      and not exists (
        select 1 from sendonce_messages m
         where m.message_id = sendonce_receipts.message_id and m.consumer = sendonce_receipts.consumer)
    order by received_at
    limit :limit)
returning 1;

-- name: drop_old_evidence
delete from sendonce_evidence
 where id in (select id from sendonce_evidence where created_at < :now - :age order by created_at limit :limit)
returning id;
