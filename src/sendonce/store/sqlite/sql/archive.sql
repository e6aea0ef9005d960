-- name: archive_events
select e.id, e.tenant, e.type, e.key, e.subject, e.version, e.created_at, e.content_gone_at, e.history_gone_at,
       e.content_digest, e.payload, e.headers
  from json_each(:ids) w
 cross join sendonce_events e on e.id = w.value
 order by e.id;

-- name: archive_contents
select event_id, destination_hash, corrections, content
  from sendonce_contents
 where event_id in (select value from json_each(:ids))
 order by event_id, destination_hash, corrections;

-- name: archive_deliveries
select d.id, d.event_id, d.subscription_id, d.destination, d.destination_hash, d.generation, d.corrections, d.status,
       d.attempt_count, d.deferred_count, d.has_content, d.in_doubt, d.if_unsure, d.final_error_code, d.notification_id,
       d.created_at, d.updated_at, d.notified_at, d.expires_at, d.proven_at
  from json_each(:ids) w
 cross join sendonce_deliveries d not indexed on d.id = w.value
 order by d.id;

-- name: archive_attempts
select delivery_id, attempt, lease_id, status, outcome, error_code, error_message, notification_id, response, created_at,
       finished_at
  from sendonce_attempts
 where delivery_id in (select value from json_each(:ids))
 order by delivery_id, attempt;

-- name: archive_dead_letters
select id, delivery_id, reason, error_code, error_message, created_at, closed_at, closed_as, closed_by
  from sendonce_dead_letters
 where delivery_id in (select value from json_each(:ids))
 order by delivery_id;

-- name: archive_findings
select id, delivery_id, attempt, kind, outcome, error_code, notification_id, details, created_at
  from sendonce_findings
 where delivery_id in (select value from json_each(:ids))
 order by delivery_id, id;

-- name: archive_requests
select id, event_id, subject, version, run, created_at
  from sendonce_requests
 where event_id in (select value from json_each(:ids))
 order by event_id;
