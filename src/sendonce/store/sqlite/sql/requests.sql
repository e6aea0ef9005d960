-- name: request_window
-- A bounded step down the primary key, whatever the planner thinks of how few rows there are.
select id from sendonce_requests not indexed where id < :before order by id desc limit :window;

-- name: request_ids_of_subject
select id from sendonce_requests where subject = :subject limit :window;

-- name: request_ids_of_key
select request_id from sendonce_request_keys where key = :key order by request_id desc limit 100;

-- name: request_at
select created_at from sendonce_requests where id = :id;

-- name: request_rows
select q.id, q.tenant, q.type, q.subject, q.version, q.event_id, q.created_at, s.status, s.required, s.notified, s.open,
       s.given_up
  from json_each(:ids) w
 cross join sendonce_requests q not indexed on q.id = w.value
 cross join sendonce_request_states s on s.request_id = q.id
 where (:type is null or q.type = :type)
   and (:family is null or substr(q.type, 1, length(:family)) = :family)
   and (:tenant is null or q.tenant = :tenant)
   and (:subject is null or q.subject = :subject)
   and (:status is null or s.status = :status)
 order by q.id desc
 limit :limit;
