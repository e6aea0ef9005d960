-- The words and columns of the review notifications over the tables of sendonce; nothing here is stored twice.
-- moment(…) is a time for people to read: as it is on PostgreSQL, written out on SQLite.

create view review_jobs as
select q.id,
       (select k.key
          from sendonce_request_keys k
         where k.request_id = q.id
         order by k.created_at, k.key
         limit 1) as idempotency_key,
       q.subject as changelist_id, q.version as review_version, s.status, moment(q.created_at) as created_at
  from sendonce_requests q
  join sendonce_request_states s on s.request_id = q.id
 where q.type = 'review.finished' and q.tenant = '';

create view review_notifications as
select q.id as job_id, q.subject as changelist_id,
       case when r.destination like 'mailto:%' then substr(r.destination, 8) else r.destination end as recipient,
       case when r.sent_to = r.destination then null
            when r.sent_to like 'mailto:%' then substr(r.sent_to, 8) else r.sent_to end as sent_to,
       q.version as review_version, r.is_required as required,
       case r.status when 'Completed' then 'sent' when 'DeadLettered' then 'failed' when 'InProgress' then 'sending'
                     else 'pending' end as status,
       moment(r.notified_at) as notified_at, r.notification_id, r.final_error_code as last_error,
       r.attempt_count as attempts, r.delivery_id,
       (select z.id
          from sendonce_dead_letters z
         where z.delivery_id = r.delivery_id and z.closed_at is null) as dead_letter_id
  from sendonce_requests q
  join sendonce_recipient_states r on r.request_id = q.id
 where q.type = 'review.finished' and q.tenant = '';

create view review_log as
select q.id as job_id, q.subject as changelist_id,
       case when d.destination like 'mailto:%' then substr(d.destination, 8) else d.destination end as recipient,
       q.version as review_version, d.generation, a.attempt, moment(a.created_at) as started_at,
       moment(a.finished_at) as finished_at, a.outcome, a.error_code, a.notification_id, a.delivery_id
  from sendonce_requests q
  join sendonce_deliveries d on d.event_id = q.event_id and d.subscription_id is null
  join sendonce_attempts a on a.delivery_id = d.id
 where q.type = 'review.finished' and q.tenant = '';
