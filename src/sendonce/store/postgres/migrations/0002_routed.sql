-- How many deliveries an event was routed to when it was recorded, so that a missing one can be proven. No default and
-- no constraint to look through the table for: adding the column takes moments, however many rows there are.
alter table sendonce_events add column routed int;
comment on column sendonce_events.routed is
  'Deliveries made when it was recorded; null when an older program did that and nobody has counted them since';

-- As before, and routed is written once: with the event, or by whoever counts afterwards. Who takes content away writes down
-- when.
drop trigger events_are_immutable on sendonce_events;
create trigger events_are_immutable after update on sendonce_events for each row
  when ((new.payload is not null and new.payload is distinct from old.payload)
        or (new.headers is not null and new.headers is distinct from old.headers)
        or (new.subject is not null and new.subject is distinct from old.subject)
        or (new.content_gone_at is null
            and row(new.payload, new.headers, new.subject) is distinct from row(old.payload, old.headers, old.subject))
        or (old.content_gone_at is not null and new.content_gone_at is distinct from old.content_gone_at)
        or (old.history_gone_at is not null and new.history_gone_at is distinct from old.history_gone_at)
        or (old.routed is not null and new.routed is distinct from old.routed)
        or row(new.payload, new.headers, new.subject, new.content_gone_at, new.history_gone_at, new.routed)
           is not distinct from
           row(old.payload, old.headers, old.subject, old.content_gone_at, old.history_gone_at, old.routed)
        or row(new.id, new.version, new.created_at, new.content_digest, new.tenant, new.type, new.key)
           is distinct from row(old.id, old.version, old.created_at, old.content_digest, old.tenant, old.type, old.key))
  execute function sendonce_forbid();

-- A dead letter is closed once, and what it says stays; an erasure takes away what the other side has said, and closes it.
create trigger dead_letters_are_closed_once after update on sendonce_dead_letters for each row
  when (new.closed_at is null
        or (old.closed_at is not null
            and row(new.closed_at, new.closed_as, new.closed_by)
                is distinct from row(old.closed_at, old.closed_as, old.closed_by))
        or (new.error_message is not null and new.error_message is distinct from old.error_message)
        or row(new.closed_at, new.error_message) is not distinct from row(old.closed_at, old.error_message)
        or row(new.id, new.delivery_id, new.created_at, new.reason, new.error_code)
           is distinct from row(old.id, old.delivery_id, old.created_at, old.reason, old.error_code))
  execute function sendonce_forbid();

-- What the consistency check asks about content, with the owner's rights: who may look may not read a payload, and gets ids.
-- Functions find our tables in the schema they are made in, and never a caller's temporary table of the same name.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- Events whose payload is gone, or whose content an open delivery needs and does not have, and nobody wrote down when.
create function sendonce_blanked(after_id bigint, upto_id bigint, cap int) returns setof bigint
  language sql stable security definer set search_path from current as $$
  select e.id
    from sendonce_events e
   where e.id > after_id and e.id <= upto_id and e.content_gone_at is null
     and (e.payload is null or exists (
       select 1 from sendonce_contents c
         join sendonce_deliveries d
           on d.event_id = c.event_id and d.destination_hash = c.destination_hash and d.corrections = c.corrections
        where c.event_id = e.id and c.content is null and d.status not in ('Completed', 'DeadLettered')))
   order by e.id
   limit cap
$$;
revoke execute on function sendonce_blanked(bigint, bigint, int) from public;

-- Events that are not what their digest was made of: payload, subject, version, and the named destinations in the order
-- of their addresses, each with its content. Where one of these is gone there is nothing to compare.
create function sendonce_altered(after_id bigint, upto_id bigint, cap int) returns setof bigint
  language sql stable security definer set search_path from current as $$
  select e.id
    from sendonce_events e
   cross join lateral (
     select count(*) as made,
            count(*) filter (where d.subscription_id is null and d.has_content and c.content is null) as unknown,
            coalesce(string_agg(
              octet_length(d.destination) || ':' || d.destination
              || case when d.has_content then octet_length('+' || c.content) || ':+' || c.content else '1:-' end,
              '' order by d.destination collate "C") filter (where d.subscription_id is null), '') as named
       from sendonce_deliveries d
       left join sendonce_contents c
         on c.event_id = d.event_id and c.destination_hash = d.destination_hash and c.corrections = d.corrections
      where d.event_id = e.id and d.generation = 0 and d.corrections = 0) n
   where e.id > after_id and e.id <= upto_id and e.payload is not null and e.history_gone_at is null
     and n.made = e.routed and n.unknown = 0
     and e.content_digest <> encode(substr(sha256(convert_to(
           octet_length(e.payload) || ':' || e.payload
           || octet_length(coalesce(e.subject, '')) || ':' || coalesce(e.subject, '')
           || length(coalesce(e.version::text, '')) || ':' || coalesce(e.version::text, '')
           || n.named, 'UTF8')), 1, 16), 'hex')::uuid
   order by e.id
   limit cap
$$;
revoke execute on function sendonce_altered(bigint, bigint, int) from public;

-- From here on what retention removes is counted. A database that was in use before says so: some may be gone uncounted, and
-- workers of the version before, who are there before they have counted anything, go on like that.
insert into sendonce_counters (name, amount)
select 'removed_uncounted', 0
 where exists (select 1 from sendonce_counters) or exists (select 1 from sendonce_workers);
