-- What became of every message: a row for each delivery of it, so also for what was replayed or corrected.
-- No outer join, no aggregate: `select … from email_outbox … for update skip locked` is possible.
create view outbox_history as
select m.id, d.id as delivery_id, m.event_id, m.memo_id, e.type as event_type,
       split_part(d.destination, ':', 1) as channel,
       substr(d.destination, position(':' in d.destination) + 1) as recipient,
       case when d.has_content
            then (select jsonb_build_object(
                           'subject', cast(c.content as jsonb) ->> 'subject', 'body', cast(c.content as jsonb) ->> 'text')
                    from sendonce_contents c
                   where c.event_id = d.event_id and c.destination_hash = d.destination_hash
                     and c.corrections = d.corrections and c.content is not null)
            else cast(e.payload as jsonb) end as payload,
       upper(replace(e.type, '.', '_')) as notification_type,
       case d.status when 'InProgress' then 'SENDING' when 'Completed' then 'SENT' when 'DeadLettered' then 'FAILED'
            else 'PENDING' end as status,
       d.attempt_count - d.deferred_count
         - case when d.status = 'Completed' and d.attempt_count > 0 then 1 else 0 end as retry_count,
       (select a.created_at from sendonce_attempts a
         where a.delivery_id = d.id order by a.attempt desc limit 1) as last_attempt_at,
       d.notified_at as sent_at,
       case when d.status = 'DeadLettered'
            then (select coalesce(z.error_code || ': ' || z.error_message, z.error_code, z.reason) from sendonce_dead_letters z
                   where z.delivery_id = d.id)
            when d.status <> 'Completed'
            then (select coalesce(a.error_code || ': ' || a.error_message, a.error_code) from sendonce_attempts a
                   where a.delivery_id = d.id and a.finished_at is not null order by a.attempt desc limit 1)
       end as error_message,
       e.key as idempotency_key,
       e.created_at as meta_created_at,
       nullif(d.updated_at, e.created_at) as meta_updated_at
  from memo_messages m
  join sendonce_events e on e.id = m.event_id
  join sendonce_deliveries d on d.event_id = m.event_id
 where d.subscription_id is null;

-- Of every e-mail what is so now: its newest delivery.
create view email_outbox as
select h.id, h.memo_id, h.event_type, h.payload, h.recipient as recipient_email, h.notification_type, h.status,
       h.retry_count, h.last_attempt_at, h.sent_at, h.error_message, h.idempotency_key, h.meta_created_at,
       h.meta_updated_at
  from outbox_history h
 where h.channel = 'mailto'
   and not exists (
     select 1 from sendonce_deliveries n
      where n.event_id = h.event_id and n.subscription_id is null and n.id > h.delivery_id);
