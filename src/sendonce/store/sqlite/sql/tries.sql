-- name: has_receipt
select 1 from sendonce_receipts where message_id = :message_id and consumer = :consumer;

-- name: newest_message
select id, status, begun, finished, created_at, body is not null
  from sendonce_messages
 where consumer = :consumer
   and message_id = :message_id
 order by generation desc
 limit 1;

-- name: insert_message
insert into sendonce_messages (
  created_at, updated_at, seen_at, consumer, message_id, source, source_position, status, reason, error_code,
  error_message, begun, finished, headers, body, next_attempt_at, ended_at)
values (
  :now, :now, :now, :consumer, :message_id, :source, :source_position, :status, :reason, :error_code,
  :error_message, 1, :finished, :headers, :body, :now + :wait, case when :wait is null then :now end)
on conflict do nothing
returning id, created_at;

-- name: see_message
update sendonce_messages set seen_at = :now, sightings = sightings + 1 where id = :row_id;

-- name: begin_message_again
update sendonce_messages
   set begun = begun + 1, next_attempt_at = :now + :hold, updated_at = :now, seen_at = :now,
       sightings = sightings + 1
 where id = :row_id;

-- name: fail_message
update sendonce_messages
   set status = :status, reason = :reason, error_code = :error_code, error_message = :error_message,
       finished = finished + 1, next_attempt_at = :now + :wait,
       ended_at = case when :wait is null then :now end,
       headers = coalesce(headers, :headers), body = coalesce(body, :body), updated_at = :now
 where id = :row_id
   and status = 'InProgress'
returning begun;

-- name: complete_message
update sendonce_messages
   set status = 'Completed', finished = finished + 1, next_attempt_at = null, ended_at = :now, updated_at = :now
 where id = :row_id
   and status = 'InProgress'
returning begun;

-- name: due_messages
update sendonce_messages
   set status = 'InProgress', begun = begun + 1, next_attempt_at = :now + :hold, updated_at = :now
 where id in (
   select id
     from sendonce_messages
    where consumer = :consumer
      and next_attempt_at <= :now
    order by next_attempt_at, id
    limit :limit)
returning id, message_id, source, source_position, begun, finished, created_at, headers, body;

-- name: hold_messages
update sendonce_messages
   set next_attempt_at = :now + :hold
 where id in (select value from json_each(:row_ids))
   and status = 'InProgress'
   and body is not null;

-- name: return_messages
-- Its broker gives it again where we have not kept it.
update sendonce_messages
   set status = case when body is null then status else 'PendingRetry' end, finished = finished + 1,
       next_attempt_at = case when body is null then next_attempt_at else :now end, updated_at = :now
 where id in (select value from json_each(:row_ids))
   and status = 'InProgress'
returning id, begun;

-- name: begin_try
insert into sendonce_tries (message, number, begun_at, worker) values (:row_id, :number, :now, :worker);

-- name: end_try
update sendonce_tries
   set finished_at = :now, outcome = :outcome, error_code = :error_code, error_message = :error_message
 where message = :row_id
   and number = :number
   and finished_at is null;

-- name: lose_tries
update sendonce_tries set finished_at = :now, outcome = 'Lost' where message = :row_id and finished_at is null;
