-- name: insert_events
-- The first statement writes, so that a transaction begun without a lock waits its turn here. Digests come as one
-- blob, 16 bytes each, because JSON holds no bytes. `where true` keeps the upsert apart from a join.
insert into sendonce_events (version, created_at, content_digest, tenant, type, key, subject, payload, headers)
select json_extract(g.value, '$[0]'),
       :now,
       substr(:content_digests, 1 + 16 * g.key, 16),
       json_extract(g.value, '$[1]'),
       json_extract(g.value, '$[2]'),
       json_extract(g.value, '$[3]'),
       json_extract(g.value, '$[4]'),
       json_extract(g.value, '$[5]'),
       json_extract(g.value, '$[6]')
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
