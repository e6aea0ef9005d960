-- name: request_window
select id from sendonce_requests where id < :before order by id desc limit :window;

-- name: request_ids_of_subject
select id from sendonce_requests where subject = :subject::text limit :window;

-- name: request_ids_of_key
select request_id from sendonce_request_keys where key = :key order by request_id desc limit 100;

-- name: request_at
select created_at from sendonce_requests where id = :id;

-- name: request_rows
select q.id, q.tenant, q.type, q.subject, q.version, q.event_id, q.created_at, s.status, s.required, s.notified, s.open,
       s.given_up
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (select t.* from sendonce_requests t where t.id = w.id offset 0) q
 cross join lateral (select t.* from sendonce_request_states t where t.request_id = q.id offset 0) s
 where (:type::text is null or q.type = :type::text)
   and (:family::text is null or starts_with(q.type, :family::text))
   and (:tenant::text is null or q.tenant = :tenant::text)
   and (:subject::text is null or q.subject = :subject::text)
   and (:status::text is null or s.status = :status::text)
 order by q.id desc
 limit :limit;
