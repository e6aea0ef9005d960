-- The same two views as on PostgreSQL. Times are UTC, as text.
create view outbox_history as
select m.id, d.id as delivery_id, m.event_id, m.memo_id, e.type as event_type,
       substr(d.destination, 1, instr(d.destination, ':') - 1) as channel,
       substr(d.destination, instr(d.destination, ':') + 1) as recipient,
       case when d.has_content
            then (select json_object(
                           'subject', json_extract(c.content, '$.subject'), 'body', json_extract(c.content, '$.text'))
                    from sendonce_contents c
                   where c.event_id = d.event_id and c.destination_hash = d.destination_hash
                     and c.corrections = d.corrections and c.content is not null)
            else e.payload end as payload,
       upper(replace(e.type, '.', '_')) as notification_type,
       case d.status when 'InProgress' then 'SENDING' when 'Completed' then 'SENT' when 'DeadLettered' then 'FAILED'
            else 'PENDING' end as status,
       d.attempt_count - d.deferred_count
         - case when d.status = 'Completed' and d.attempt_count > 0 then 1 else 0 end as retry_count,
       (select strftime('%Y-%m-%d %H:%M:%S', a.created_at / 1000000, 'unixepoch')
               || printf('.%06d', a.created_at % 1000000)
          from sendonce_attempts a
         where a.delivery_id = d.id order by a.attempt desc limit 1) as last_attempt_at,
       strftime('%Y-%m-%d %H:%M:%S', d.notified_at / 1000000, 'unixepoch')
         || printf('.%06d', d.notified_at % 1000000) as sent_at,
       case when d.status = 'DeadLettered'
            then (select coalesce(z.error_code || ': ' || z.error_message, z.error_code, z.reason) from sendonce_dead_letters z
                   where z.delivery_id = d.id)
            when d.status <> 'Completed'
            then (select coalesce(a.error_code || ': ' || a.error_message, a.error_code) from sendonce_attempts a
                   where a.delivery_id = d.id and a.finished_at is not null order by a.attempt desc limit 1)
       end as error_message,
       e.key as idempotency_key,
       strftime('%Y-%m-%d %H:%M:%S', e.created_at / 1000000, 'unixepoch')
         || printf('.%06d', e.created_at % 1000000) as meta_created_at,
       case when d.updated_at <> e.created_at
            then strftime('%Y-%m-%d %H:%M:%S', d.updated_at / 1000000, 'unixepoch')
                 || printf('.%06d', d.updated_at % 1000000) end as meta_updated_at
  from memo_messages m
  join sendonce_events e on e.id = m.event_id
  join sendonce_deliveries d on d.event_id = m.event_id
 where d.subscription_id is null;

create view email_outbox as
select h.id, h.memo_id, h.event_type, h.payload, h.recipient as recipient_email, h.notification_type, h.status,
       h.retry_count, h.last_attempt_at, h.sent_at, h.error_message, h.idempotency_key, h.meta_created_at,
       h.meta_updated_at
  from outbox_history h
 where h.channel = 'mailto'
   and not exists (
     select 1 from sendonce_deliveries n
      where n.event_id = h.event_id and n.subscription_id is null and n.id > h.delivery_id);
