-- name: archive_events
select id, tenant, type, key, subject, version, created_at, content_gone_at, history_gone_at, content_digest, payload, headers
  from sendonce_events
 where id = any(:ids::bigint[])
 order by id;

-- name: archive_contents
select event_id, destination_hash, corrections, content
  from sendonce_contents
 where event_id = any(:ids::bigint[])
 order by event_id, destination_hash, corrections;

-- name: archive_deliveries
select id, event_id, subscription_id, destination, destination_hash, generation, corrections, status, attempt_count,
       deferred_count, has_content, in_doubt, if_unsure, final_error_code, notification_id, created_at, updated_at,
       notified_at, expires_at, proven_at
  from sendonce_deliveries
 where id = any(:ids::bigint[])
 order by id;

-- name: archive_attempts
select delivery_id, attempt, lease_id, status, outcome, error_code, error_message, notification_id, response, created_at,
       finished_at
  from sendonce_attempts
 where delivery_id = any(:ids::bigint[])
 order by delivery_id, attempt;

-- name: archive_dead_letters
select id, delivery_id, reason, error_code, error_message, created_at, closed_at, closed_as, closed_by
  from sendonce_dead_letters
 where delivery_id = any(:ids::bigint[])
 order by delivery_id;

-- name: archive_findings
select id, delivery_id, attempt, kind, outcome, error_code, notification_id, details, created_at
  from sendonce_findings
 where delivery_id = any(:ids::bigint[])
 order by delivery_id, id;

-- name: archive_requests
select id, event_id, subject, version, run, created_at
  from sendonce_requests
 where event_id = any(:ids::bigint[])
 order by event_id;
