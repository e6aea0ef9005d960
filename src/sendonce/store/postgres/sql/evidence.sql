-- name: doubtful_window
select id from sendonce_deliveries where in_doubt and id < :before order by id desc limit :window;

-- name: deliveries_of_tokens
-- Tokens are computed, never stored: the same length-prefixed hash as provider_token().
select d.id, n.token
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (
   select t.id, t.event_id, t.destination, t.corrections from sendonce_deliveries t where t.id = w.id offset 0) d
 cross join lateral (select t.tenant, t.type, t.key from sendonce_events t where t.id = d.event_id offset 0) e
 cross join lateral (
   select left(encode(sha256(
         convert_to(octet_length(:namespace::text)::text || ':' || :namespace::text, 'UTF8')
         || convert_to(octet_length(e.tenant)::text || ':' || e.tenant, 'UTF8')
         || convert_to(octet_length(e.type)::text || ':' || e.type, 'UTF8')
         || convert_to(octet_length(e.key)::text || ':' || e.key, 'UTF8')
         || convert_to(octet_length(d.destination)::text || ':' || d.destination, 'UTF8')
         || convert_to(length(d.corrections::text)::text || ':' || d.corrections::text, 'UTF8')), 'hex'), 40) as token
   offset 0) n
 where n.token = any(:tokens::text[])
 order by d.id desc;

-- name: deliveries_of_notifications
select d.id, d.notification_id
  from unnest(:ids::bigint[]) as w(id)
 cross join lateral (select t.id, t.notification_id from sendonce_deliveries t where t.id = w.id offset 0) d
 where d.notification_id = any(:notification_ids::text[])
 order by d.id desc;

-- name: evidence_target
-- The newest generation with the same token, whichever of them was found.
select n.id, n.status, n.in_doubt, n.proven_at is not null, n.notification_id, n.attempt_count, n.created_at,
       exists (select 1 from sendonce_deliveries p
                where p.event_id = n.event_id and p.destination_hash = n.destination_hash
                  and p.generation = n.generation - 1 and p.status = 'Completed'),
       z.id, z.closed_as
  from sendonce_deliveries d
  join sendonce_deliveries n
    on n.event_id = d.event_id and n.destination_hash = d.destination_hash and n.corrections = d.corrections
  left join sendonce_dead_letters z on z.delivery_id = n.id
 where d.id = :delivery_id
 order by n.generation desc
 limit 1;

-- name: evidence_with_reference
select delivery_id, effect from sendonce_evidence where source = :source and reference = :reference::text;

-- name: same_evidence
-- Where a source gives no reference: its same word about the same delivery. All that it has said may be long.
select delivery_id, effect
  from sendonce_evidence
 where delivery_id = :delivery_id and source is not distinct from :source and reference is null and outcome = :outcome
   and notification_id is not distinct from :notification_id::text
 order by id
 limit 1;

-- name: add_evidence
insert into sendonce_evidence
  (occurred_at, delivery_id, attempt, source, outcome, token, notification_id, reference, effect, operator, details)
values
  (:occurred_at, :delivery_id, :attempt, :source, :outcome, :token, :notification_id, :reference, :effect, :operator,
   :details)
returning id;

-- name: prove_by_evidence
-- Its next attempt completes it without sending.
update sendonce_deliveries
   set proven_at = now(), notification_id = coalesce(:notification_id, notification_id), updated_at = now(),
       not_before = null, next_attempt_at = case when parked_on is null then now() end
 where id = :delivery_id and status in ('Pending', 'PendingRetry') and proven_at is null
returning id;

-- name: evidence_of
select id, delivery_id, attempt, source, outcome, effect, notification_id, reference, occurred_at, created_at, details
  from sendonce_evidence
 where delivery_id = :delivery_id and id < :before
 order by id desc
 limit :limit;
