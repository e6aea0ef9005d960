-- name: wait_for_turn
-- Changes nothing, but is a write: a transaction begun without a lock waits its turn here, before it looks.
update sendonce_requests set run = run where id = 0;

-- name: insert_events
-- Digests come as one blob, 16 bytes each, because JSON holds no bytes. `where true` keeps the upsert apart from a join.
insert into sendonce_events (version, created_at, content_digest, tenant, type, key, subject, payload, headers, routed)
select json_extract(g.value, '$[0]'),
       :now,
       substr(:content_digests, 1 + 16 * g.key, 16),
       json_extract(g.value, '$[1]'),
       json_extract(g.value, '$[2]'),
       json_extract(g.value, '$[3]'),
       json_extract(g.value, '$[4]'),
       json_extract(g.value, '$[5]'),
       json_extract(g.value, '$[6]'),
       json_extract(g.value, '$[7]')
  from json_each(:events) g
 where true
 order by g.key
on conflict (key, type, tenant) do nothing
returning id;

-- name: find_events
select g.key, e.id, e.content_digest
  from json_each(:events) g
  join sendonce_events e
    on e.key = json_extract(g.value, '$[3]')
   and e.type = json_extract(g.value, '$[2]')
   and e.tenant = json_extract(g.value, '$[1]')
 order by g.key;

-- name: find_subscriptions
select distinct json_extract(p.value, '$[0]'), s.id
  from json_each(:patterns) p
  join sendonce_subscription_types t
    on t.pattern = json_extract(p.value, '$[2]')
   and t.tenant = json_extract(p.value, '$[1]')
  join sendonce_subscriptions s on s.id = t.subscription_id
 where s.state <> 'removed'
 order by 1, 2;

-- name: insert_deliveries
insert into sendonce_deliveries
  (event_id, subscription_id, created_at, updated_at, next_attempt_at, expires_at, destination_hash, has_content,
   destination, if_unsure)
select json_extract(d.value, '$[0]'),
       json_extract(d.value, '$[1]'),
       :now,
       :now,
       coalesce(json_extract(d.value, '$[2]'), :now),
       json_extract(d.value, '$[3]'),
       substr(:destination_hashes, 1 + 16 * d.key, 16),
       json_extract(d.value, '$[4]'),
       json_extract(d.value, '$[5]'),
       json_extract(d.value, '$[6]')
  from json_each(:deliveries) d
 order by d.key;

-- name: insert_contents
insert into sendonce_contents (event_id, destination_hash, content)
select json_extract(c.value, '$[0]'),
       substr(:destination_hashes, 1 + 16 * c.key, 16),
       json_extract(c.value, '$[1]')
  from json_each(:contents) c
 order by c.key;

-- name: find_request
-- The request that had the key (0), the one of this version (1), and the newest of this subject (2).
select 0, q.id, q.event_id, q.version, q.run, q.content_digest = :content_digest
  from sendonce_request_keys k
 cross join sendonce_requests q on q.id = k.request_id
 where k.key = :key and k.type = :type and k.tenant = :tenant
 union all
select 1, q.id, q.event_id, q.version, q.run, q.content_digest = :content_digest
  from sendonce_requests q
 where q.subject = :subject and q.type = :type and q.tenant = :tenant and q.version = :version
 union all
select how, id, event_id, version, run, is_same from (
  select 2 as how, q.id, q.event_id, q.version, q.run, 0 as is_same
    from sendonce_requests q
   where q.subject = :subject and q.type = :type and q.tenant = :tenant
   order by q.version desc
   limit 1);

-- name: add_request
insert into sendonce_requests (event_id, version, created_at, content_digest, run, tenant, type, subject)
values (:event_id, :version, :now, :content_digest, :run, :tenant, :type, :subject)
returning id;

-- name: add_request_key
insert into sendonce_request_keys (request_id, created_at, tenant, type, key)
values (:request_id, :now, :tenant, :type, :key)
returning request_id;

-- name: add_recipients
insert into sendonce_recipients (request_id, destination_hash, is_required, destination)
select :request_id, substr(:destination_hashes, 1 + 16 * n.key, 16), n.key < :required, n.value
  from json_each(:destinations) n
 order by n.key;

-- name: request_state
-- All of its recipients, however many: a part of them would be a wrong answer.
select q.id, q.tenant, q.type, q.subject, q.version, q.event_id, q.created_at, s.status,
       r.destination, r.sent_to, r.is_required, r.delivery_id, r.status, r.notified_at, r.notification_id,
       r.final_error_code, r.attempt_count
  from sendonce_requests q
  join sendonce_request_states s on s.request_id = q.id
  join sendonce_recipient_states r on r.request_id = q.id
 where q.id = :request_id
 order by r.is_required desc, r.destination;
