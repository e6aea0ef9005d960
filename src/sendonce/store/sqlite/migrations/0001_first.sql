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
  content_gone_at integer,
  history_gone_at integer,
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
create index sendonce_subscription_secrets_ends on sendonce_subscription_secrets (expires_at, id)
  where expires_at is not null;

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

create table sendonce_requests (
  id integer primary key autoincrement,
  event_id integer not null,
  version integer not null check (version >= 0),
  created_at integer not null,
  content_digest blob not null check (length(content_digest) = 16),
  run integer not null default 0 check (run >= 0),
  tenant text not null default '' check (length(cast(tenant as blob)) <= 200),
  type text not null check (length(cast(type as blob)) between 1 and 128),
  subject text not null check (length(cast(subject as blob)) between 1 and 500),
  constraint sendonce_requests_event unique (event_id),
  constraint sendonce_requests_version unique (subject, type, tenant, version),
  constraint sendonce_requests_run unique (run, subject, type, tenant)
);

create table sendonce_request_keys (
  request_id integer not null,
  created_at integer not null,
  tenant text not null default '' check (length(cast(tenant as blob)) <= 200),
  type text not null check (length(cast(type as blob)) between 1 and 128),
  key text not null check (length(cast(key as blob)) between 1 and 500),
  primary key (key, type, tenant)
) without rowid;
create index sendonce_request_keys_of on sendonce_request_keys (request_id);

create table sendonce_recipients (
  request_id integer not null,
  destination_hash blob not null check (length(destination_hash) = 16),
  is_required integer not null check (is_required in (0, 1)),
  destination text not null check (length(cast(destination as blob)) between 1 and 2000),
  primary key (request_id, destination_hash)
) without rowid;

create view sendonce_recipient_states as
select r.request_id, r.destination, d.destination as sent_to, r.is_required, d.id as delivery_id, d.status, d.notified_at,
       d.notification_id, d.final_error_code, d.attempt_count
  from sendonce_recipients r
  join sendonce_requests q on q.id = r.request_id
  left join sendonce_deliveries d on d.id = (
    select t.id
      from sendonce_deliveries t
     where t.event_id = q.event_id and t.destination_hash = r.destination_hash
     order by t.generation desc
     limit 1);

-- No aggregate over a join: SQLite would make all of that before it looks for the one request.
create view sendonce_request_states as
select q.id as request_id,
       (select count(*) from sendonce_recipients r where r.request_id = q.id and r.is_required = 1) as required,
       (select count(*) from sendonce_recipient_states r
         where r.request_id = q.id and r.is_required = 1 and r.notified_at is not null) as notified,
       (select count(*) from sendonce_recipient_states r
         where r.request_id = q.id and r.is_required = 1
           and r.status in ('Pending', 'InProgress', 'PendingRetry')) as open,
       (select count(*) from sendonce_recipient_states r
         where r.request_id = q.id and r.is_required = 1 and r.status = 'DeadLettered') as given_up,
       case when exists (
              select 1 from sendonce_recipient_states r
               where r.request_id = q.id and r.is_required = 1 and r.status in ('Pending', 'InProgress', 'PendingRetry'))
            then 'in_progress'
            when exists (
              select 1 from sendonce_recipient_states r
               where r.request_id = q.id and r.is_required = 1 and r.notified_at is null)
            then 'retryable_failed'
            else 'succeeded' end as status
  from sendonce_requests q;

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
  closed_as text check (closed_as in ('requeued', 'discarded', 'attested', 'corrected', 'erased')),
  closed_by text,
  check ((closed_at is null) = (closed_as is null))
);
create index sendonce_dead_letters_open on sendonce_dead_letters (created_at, id) where closed_at is null;
-- What waits for a person: who has cancelled something has decided about it.
create index sendonce_dead_letters_waiting on sendonce_dead_letters (created_at)
  where closed_at is null and reason <> 'cancelled';

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
  updated_at integer not null,
  first_id integer not null default 0,
  last_id integer not null default 0,
  upper_id integer not null default 0,
  looked integer not null default 0,
  affected integer not null default 0,
  skipped integer not null default 0,
  rate real check (rate > 0),
  kind text not null,
  state text not null default 'done' check (state in ('running', 'paused', 'done', 'cancelled')),
  operator text not null,
  reason text,
  subject text not null,
  filter text,
  details text,
  check (finished_at is null or state in ('done', 'cancelled'))
);

create table sendonce_corrections (
  delivery_id integer primary key,
  replaces integer not null unique,
  operation_id integer not null
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

create table sendonce_retention (
  part text primary key check (part in ('payloads', 'history', 'keys', 'rest')),
  held_by integer,
  last_id integer not null default 0,
  due_at integer not null default 0,
  whole_at integer not null default 0
) without rowid;
insert into sendonce_retention (part) values ('payloads'), ('history'), ('keys'), ('rest');

create table sendonce_workers (
  id integer primary key autoincrement,
  started_at integer not null,
  seen_at integer not null,
  progressed_at integer,
  stopped_at integer,
  concurrency integer not null,
  is_listening integer not null default 0 check (is_listening in (0, 1)),
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
  when (new.payload is not null and new.payload is not old.payload)
    or (new.headers is not null and new.headers is not old.headers)
    or (new.subject is not null and new.subject is not old.subject)
    or (old.content_gone_at is not null and new.content_gone_at is not old.content_gone_at)
    or (old.history_gone_at is not null and new.history_gone_at is not old.history_gone_at)
    or (new.payload is old.payload and new.headers is old.headers and new.subject is old.subject
        and new.content_gone_at is old.content_gone_at and new.history_gone_at is old.history_gone_at)
    or new.id is not old.id or new.version is not old.version or new.created_at is not old.created_at
    or new.content_digest is not old.content_digest or new.tenant is not old.tenant or new.type is not old.type
    or new.key is not old.key
begin select raise(abort, 'sendonce_events: update is not allowed on this row (rule events_are_immutable)'); end;

create trigger contents_are_immutable before update on sendonce_contents
  when old.content is null or new.content is not null or new.event_id is not old.event_id
    or new.corrections is not old.corrections or new.destination_hash is not old.destination_hash
begin select raise(abort, 'sendonce_contents: update is not allowed on this row (rule contents_are_immutable)'); end;

create trigger contents_correct_dead_letters before insert on sendonce_contents
  when new.corrections > 0 and not exists (
    select 1 from sendonce_deliveries d join sendonce_dead_letters z on z.delivery_id = d.id
     where d.event_id = new.event_id and d.corrections = new.corrections - 1 and z.closed_at is null)
begin select raise(abort, 'a correction needs an open dead letter (rule contents_correct_dead_letters)'); end;

create trigger corrections_are_immutable before update on sendonce_corrections
begin select raise(abort, 'sendonce_corrections: update is not allowed on this row (rule corrections_are_immutable)'); end;

create trigger ended_operations_are_frozen before update on sendonce_operations
  when old.state in ('done', 'cancelled') or new.last_id < old.last_id or new.id is not old.id
    or new.created_at is not old.created_at or new.kind is not old.kind or new.operator is not old.operator
    or new.reason is not old.reason or new.subject is not old.subject or new.filter is not old.filter
    or new.upper_id is not old.upper_id
begin select raise(abort, 'sendonce_operations: update is not allowed on this row (rule ended_operations_are_frozen)'); end;

create trigger requests_are_immutable before update on sendonce_requests
begin select raise(abort, 'sendonce_requests: update is not allowed on this row (rule requests_are_immutable)'); end;

create trigger request_keys_are_immutable before update on sendonce_request_keys
begin select raise(abort, 'sendonce_request_keys: update is not allowed on this row (rule request_keys_are_immutable)'); end;

create trigger recipients_keep_their_identity before update on sendonce_recipients
  when new.request_id <> old.request_id or new.is_required <> old.is_required or new.destination <> old.destination
begin select raise(abort, 'sendonce_recipients: update is not allowed on this row (rule recipients_keep_their_identity)'); end;

create trigger versions_only_rise before insert on sendonce_requests
  when new.run > 0 and not exists (
    select 1 from sendonce_requests
     where subject = new.subject and type = new.type and tenant = new.tenant
       and run = new.run - 1 and version < new.version)
begin select raise(abort, 'a rerun needs a run of a lower version before it (rule versions_only_rise)'); end;

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
  when old.status in ('Completed', 'Failed') and (
    (new.response is not null and new.response is not old.response)
    or (new.error_message is not null and new.error_message is not old.error_message)
    or (new.response is old.response and new.error_message is old.error_message)
    or new.delivery_id is not old.delivery_id or new.lease_id is not old.lease_id
    or new.created_at is not old.created_at or new.finished_at is not old.finished_at
    or new.attempt is not old.attempt or new.status is not old.status or new.outcome is not old.outcome
    or new.error_code is not old.error_code or new.notification_id is not old.notification_id)
begin select raise(abort, 'sendonce_attempts: update is not allowed on this row (rule finished_attempts_are_frozen)'); end;

-- Where one secret is encrypted ("sealed:"), none is stored in plain: somebody has forgotten the key.
create trigger secrets_stay_sealed before insert on sendonce_subscription_secrets
  when substr(new.secret, 1, 7) <> x'7365616c65643a'
   and exists (select 1 from sendonce_subscription_secrets where substr(secret, 1, 7) = x'7365616c65643a')
begin select raise(abort, 'the secrets of this database are encrypted: put their key into SENDONCE_SECRET_KEYS'); end;

create trigger open_deliveries_stay before delete on sendonce_deliveries
  when old.status not in ('Completed', 'DeadLettered')
begin select raise(abort, 'sendonce_deliveries: delete is not allowed on this row (rule open_deliveries_stay)'); end;

create trigger open_dead_letters_stay before delete on sendonce_dead_letters
  when old.closed_at is null
begin select raise(abort, 'sendonce_dead_letters: delete is not allowed on this row (rule open_dead_letters_stay)'); end;

create trigger open_history_stays before delete on sendonce_attempts
  when exists (
    select 1 from sendonce_deliveries where id = old.delivery_id and status not in ('Completed', 'DeadLettered'))
begin select raise(abort, 'sendonce_attempts: delete is not allowed while its delivery is open (rule open_history_stays)'); end;

create trigger open_contents_stay before delete on sendonce_contents
  when exists (
    select 1 from sendonce_deliveries
     where event_id = old.event_id and destination_hash = old.destination_hash
       and status not in ('Completed', 'DeadLettered'))
begin select raise(abort, 'sendonce_contents: delete is not allowed while a delivery is open (rule open_contents_stay)'); end;

create trigger events_stay_with_deliveries before delete on sendonce_events
  when exists (select 1 from sendonce_deliveries where event_id = old.id)
begin select raise(abort, 'sendonce_events: delete is not allowed while it has deliveries (rule events_stay_with_deliveries)'); end;

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
