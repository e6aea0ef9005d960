-- name: receive
-- A row back: it is the first. Whoever comes while another one handles it waits here for the end of that transaction.
insert into sendonce_receipts (consumer, message_id, handled_at)
values (:consumer, :message_id, now())
on conflict do nothing
returning 1;

-- name: receive_many
-- In one order for all callers, so that two of them cannot wait for each other.
insert into sendonce_receipts (consumer, message_id, handled_at)
select :consumer::text, m.id, now()
  from unnest(:message_ids::text::text[]) as m(id)
 order by m.id collate "C"
on conflict do nothing
returning message_id;

-- name: see_again
update sendonce_receipts
   set seen_at = greatest(seen_at, now()), duplicates = coalesce(duplicates, 0) + 1
 where message_id = :message_id and consumer = :consumer
returning message_id, (extract(epoch from received_at) * 1000000)::bigint, duplicates, result;

-- name: seen
select message_id, (extract(epoch from received_at) * 1000000)::bigint, coalesce(duplicates, 0), result
  from sendonce_receipts
 where message_id = :message_id and consumer = :consumer;

-- name: see_many_again
with seen as materialized (
  select message_id
    from sendonce_receipts
   where message_id = any(:message_ids::text::text[]) and consumer = :consumer::text
   order by message_id collate "C"
     for no key update
)
update sendonce_receipts r
   set seen_at = greatest(r.seen_at, now()), duplicates = coalesce(r.duplicates, 0) + 1
  from seen
 where r.message_id = seen.message_id and r.consumer = :consumer::text
returning r.message_id, (extract(epoch from r.received_at) * 1000000)::bigint, r.duplicates, r.result;

-- name: keep_result
update sendonce_receipts set result = :result where message_id = :message_id and consumer = :consumer;

-- name: give_up
-- The handler has failed: nothing that it has done may be committed, and its receipt neither, even by somebody who goes on
-- after the error. Without a savepoint, which would be two round trips for every message that is handled.
do $$
begin
  raise exception 'sendonce: the handler of a message has failed, so this transaction cannot be committed'
    using hint = 'Roll it back, or to a savepoint from before the message.';
end $$;
