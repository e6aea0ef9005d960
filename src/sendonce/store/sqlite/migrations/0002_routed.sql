-- How many deliveries an event was routed to when it was recorded; null when an older program did that and nobody has
-- counted them since. Written once: with the event, or by whoever counts afterwards. Who takes content away writes down
-- when.
alter table sendonce_events add column routed integer;

drop trigger events_are_immutable;
create trigger events_are_immutable before update on sendonce_events
  when (new.payload is not null and new.payload is not old.payload)
    or (new.headers is not null and new.headers is not old.headers)
    or (new.subject is not null and new.subject is not old.subject)
    or (new.content_gone_at is null and (new.payload is not old.payload or new.headers is not old.headers
        or new.subject is not old.subject))
    or (old.content_gone_at is not null and new.content_gone_at is not old.content_gone_at)
    or (old.history_gone_at is not null and new.history_gone_at is not old.history_gone_at)
    or (old.routed is not null and new.routed is not old.routed)
    or (new.payload is old.payload and new.headers is old.headers and new.subject is old.subject
        and new.content_gone_at is old.content_gone_at and new.history_gone_at is old.history_gone_at
        and new.routed is old.routed)
    or new.id is not old.id or new.version is not old.version or new.created_at is not old.created_at
    or new.content_digest is not old.content_digest or new.tenant is not old.tenant or new.type is not old.type
    or new.key is not old.key
begin select raise(abort, 'sendonce_events: update is not allowed on this row (rule events_are_immutable)'); end;

-- A dead letter is closed once, and what it says stays; an erasure takes away what the other side has said, and closes it.
create trigger dead_letters_are_closed_once before update on sendonce_dead_letters
  when new.closed_at is null
    or (old.closed_at is not null and (new.closed_at is not old.closed_at or new.closed_as is not old.closed_as
        or new.closed_by is not old.closed_by))
    or (new.error_message is not null and new.error_message is not old.error_message)
    or (new.closed_at is old.closed_at and new.error_message is old.error_message)
    or new.id is not old.id or new.delivery_id is not old.delivery_id or new.created_at is not old.created_at
    or new.reason is not old.reason or new.error_code is not old.error_code
begin select raise(abort, 'sendonce_dead_letters: update is not allowed on this row (rule dead_letters_are_closed_once)'); end;

-- From here on what retention removes is counted. A database that was in use before says so: some may be gone uncounted, and
-- workers of the version before, who are there before they have counted anything, go on like that.
insert into sendonce_counters (name, amount, created_at)
select 'removed_uncounted', 0, strftime('%s', 'now') * 1000000
 where exists (select 1 from sendonce_counters) or exists (select 1 from sendonce_workers);
