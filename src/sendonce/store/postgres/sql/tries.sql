-- name: has_receipt
select 1 from sendonce_receipts where message_id = :message_id::text and consumer = :consumer::text;

-- name: newest_message
select id, status, begun, finished, created_at, body is not null
  from sendonce_messages
 where consumer = :consumer::text
   and message_id = :message_id::text
 order by generation desc
 limit 1
   for update;

-- name: insert_message
insert into sendonce_messages (
  consumer, message_id, source, source_position, status, reason, error_code, error_message, begun,
  finished, headers, body, next_attempt_at, ended_at)
values (
  :consumer, :message_id, :source, :source_position, :status::text, :reason, :error_code, :error_message, 1, :finished,
  :headers, :body, now() + :wait::float8 * interval '1 second', case when :wait::float8 is null then now() end)
on conflict do nothing
returning id, created_at;

-- name: see_message
update sendonce_messages set seen_at = now(), sightings = sightings + 1 where id = :row_id;

-- name: begin_message_again
update sendonce_messages
   set begun = begun + 1, next_attempt_at = now() + :hold::float8 * interval '1 second', updated_at = now(),
       seen_at = now(), sightings = sightings + 1
 where id = :row_id;

-- name: fail_message
update sendonce_messages
   set status = :status::text, reason = :reason, error_code = :error_code, error_message = :error_message,
       finished = finished + 1, next_attempt_at = now() + :wait::float8 * interval '1 second',
       ended_at = case when :wait::float8 is null then now() end,
       headers = coalesce(headers, :headers), body = coalesce(body, :body), updated_at = now()
 where id = :row_id
   and status = 'InProgress'
returning begun;

-- name: complete_message
update sendonce_messages
   set status = 'Completed', finished = finished + 1, next_attempt_at = null, ended_at = now(), updated_at = now()
 where id = :row_id
   and status = 'InProgress'
returning begun;

-- name: due_messages
with due as (
  select id
    from sendonce_messages
   where consumer = :consumer::text
     and next_attempt_at <= now()
   order by next_attempt_at, id
   limit :limit
     for update skip locked
)
update sendonce_messages m
   set status = 'InProgress', begun = m.begun + 1, updated_at = now(),
       next_attempt_at = now() + :hold::float8 * interval '1 second'
  from due
 where m.id = due.id
returning m.id, m.message_id, m.source, m.source_position, m.begun, m.finished, m.created_at, m.headers, m.body;

-- name: hold_messages
update sendonce_messages
   set next_attempt_at = now() + :hold::float8 * interval '1 second'
 where id = any(:row_ids::bigint[])
   and status = 'InProgress'
   and body is not null;

-- name: return_messages
-- Its broker gives it again where we have not kept it.
update sendonce_messages
   set status = case when body is null then status else 'PendingRetry' end, finished = finished + 1,
       next_attempt_at = case when body is null then next_attempt_at else now() end, updated_at = now()
 where id = any(:row_ids::bigint[])
   and status = 'InProgress'
returning id, begun;

-- name: begin_try
insert into sendonce_tries (message, number, worker) values (:row_id, :number, :worker);

-- name: end_try
update sendonce_tries
   set finished_at = now(), outcome = :outcome, error_code = :error_code, error_message = :error_message
 where message = :row_id
   and number = :number
   and finished_at is null;

-- name: lose_tries
update sendonce_tries set finished_at = now(), outcome = 'Lost' where message = :row_id and finished_at is null;
