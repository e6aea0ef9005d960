-- The inbox: what keeps a handler's effect from happening twice, what a consumer could not handle yet or at all, and what
-- comes in later about what was sent. Columns are nullable and have no default, so that programs of the version before go
-- on.

-- A receipt is deleted by the age of its last sight: seen_at is when the message last came again, duplicates how often.
alter table sendonce_receipts add column seen_at integer;
alter table sendonce_receipts add column duplicates integer;
create index sendonce_receipts_age on sendonce_receipts (received_at);

-- Where to ask about a delivery before it is sent again: a URL with {token}. Null: the receiver cannot be asked.
alter table sendonce_subscriptions add column ask text check (length(cast(ask as blob)) between 1 and 2000);

-- A message that a consumer has begun to handle in tries of its own, has failed at or has given up. One that was handled
-- at once has a receipt and nothing here. next_attempt_at is when it may be taken: while somebody handles it, from when
-- on others take that one for dead.
create table sendonce_messages (
  id integer primary key autoincrement,
  created_at integer not null,
  updated_at integer not null,
  seen_at integer not null,
  next_attempt_at integer,
  ended_at integer,
  closed_at integer,
  content_gone_at integer,
  generation integer not null default 0 check (generation >= 0),
  sightings integer not null default 1 check (sightings >= 1),
  begun integer not null default 0 check (begun >= 0),
  finished integer not null default 0 check (finished between 0 and begun),
  consumer text not null check (length(cast(consumer as blob)) between 1 and 200),
  message_id text check (length(cast(message_id as blob)) between 1 and 500),
  status text not null default 'Pending'
    check (status in ('Pending', 'InProgress', 'PendingRetry', 'Completed', 'DeadLettered')),
  reason text check (reason in ('refused', 'exhausted', 'expired', 'failed', 'poison', 'malformed', 'cancelled')),
  error_code text,
  error_message text,
  closed_as text check (closed_as in ('retried', 'discarded', 'erased')),
  closed_by text,
  source text not null check (length(cast(source as blob)) between 1 and 500),
  source_position text check (length(cast(source_position as blob)) <= 500),
  trace text check (length(cast(trace as blob)) <= 500),
  content_type text check (length(cast(content_type as blob)) <= 500),
  headers text,
  body blob,
  unique (message_id, consumer, generation),
  check ((next_attempt_at is null) = (status in ('Completed', 'DeadLettered'))),
  check ((ended_at is null) = (next_attempt_at is not null)),
  check ((reason is null) = (status <> 'DeadLettered')),
  check ((closed_at is null) = (closed_as is null)),
  check (closed_at is null or status = 'DeadLettered'),
  check (message_id is not null or reason is 'malformed')
);
create index sendonce_messages_due on sendonce_messages (consumer, next_attempt_at, id) where next_attempt_at is not null;
create index sendonce_messages_dead on sendonce_messages (ended_at, id) where reason is not null and closed_at is null;
create index sendonce_messages_content on sendonce_messages (ended_at, id)
  where ended_at is not null and content_gone_at is null;
create index sendonce_messages_age on sendonce_messages (ended_at, id) where ended_at is not null;

-- One row for each try, as it begins; kept, so that every error of a message can be read.
create table sendonce_tries (
  message integer not null,
  number integer not null check (number >= 1),
  begun_at integer not null,
  finished_at integer,
  outcome text check (outcome in ('Completed', 'Duplicate', 'Failed', 'Refused', 'Lost')),
  error_code text,
  error_message text,
  worker text,
  primary key (message, number),
  check ((finished_at is null) = (outcome is null))
) without rowid;

-- What came in later about what was sent: a callback, a line of a settlement file, a person's word; and what it did.
create table sendonce_evidence (
  id integer primary key autoincrement,
  created_at integer not null,
  occurred_at integer,
  delivery_id integer,
  attempt integer,
  source text not null check (length(cast(source as blob)) between 1 and 200),
  outcome text not null check (length(cast(outcome as blob)) between 1 and 100),
  token text check (length(cast(token as blob)) between 1 and 500),
  notification_id text check (length(cast(notification_id as blob)) between 1 and 500),
  reference text check (length(cast(reference as blob)) between 1 and 500),
  effect text not null check (length(cast(effect as blob)) between 1 and 100),
  operator text,
  details text,
  unique (source, reference)
);
create index sendonce_evidence_of on sendonce_evidence (delivery_id, id) where delivery_id is not null;
create index sendonce_evidence_age on sendonce_evidence (created_at);

-- The rules.

create trigger receipts_have_names before insert on sendonce_receipts
  when length(cast(new.message_id as blob)) not between 1 and 500 or length(cast(new.consumer as blob)) not between 1 and 200
begin select raise(abort, 'sendonce_receipts: insert is not allowed on this row (rule receipts_have_names)'); end;

-- What it says is said once; what a handler has said can be taken away again.
create trigger receipts_keep_what_they_say before update on sendonce_receipts
  when new.consumer <> old.consumer or new.message_id <> old.message_id or new.received_at <> old.received_at
    or (old.handled_at is not null and new.handled_at is not old.handled_at)
    or (old.result is not null and new.result is not null and new.result <> old.result)
    or (old.duplicates is not null and (new.duplicates is null or new.duplicates < old.duplicates))
begin select raise(abort, 'sendonce_receipts: update is not allowed on this row (rule receipts_keep_what_they_say)'); end;

create trigger duplicates_are_counted after update on sendonce_receipts
  when new.duplicates > coalesce(old.duplicates, 0)
begin
  insert into sendonce_counters (created_at, name, amount)
  values (new.seen_at, 'duplicates', new.duplicates - coalesce(old.duplicates, 0)); end;

-- A generation after the first one is opened by the person who has closed the one before it for that.
create trigger message_generations_follow before insert on sendonce_messages
  when new.generation > 0 and not exists (
    select 1 from sendonce_messages
     where consumer = new.consumer and message_id = new.message_id and generation = new.generation - 1
       and closed_as = 'retried')
begin select raise(abort, 'a generation of a message needs the one before it to be closed as retried'); end;

create trigger messages_move_as_drawn before update on sendonce_messages
  when old.status <> new.status and not (
    (old.status = 'InProgress' and new.status in ('Completed', 'PendingRetry', 'DeadLettered'))
    or (old.status in ('Pending', 'PendingRetry') and new.status in ('InProgress', 'DeadLettered')))
begin select raise(abort, 'sendonce_messages: update is not allowed on this row (rule messages_move_as_drawn)'); end;

create trigger messages_keep_their_identity before update on sendonce_messages
  when new.id <> old.id or new.created_at <> old.created_at or new.generation <> old.generation
    or new.consumer <> old.consumer or new.message_id is not old.message_id or new.source <> old.source
    or new.begun < old.begun or new.finished < old.finished or new.sightings < old.sightings
begin select raise(abort, 'sendonce_messages: update is not allowed on this row (rule messages_keep_their_identity)'); end;

-- Content comes once, while it is open, and can be taken away.
create trigger messages_keep_their_content before update on sendonce_messages
  when (old.body is not null and new.body is not null and new.body <> old.body)
    or (old.headers is not null and new.headers is not null and new.headers <> old.headers)
    or (old.content_gone_at is not null and (
          new.content_gone_at is not old.content_gone_at or new.body is not null or new.headers is not null))
    or (new.content_gone_at is null
        and ((old.body is not null and new.body is null) or (old.headers is not null and new.headers is null)))
begin select raise(abort, 'sendonce_messages: update is not allowed on this row (rule messages_keep_their_content)'); end;

-- What has ended stays as it ended; a dead letter is closed once.
create trigger ended_messages_are_frozen before update on sendonce_messages
  when old.ended_at is not null
   and (new.ended_at is not old.ended_at or new.begun <> old.begun or new.finished <> old.finished
        or new.reason is not old.reason or new.error_code is not old.error_code
        or (new.error_message is not null and new.error_message is not old.error_message)
        or (old.body is null and new.body is not null)
        or (old.closed_at is not null and (
              new.closed_at is not old.closed_at or new.closed_as is not old.closed_as
              or new.closed_by is not old.closed_by)))
begin select raise(abort, 'sendonce_messages: update is not allowed on this row (rule ended_messages_are_frozen)'); end;

create trigger tries_end_once before update on sendonce_tries
  when new.message <> old.message or new.number <> old.number or new.begun_at <> old.begun_at
    or (old.finished_at is not null and (
          new.finished_at is not old.finished_at or new.outcome is not old.outcome or new.error_code is not old.error_code
          or (new.error_message is not null and new.error_message is not old.error_message)))
begin select raise(abort, 'sendonce_tries: update is not allowed on this row (rule tries_end_once)'); end;

-- What it says can be taken away, and nothing be put in its place.
create trigger evidence_is_immutable before update on sendonce_evidence
  when new.details is not null
    or new.id <> old.id or new.created_at <> old.created_at or new.occurred_at is not old.occurred_at
    or new.delivery_id is not old.delivery_id or new.attempt is not old.attempt or new.source <> old.source
    or new.outcome <> old.outcome or new.token is not old.token or new.notification_id is not old.notification_id
    or new.reference is not old.reference or new.effect <> old.effect or new.operator is not old.operator
begin select raise(abort, 'sendonce_evidence: update is not allowed on this row (rule evidence_is_immutable)'); end;
