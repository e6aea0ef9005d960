-- What an attack on the second version showed to be missing: moments, names and rules. Columns are nullable and have no
-- default, so that programs of the version before go on.

-- A moment before which a delivery in doubt is neither asked about nor sent, by anybody.
alter table sendonce_deliveries add column not_before integer;

-- Since when the other side has been putting a delivery off (429, 503 with Retry-After), without anything else in between.
alter table sendonce_deliveries add column put_off_since integer;

-- A database that is older than what a worker remembers has lost commits: a restore, a file copied back. What was recorded
-- before that was noticed, up to upto_id, is put in doubt, and nothing is claimed until that is done.
create table sendonce_losses (
  id integer primary key autoincrement,
  noticed_at integer not null,
  ended_at integer,
  upto_id integer not null,
  marked_id integer not null default 0,
  doubted integer not null default 0,
  wait real not null check (wait >= 0),
  noticed_by text not null,
  ended_by text,
  check ((ended_at is null) = (ended_by is null))
);
create unique index sendonce_losses_open on sendonce_losses (ended_at is null) where ended_at is null;

-- The loss that alone has put it in doubt; null when there is more to it.
alter table sendonce_deliveries add column doubted_by integer;

-- How much it was when people were told, so that they are told again when it has grown; and where a fault on our side was
-- met last, so that it is over when something gets through there.
alter table sendonce_alerts add column told_size integer;
alter table sendonce_alerts add column met_at text;

-- A breaker knows which turn it is (a number that changes with every change of its state), how much of what it has let out
-- is on its way, and what has become of this round. Where the version before has written it, these are null: none.
alter table sendonce_breakers add column turn integer;
alter table sendonce_breakers add column on_way integer;
alter table sendonce_breakers add column through integer;
alter table sendonce_breakers add column failed integer;

-- What a worker serves: a JSON list of schemes and beginnings of addresses; null for workers of the version before.
alter table sendonce_workers add column serves text;

-- The newest claim that a worker has seen committed (a JSON list: delivery, attempt, lease, event), so that all of them know
-- it: a database that does not have it any more has lost commits, and the one that made it may not be the first to come back.
alter table sendonce_workers add column claimed_at integer;
alter table sendonce_workers add column claim text;

-- Rules that were not held yet.

-- SQLite has no function for the hash of a destination, so what it stands for is unique instead: nobody records a second
-- delivery of one event to one place under another hash. And a subscription's delivery is for that subscription.
create unique index sendonce_deliveries_one_each on sendonce_deliveries (event_id, destination, generation);

create trigger destinations_are_named before insert on sendonce_deliveries
  when new.subscription_id is not null and new.destination <> 'subscription:' || new.subscription_id
begin select raise(abort, 'sendonce_deliveries: insert is not allowed on this row (rule destinations_are_named)'); end;

-- Whoever has an id of the other side's may have been sent: it is in doubt, proven, or has ended.
create trigger ids_begin_with_doubt before insert on sendonce_deliveries
  when new.notification_id is not null and new.in_doubt = 0 and new.status <> 'Completed'
begin select raise(abort, 'sendonce_deliveries: insert is not allowed on this row (rule ids_begin_with_doubt)'); end;

create trigger ids_come_with_doubt before update on sendonce_deliveries
  when new.notification_id is not old.notification_id and new.in_doubt = 0 and new.proven_at is null
    and new.status not in ('Completed', 'DeadLettered')
begin select raise(abort, 'sendonce_deliveries: update is not allowed on this row (rule ids_come_with_doubt)'); end;

-- Doubt is cleared by the result of an attempt only, but for what a loss alone has raised, and proof stays.
create trigger doubt_is_sticky before update on sendonce_deliveries
  when (old.in_doubt = 1 and new.in_doubt = 0 and old.status <> 'InProgress' and old.doubted_by is null)
    or (old.in_doubt = 1 and new.doubted_by is not old.doubted_by and new.doubted_by is not null)
    or (old.proven_at is not null and new.proven_at is not old.proven_at)
begin select raise(abort, 'sendonce_deliveries: update is not allowed on this row (rule doubt_is_sticky)'); end;

-- As before; and what a delivery was recorded as stays.
drop trigger deliveries_keep_their_identity;
create trigger deliveries_keep_their_identity before update on sendonce_deliveries
  when new.id <> old.id or new.event_id <> old.event_id or new.destination_hash <> old.destination_hash
    or new.destination <> old.destination or new.generation <> old.generation
    or new.corrections <> old.corrections or new.attempt_count < old.attempt_count
    or new.subscription_id is not old.subscription_id or new.has_content <> old.has_content
begin select raise(abort, 'sendonce_deliveries: update is not allowed on this row (rule deliveries_keep_their_identity)'); end;

create trigger open_attempts_keep_their_identity before update on sendonce_attempts
  when old.outcome is null and (new.delivery_id <> old.delivery_id or new.attempt <> old.attempt
    or new.lease_id <> old.lease_id or new.created_at <> old.created_at)
begin select raise(abort, 'sendonce_attempts: update is not allowed on this row (rule open_attempts_keep_their_identity)'); end;

-- An attempt is opened of what waits, and what waits is then in progress; it is left when its attempt has ended.
create trigger attempts_are_of_what_waits before insert on sendonce_attempts
  when new.status not in ('Pending', 'Leased') or not exists (
    select 1 from sendonce_deliveries
     where id = new.delivery_id and attempt_count = new.attempt - 1 and status in ('Pending', 'PendingRetry'))
begin select raise(abort, 'sendonce_attempts: insert is not allowed on this row (rule attempts_are_of_what_waits)'); end;

create trigger deliveries_move_with_their_attempt before update on sendonce_deliveries
  when old.status <> new.status and (new.status = 'InProgress') <> exists (
    select 1 from sendonce_attempts where delivery_id = new.id and outcome is null)
begin select raise(abort, 'sendonce_deliveries: update is not allowed on this row (rule deliveries_move_with_their_attempt)'); end;

-- What an open delivery would send stays: its payload, unless it has content of its own, and its headers; and content.
create trigger open_payloads_stay before update on sendonce_events
  when (new.payload is not old.payload or new.headers is not old.headers or new.subject is not old.subject)
   and exists (
     select 1 from sendonce_deliveries
      where event_id = new.id and status not in ('Completed', 'DeadLettered')
        and (has_content = 0 or new.headers is not old.headers or new.subject is not old.subject))
begin select raise(abort, 'sendonce_events: update is not allowed while a delivery is open (rule open_payloads_stay)'); end;

create trigger open_contents_are_kept before update on sendonce_contents
  when exists (
    select 1 from sendonce_deliveries
     where event_id = new.event_id and destination_hash = new.destination_hash and corrections = new.corrections
       and status not in ('Completed', 'DeadLettered'))
begin select raise(abort, 'sendonce_contents: update is not allowed while a delivery is open (rule open_contents_are_kept)'); end;

-- Signed is a property of the subscription, from its first signing secret on: when that is gone nothing is sent unsigned.
-- Written by the database, whatever program enters the secret. Null for no.
alter table sendonce_subscriptions add column is_signed integer;
update sendonce_subscriptions set is_signed = 1
 where exists (
   select 1 from sendonce_subscription_secrets n
    where n.subscription_id = sendonce_subscriptions.id and n.kind = 'signing');

create trigger signing_secrets_mark_their_subscription after insert on sendonce_subscription_secrets
  when new.kind = 'signing'
begin update sendonce_subscriptions set is_signed = 1 where id = new.subscription_id and is_signed is not 1; end;

create trigger signed_subscriptions_stay_signed before update on sendonce_subscriptions
  when old.is_signed is 1 and new.is_signed is not 1
begin select raise(abort, 'sendonce_subscriptions: update is not allowed on this row (rule signed_subscriptions_stay_signed)'); end;

-- A secret stays that of its subscription and its kind; and where all that are encrypted ("sealed:2:") say inside what
-- they are of, none is stored that does not.
create trigger secrets_keep_their_use before update on sendonce_subscription_secrets
  when new.id <> old.id or new.subscription_id <> old.subscription_id or new.kind <> old.kind
    or new.created_at <> old.created_at
begin select raise(abort, 'sendonce_subscription_secrets: update is not allowed on this row (rule secrets_keep_their_use)'); end;

create trigger secrets_stay_bound before insert on sendonce_subscription_secrets
  when substr(new.secret, 1, 7) = x'7365616c65643a' and substr(new.secret, 1, 9) <> x'7365616c65643a323a'
   and exists (select 1 from sendonce_meta where name = 'secrets' and value = 'bound')
begin select raise(abort, 'the secrets of this database are bound to what they are of: store them with a newer sendonce'); end;

create trigger resealed_secrets_stay_bound before update on sendonce_subscription_secrets
  when substr(new.secret, 1, 7) = x'7365616c65643a' and substr(new.secret, 1, 9) <> x'7365616c65643a323a'
   and exists (select 1 from sendonce_meta where name = 'secrets' and value = 'bound')
begin select raise(abort, 'the secrets of this database are bound to what they are of: store them with a newer sendonce'); end;

-- Whose turn it is to check what is marked sent, until when; between two audits, when the next one is due. One row.
create table sendonce_audits (
  id integer primary key check (id = 1),
  held_by integer,
  due_at integer not null
);
