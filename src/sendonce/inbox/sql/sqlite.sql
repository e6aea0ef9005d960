-- name: receive
insert into sendonce_receipts (consumer, message_id, received_at, handled_at)
values (:consumer, :message_id, :now, :now)
on conflict do nothing
returning 1;

-- name: receive_many
-- `where true` keeps the upsert apart from a join.
insert into sendonce_receipts (consumer, message_id, received_at, handled_at)
select :consumer, m.value, :now, :now
  from json_each(:message_ids) m
 where true
on conflict do nothing
returning message_id;

-- name: see_again
update sendonce_receipts
   set seen_at = max(coalesce(seen_at, 0), :now), duplicates = coalesce(duplicates, 0) + 1
 where message_id = :message_id and consumer = :consumer
returning message_id, received_at, duplicates, result;

-- name: seen
select message_id, received_at, coalesce(duplicates, 0), result
  from sendonce_receipts
 where message_id = :message_id and consumer = :consumer;

-- name: see_many_again
update sendonce_receipts
   set seen_at = max(coalesce(seen_at, 0), :now), duplicates = coalesce(duplicates, 0) + 1
 where message_id in (select value from json_each(:message_ids)) and consumer = :consumer
returning message_id, received_at, duplicates, result;

-- name: keep_result
update sendonce_receipts set result = :result where message_id = :message_id and consumer = :consumer;

-- name: begin_handling
savepoint sendonce_once;

-- name: give_up
rollback to savepoint sendonce_once;

-- name: end_handling
release savepoint sendonce_once;
