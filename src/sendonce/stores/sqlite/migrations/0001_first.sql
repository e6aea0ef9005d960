-- The same tables and rules as on PostgreSQL. Times are whole microseconds since 1970 (UTC), hashes 16-byte blobs,
-- lists JSON. Ids are never given twice (autoincrement), also after old rows were pruned.

create table sendonce_meta (
  name text primary key,
  value text not null
) without rowid;
insert into sendonce_meta (name, value) values ('namespace', lower(hex(randomblob(16))));

create table sendonce_events (
  id integer primary key autoincrement,
  version integer check (version >= 0),
  created_at integer not null,
  content_digest blob not null check (length(content_digest) = 16),
  tenant text not null default '' check (length(cast(tenant as blob)) <= 200),
  type text not null check (length(cast(type as blob)) between 1 and 128),
  key text not null check (length(cast(key as blob)) between 1 and 500),
  subject text check (length(cast(subject as blob)) <= 500),
  payload text,
  headers text,
  constraint sendonce_events_key unique (key, type, tenant)
);

create table sendonce_contents (
  event_id integer not null,
  corrections integer not null default 0 check (corrections >= 0),
  destination_hash blob not null check (length(destination_hash) = 16),
  content text,
  primary key (event_id, destination_hash, corrections)
);

create table sendonce_subscriptions (
  id integer primary key autoincrement,
  created_at integer not null,
  updated_at integer not null,
  tenant text not null default '' check (length(cast(tenant as blob)) <= 200),
  destination text not null check (length(cast(destination as blob)) between 1 and 2000),
  state text not null default 'active' check (state in ('active', 'paused', 'disabled', 'removed')),
  state_reason text,
  policy text,
  rate real check (rate > 0),
  description text
);

create table sendonce_subscription_types (
  tenant text not null,
  pattern text not null check (length(pattern) between 1 and 130),
  subscription_id integer not null references sendonce_subscriptions (id),
  primary key (pattern, tenant, subscription_id)
) without rowid;
create index sendonce_subscription_types_of on sendonce_subscription_types (subscription_id);

create table sendonce_subscription_secrets (
  id integer primary key autoincrement,
  subscription_id integer not null references sendonce_subscriptions (id),
  created_at integer not null,
  expires_at integer,
  kind text not null default 'signing' check (kind in ('signing', 'bearer', 'headers', 'certificate')),
  secret blob not null
);
create index sendonce_subscription_secrets_of on sendonce_subscription_secrets (subscription_id);

create table sendonce_deliveries (
  id integer primary key autoincrement,
  event_id integer not null,
  subscription_id integer,
  created_at integer not null,
  next_attempt_at integer,
  updated_at integer not null,
  notified_at integer,
  expires_at integer,
  proven_at integer,
  destination_hash blob not null check (length(destination_hash) = 16),
  generation integer not null default 0 check (generation >= 0),
  corrections integer not null default 0 check (corrections >= 0),
  attempt_count integer not null default 0 check (attempt_count >= 0),
  deferred_count integer not null default 0 check (deferred_count between 0 and attempt_count),
  has_content integer not null default 0 check (has_content in (0, 1)),
  in_doubt integer not null default 0 check (in_doubt in (0, 1)),
  status text not null default 'Pending'
    check (status in ('Pending', 'InProgress', 'PendingRetry', 'Completed', 'DeadLettered')),
  destination text not null check (length(cast(destination as blob)) between 1 and 2000),
  if_unsure text check (if_unsure in ('resend', 'hold')),
  parked_on text,
  final_error_code text,
  notification_id text,
  constraint sendonce_deliveries_once unique (event_id, destination_hash, generation),
  constraint sendonce_deliveries_whereabouts check (
    case
      when status in ('Pending', 'PendingRetry') then (next_attempt_at is null) = (parked_on is not null)
      else next_attempt_at is null and parked_on is null
    end
  ),
  constraint sendonce_deliveries_sent check (notified_at is null or status = 'Completed')
);
create index sendonce_deliveries_due on sendonce_deliveries (next_attempt_at, id) where next_attempt_at is not null;
create index sendonce_deliveries_parked on sendonce_deliveries (parked_on, id) where parked_on is not null;
create index sendonce_deliveries_in_doubt on sendonce_deliveries (id) where in_doubt = 1;

create table sendonce_attempts (
  delivery_id integer not null,
  lease_id integer not null,
  created_at integer not null,
  finished_at integer,
  attempt integer not null check (attempt >= 1),
  status text not null check (status in ('Pending', 'Leased', 'Completed', 'Failed')),
  outcome text check (outcome in ('Delivered', 'Accepted', 'Refused', 'Failed', 'Unknown', 'Deferred')),
  error_code text,
  error_message text,
  notification_id text,
  response text,
  primary key (delivery_id, attempt),
  constraint sendonce_attempts_ended check (
    (status in ('Completed', 'Failed')) = (outcome is not null) and (outcome is null) = (finished_at is null)
  )
) without rowid;

create table sendonce_leases (
  id integer primary key autoincrement,
  worker_id integer not null,
  created_at integer not null,
  expires_at integer not null,
  deliveries text not null
);
create index sendonce_leases_expiry on sendonce_leases (expires_at, id);

create table sendonce_dead_letters (
  id integer primary key autoincrement,
  delivery_id integer not null unique,
  created_at integer not null,
  closed_at integer,
  reason text not null check (reason in ('refused', 'exhausted', 'expired', 'in_doubt', 'cancelled', 'system')),
  error_code text,
  error_message text,
  closed_as text check (closed_as in ('requeued', 'discarded', 'attested')),
  closed_by text,
  check ((closed_at is null) = (closed_as is null))
);
create index sendonce_dead_letters_open on sendonce_dead_letters (created_at, id) where closed_at is null;

create table sendonce_receipts (
  consumer text not null,
  message_id text not null,
  received_at integer not null,
  handled_at integer,
  result text,
  primary key (message_id, consumer)
) without rowid;

create table sendonce_findings (
  id integer primary key autoincrement,
  delivery_id integer not null,
  attempt integer,
  created_at integer not null,
  kind text not null,
  outcome text,
  error_code text,
  notification_id text,
  details text
);
create index sendonce_findings_of on sendonce_findings (delivery_id, id);

create table sendonce_operations (
  id integer primary key autoincrement,
  created_at integer not null,
  finished_at integer,
  kind text not null,
  operator text not null,
  reason text,
  subject text not null,
  affected integer not null default 0,
  details text
);

create table sendonce_stops (
  scope text not null check (scope in ('all', 'channel', 'destination', 'tenant')),
  value text not null,
  created_at integer not null,
  operator text not null,
  reason text,
  primary key (scope, value)
) without rowid;

create table sendonce_breakers (
  room text primary key,
  opened_at integer not null,
  updated_at integer not null,
  probe_at integer not null,
  pause real not null check (pause > 0),
  allowance integer not null default 0 check (allowance >= 0),
  is_probing integer not null default 0 check (is_probing in (0, 1)),
  error_code text
) without rowid;

create table sendonce_buckets (
  subscription_id integer primary key,
  refilled_at integer not null,
  tokens real not null
);

create table sendonce_alerts (
  name text primary key,
  raised_at integer not null,
  told_at integer not null,
  is_raised integer not null default 1 check (is_raised in (0, 1)),
  seen integer not null default 0,
  message text not null
) without rowid;

create table sendonce_workers (
  id integer primary key autoincrement,
  started_at integer not null,
  seen_at integer not null,
  progressed_at integer,
  stopped_at integer,
  concurrency integer not null,
  name text not null,
  version text not null
);

create table sendonce_counters (
  id integer primary key autoincrement,
  created_at integer not null,
  amount integer not null,
  name text not null
);

create trigger events_are_immutable before update on sendonce_events
  when old.payload is null or new.payload is not null
    or (new.headers is not null and new.headers is not old.headers)
    or (new.subject is not null and new.subject is not old.subject)
    or new.id is not old.id or new.version is not old.version or new.created_at is not old.created_at
    or new.content_digest is not old.content_digest or new.tenant is not old.tenant or new.type is not old.type
    or new.key is not old.key
begin select raise(abort, 'sendonce_events: update is not allowed on this row (rule events_are_immutable)'); end;

create trigger contents_are_immutable before update on sendonce_contents
  when old.content is null or new.content is not null or new.event_id is not old.event_id
    or new.corrections is not old.corrections or new.destination_hash is not old.destination_hash
begin select raise(abort, 'sendonce_contents: update is not allowed on this row (rule contents_are_immutable)'); end;

create trigger finished_deliveries_are_frozen before update on sendonce_deliveries
  when old.status in ('Completed', 'DeadLettered')
begin select raise(abort, 'sendonce_deliveries: update is not allowed on this row (rule finished_deliveries_are_frozen)'); end;

create trigger deliveries_move_as_drawn before update on sendonce_deliveries
  when old.status <> new.status and not (
    (old.status in ('Pending', 'PendingRetry') and new.status in ('InProgress', 'DeadLettered'))
    or (old.status = 'InProgress' and new.status in ('Completed', 'PendingRetry', 'DeadLettered')))
begin select raise(abort, 'sendonce_deliveries: update is not allowed on this row (rule deliveries_move_as_drawn)'); end;

create trigger deliveries_keep_their_identity before update on sendonce_deliveries
  when new.id <> old.id or new.event_id <> old.event_id or new.destination_hash <> old.destination_hash
    or new.destination <> old.destination or new.generation <> old.generation
    or new.corrections <> old.corrections or new.attempt_count < old.attempt_count
begin select raise(abort, 'sendonce_deliveries: update is not allowed on this row (rule deliveries_keep_their_identity)'); end;

create trigger finished_attempts_are_frozen before update on sendonce_attempts
  when old.status in ('Completed', 'Failed')
begin select raise(abort, 'sendonce_attempts: update is not allowed on this row (rule finished_attempts_are_frozen)'); end;

-- Where one secret is encrypted ("sealed:"), none is stored in plain: somebody has forgotten the key.
create trigger secrets_stay_sealed before insert on sendonce_subscription_secrets
  when substr(new.secret, 1, 7) <> x'7365616c65643a'
   and exists (select 1 from sendonce_subscription_secrets where substr(secret, 1, 7) = x'7365616c65643a')
begin select raise(abort, 'the secrets of this database are encrypted: put their key into SENDONCE_SECRET_KEYS'); end;

create trigger open_deliveries_stay before delete on sendonce_deliveries
  when old.status not in ('Completed', 'DeadLettered')
begin select raise(abort, 'sendonce_deliveries: delete is not allowed on this row (rule open_deliveries_stay)'); end;

create trigger generations_follow_each_other before insert on sendonce_deliveries
  when new.generation > 0 and not exists (
    select 1 from sendonce_deliveries
     where event_id = new.event_id and destination_hash = new.destination_hash
       and generation = new.generation - 1 and status in ('Completed', 'DeadLettered'))
begin select raise(abort, 'a new generation needs a finished one before it (rule generations_follow_each_other)'); end;

create trigger deliveries_begin_pending before insert on sendonce_deliveries
  when new.status <> 'Pending' and (new.status <> 'Completed' or new.generation = 0)
begin select raise(abort, 'sendonce_deliveries: insert is not allowed on this row (rule deliveries_begin_pending)'); end;

create trigger attempts_follow_each_other before insert on sendonce_attempts
  when new.attempt > 1 and not exists (
    select 1 from sendonce_attempts
     where delivery_id = new.delivery_id and attempt = new.attempt - 1 and status in ('Completed', 'Failed'))
begin select raise(abort, 'a new attempt needs a finished one before it (rule attempts_follow_each_other)'); end;
