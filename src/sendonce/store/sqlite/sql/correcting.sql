-- name: lock_deliveries
-- There is one writer.

-- name: corrected_deliveries
-- Which of these were corrected, so that another delivery goes instead; or erased, so that none may.
select c.replaces, c.delivery_id
  from sendonce_corrections c
 where c.replaces in (select value from json_each(:delivery_ids))
 union all
select z.delivery_id, null
  from sendonce_dead_letters z
 where z.delivery_id in (select value from json_each(:delivery_ids)) and z.closed_as = 'erased'
 order by 1;

-- name: to_correct
-- A delivery and its dead letter as a correction finds them; whether what it was to be sent is still there; and who of
-- this event has the wanted destination already.
select d.status, d.in_doubt or :(lost_until) is not null, z.closed_as, d.subscription_id,
       case when d.has_content
            then (select c.content is not null from sendonce_contents c
                   where c.event_id = d.event_id and c.destination_hash = d.destination_hash
                     and c.corrections = d.corrections)
            else (select e.payload is not null from sendonce_events e where e.id = d.event_id) end,
       (select t.id from sendonce_deliveries t
         where t.event_id = d.event_id and t.destination_hash = :destination_hash
         order by t.generation desc limit 1),
       d.event_id, d.destination_hash
  from sendonce_deliveries d
  left join sendonce_dead_letters z on z.delivery_id = d.id
 where d.id = :delivery_id;

-- name: add_corrected_content
-- The new content, or that of before for the new destination; nothing when the payload is what is sent.
insert into sendonce_contents (event_id, corrections, destination_hash, content)
select d.event_id, d.corrections + 1, coalesce(:destination_hash, d.destination_hash),
       coalesce(:content, (
         select c.content from sendonce_contents c
          where c.event_id = d.event_id and c.destination_hash = d.destination_hash and c.corrections = d.corrections))
  from sendonce_deliveries d
 where d.id = :delivery_id and (d.has_content or :content is not null);

-- name: open_correction
-- Never in doubt: what is corrected is a new intent, with a token of its own. What to do in doubt is as it was published, and
-- not what a person has decided about one generation.
insert into sendonce_deliveries
  (event_id, subscription_id, created_at, next_attempt_at, updated_at, destination, destination_hash, generation,
   corrections, has_content, if_unsure)
select d.event_id, d.subscription_id, :now, :now, :now, coalesce(:destination, d.destination),
       coalesce(:destination_hash, d.destination_hash),
       case when :destination is null then d.generation + 1 else 0 end, d.corrections + 1,
       d.has_content or :content is not null, o.if_unsure
  from sendonce_deliveries d
  join sendonce_deliveries o
    on o.event_id = d.event_id and o.destination_hash = d.destination_hash and o.generation = 0
 where d.id = :delivery_id
returning id;

-- name: close_corrected
update sendonce_dead_letters
   set closed_at = :now, closed_as = 'corrected', closed_by = :operator
 where delivery_id = :delivery_id and closed_at is null
returning id;

-- name: move_recipient
-- The request that asked for the old destination asks for the new one from now on.
update sendonce_recipients
   set destination_hash = :destination_hash
 where request_id = (select q.id from sendonce_requests q where q.event_id = :event_id)
   and destination_hash = :old_hash;

-- name: add_correction
insert into sendonce_corrections (delivery_id, replaces, operation_id) values (:delivery_id, :replaces, :operation_id);

-- name: corrections_of
-- What this delivery goes instead of, and what goes instead of it; with who and why.
select c.delivery_id, c.replaces, n.destination, o.destination, p.operator, p.reason, n.created_at
  from (select delivery_id, replaces, operation_id from sendonce_corrections where delivery_id = :delivery_id
        union all
        select delivery_id, replaces, operation_id from sendonce_corrections where replaces = :delivery_id) c
  join sendonce_deliveries n not indexed on n.id = c.delivery_id
  left join sendonce_deliveries o not indexed on o.id = c.replaces
  left join sendonce_operations p on p.id = c.operation_id
 order by c.delivery_id;

-- name: content_of
select c.content
  from sendonce_deliveries d
  join sendonce_contents c
    on c.event_id = d.event_id and c.destination_hash = d.destination_hash and c.corrections = d.corrections
 where d.id = :delivery_id and d.has_content;
