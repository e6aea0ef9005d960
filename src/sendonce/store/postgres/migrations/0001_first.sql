-- Every table, rule and index of the first version. No index and no predicate names a status, so that ending an
-- attempt and a delivery stays a HOT update; the only index over due times holds just what can be claimed.

create table sendonce_meta (
  name text primary key,
  value text not null
);
insert into sendonce_meta (name, value) values ('namespace', gen_random_uuid()::text);

create table sendonce_events (
  id bigint generated always as identity primary key,
  version bigint check (version >= 0),
  created_at timestamptz not null default now(),
  content_gone_at timestamptz,
  history_gone_at timestamptz,
  content_digest uuid not null,
  tenant text not null default '' check (octet_length(tenant) <= 200),
  type text not null check (octet_length(type) between 1 and 128),
  key text not null check (octet_length(key) between 1 and 500),
  subject text check (octet_length(subject) <= 500),
  payload text,
  headers text,
  constraint sendonce_events_key unique (key, type, tenant)
);
comment on column sendonce_events.payload is 'JSON as text; null once retention or an erasure has blanked it';
comment on column sendonce_events.history_gone_at is 'When retention has deleted its deliveries with all that belongs to them';

create table sendonce_contents (
  event_id bigint not null,
  corrections int not null default 0 check (corrections >= 0),
  destination_hash uuid not null,
  content text,
  primary key (event_id, destination_hash, corrections)
);
comment on table sendonce_contents is 'What a destination is sent instead of the payload, rendered when it was recorded';

create table sendonce_subscriptions (
  id bigint generated always as identity primary key,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  tenant text not null default '' check (octet_length(tenant) <= 200),
  destination text not null check (octet_length(destination) between 1 and 2000),
  state text not null default 'active' check (state in ('active', 'paused', 'disabled', 'removed')),
  state_reason text,
  policy text,
  rate float8 check (rate > 0),
  description text
);
comment on column sendonce_subscriptions.rate is 'At most so many sends a second; null for as many as there are';

create table sendonce_subscription_types (
  tenant text not null,
  pattern text not null check (octet_length(pattern) between 1 and 130),
  subscription_id bigint not null references sendonce_subscriptions (id),
  primary key (pattern, tenant, subscription_id)
);
create index sendonce_subscription_types_of on sendonce_subscription_types (subscription_id);

create table sendonce_subscription_secrets (
  id bigint generated always as identity primary key,
  subscription_id bigint not null references sendonce_subscriptions (id),
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  kind text not null default 'signing' check (kind in ('signing', 'bearer', 'headers', 'certificate')),
  secret bytea not null
);
create index sendonce_subscription_secrets_of on sendonce_subscription_secrets (subscription_id);
create index sendonce_subscription_secrets_ends on sendonce_subscription_secrets (expires_at, id)
  where expires_at is not null;

create table sendonce_deliveries (
  id bigint generated always as identity primary key,
  event_id bigint not null,
  subscription_id bigint,
  created_at timestamptz not null default now(),
  next_attempt_at timestamptz default now(),
  updated_at timestamptz not null default now(),
  notified_at timestamptz,
  expires_at timestamptz,
  proven_at timestamptz,
  destination_hash uuid not null,
  generation int not null default 0 check (generation >= 0),
  corrections int not null default 0 check (corrections >= 0),
  attempt_count int not null default 0 check (attempt_count >= 0),
  deferred_count int not null default 0 check (deferred_count between 0 and attempt_count),
  has_content boolean not null default false,
  in_doubt boolean not null default false,
  status text not null default 'Pending'
    check (status in ('Pending', 'InProgress', 'PendingRetry', 'Completed', 'DeadLettered')),
  destination text not null check (octet_length(destination) between 1 and 2000),
  if_unsure text check (if_unsure in ('resend', 'hold')),
  parked_on text,
  final_error_code text,
  notification_id text,
  constraint sendonce_deliveries_once unique (event_id, destination_hash, generation),
  -- Every open delivery can be claimed, is being sent, or says what it is parked on; a finished one is none of these.
  constraint sendonce_deliveries_whereabouts check (
    case
      when status in ('Pending', 'PendingRetry') then (next_attempt_at is null) = (parked_on is not null)
      else next_attempt_at is null and parked_on is null
    end
  ),
  constraint sendonce_deliveries_sent check (notified_at is null or status = 'Completed')
) with (
  fillfactor = 45,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);
create index sendonce_deliveries_due on sendonce_deliveries (next_attempt_at, id) where next_attempt_at is not null;
create index sendonce_deliveries_parked on sendonce_deliveries (parked_on, id) where parked_on is not null;
create index sendonce_deliveries_in_doubt on sendonce_deliveries (id) where in_doubt;

create table sendonce_attempts (
  delivery_id bigint not null,
  lease_id bigint not null,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  attempt int not null check (attempt >= 1),
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
) with (
  fillfactor = 35,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

-- A request fans one version of a subject out to its recipients: one event, and for each recipient one delivery of it.
create table sendonce_requests (
  id bigint generated always as identity primary key,
  event_id bigint not null,
  version bigint not null check (version >= 0),
  created_at timestamptz not null default now(),
  content_digest uuid not null,
  run int not null default 0 check (run >= 0),
  tenant text not null default '' check (octet_length(tenant) <= 200),
  type text not null check (octet_length(type) between 1 and 128),
  subject text not null check (octet_length(subject) between 1 and 500),
  constraint sendonce_requests_event unique (event_id),
  constraint sendonce_requests_version unique (subject, type, tenant, version),
  constraint sendonce_requests_run unique (run, subject, type, tenant)
);
comment on column sendonce_requests.run is 'Which one of its subject: 0 for the first, the next for each rerun';

create table sendonce_request_keys (
  request_id bigint not null,
  created_at timestamptz not null default now(),
  tenant text not null default '' check (octet_length(tenant) <= 200),
  type text not null check (octet_length(type) between 1 and 128),
  key text not null check (octet_length(key) between 1 and 500),
  primary key (key, type, tenant)
);
create index sendonce_request_keys_of on sendonce_request_keys (request_id);

create table sendonce_recipients (
  request_id bigint not null,
  destination_hash uuid not null,
  is_required boolean not null,
  destination text not null check (octet_length(destination) between 1 and 2000),
  primary key (request_id, destination_hash)
);
comment on column sendonce_recipients.destination is 'As asked for; destination_hash follows a correction to a new one';

-- Of each recipient the newest generation only. Both views read with their owner's rights: who may publish may look here.
create view sendonce_recipient_states as
select r.request_id, r.destination, d.destination as sent_to, r.is_required, d.id as delivery_id, d.status, d.notified_at,
       d.notification_id, d.final_error_code, d.attempt_count
  from sendonce_recipients r
  join sendonce_requests q on q.id = r.request_id
  left join lateral (
    select t.id, t.destination, t.status, t.notified_at, t.notification_id, t.final_error_code, t.attempt_count
      from sendonce_deliveries t
     where t.event_id = q.event_id and t.destination_hash = r.destination_hash
     order by t.generation desc
     limit 1) d on true;

create view sendonce_request_states as
select q.id as request_id, s.required, s.notified, s.open, s.given_up,
       case when s.open > 0 then 'in_progress' when s.notified = s.required then 'succeeded' else 'retryable_failed' end
         as status
  from sendonce_requests q
 cross join lateral (
   select count(*) as required,
          count(*) filter (where r.notified_at is not null) as notified,
          count(*) filter (where r.status in ('Pending', 'InProgress', 'PendingRetry')) as open,
          count(*) filter (where r.status = 'DeadLettered') as given_up
     from sendonce_recipient_states r
    where r.request_id = q.id and r.is_required) s;

create sequence sendonce_lease_ids;
create table sendonce_leases (
  id bigint primary key,
  worker_id bigint not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  deliveries bigint[] not null
);
create index sendonce_leases_expiry on sendonce_leases (expires_at, id);

create table sendonce_dead_letters (
  id bigint generated always as identity primary key,
  delivery_id bigint not null unique,
  created_at timestamptz not null default now(),
  closed_at timestamptz,
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
  received_at timestamptz not null default now(),
  handled_at timestamptz,
  result text,
  primary key (message_id, consumer)
);

create table sendonce_findings (
  id bigint generated always as identity primary key,
  delivery_id bigint not null,
  attempt int,
  created_at timestamptz not null default now(),
  kind text not null,
  outcome text,
  error_code text,
  notification_id text,
  details text
);
create index sendonce_findings_of on sendonce_findings (delivery_id, id);

create table sendonce_operations (
  id bigint generated always as identity primary key,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  updated_at timestamptz not null default now(),
  first_id bigint not null default 0,
  last_id bigint not null default 0,
  upper_id bigint not null default 0,
  looked bigint not null default 0,
  affected bigint not null default 0,
  skipped bigint not null default 0,
  rate float8 check (rate > 0),
  kind text not null,
  state text not null default 'done' check (state in ('running', 'paused', 'done', 'cancelled')),
  operator text not null,
  reason text,
  subject text not null,
  filter text,
  details text,
  check (finished_at is null or state in ('done', 'cancelled'))
) with (fillfactor = 70);
comment on table sendonce_operations is 'Who did what, when and why; what is done by filter goes from last_id to upper_id';

-- What a person has corrected: the delivery that goes instead of the one that was given up. Once each.
create table sendonce_corrections (
  delivery_id bigint primary key,
  replaces bigint not null unique,
  operation_id bigint not null
);

create table sendonce_stops (
  scope text not null check (scope in ('all', 'channel', 'destination', 'tenant')),
  value text not null,
  created_at timestamptz not null default now(),
  operator text not null,
  reason text,
  primary key (scope, value)
);

-- A room is where the deliveries of one destination, place or subscription wait when they cannot be sent now: the rows
-- whose parked_on is its name. A breaker lets nothing out of one but now and then a probe.
create table sendonce_breakers (
  room text primary key,
  opened_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  probe_at timestamptz not null,
  pause float8 not null check (pause > 0),
  allowance int not null default 0 check (allowance >= 0),
  is_probing boolean not null default false,
  error_code text
) with (fillfactor = 50);
comment on column sendonce_breakers.allowance is '0 while it is open; then how many may be on their way at once';

create table sendonce_buckets (
  subscription_id bigint primary key,
  refilled_at timestamptz not null default now(),
  tokens float8 not null
) with (fillfactor = 50);

create table sendonce_alerts (
  name text primary key,
  raised_at timestamptz not null default now(),
  told_at timestamptz not null default now(),
  is_raised boolean not null default true,
  seen bigint not null default 0,
  message text not null
) with (fillfactor = 50);
comment on table sendonce_alerts is 'What people were told, and when: one row per condition, so that several workers tell it once';

-- One row for each part of retention: whose turn it is until when, and up to which event it has come.
create table sendonce_retention (
  part text primary key check (part in ('payloads', 'history', 'keys', 'rest')),
  held_by bigint,
  last_id bigint not null default 0,
  due_at timestamptz not null default now(),
  whole_at timestamptz not null default now()
) with (fillfactor = 50);
insert into sendonce_retention (part) values ('payloads'), ('history'), ('keys'), ('rest');
comment on column sendonce_retention.due_at is 'The next pass; during a pass, when another worker may take it over';
comment on column sendonce_retention.whole_at is 'When a pass has last begun at the first event';

create table sendonce_workers (
  id bigint generated always as identity primary key,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  progressed_at timestamptz,
  stopped_at timestamptz,
  concurrency int not null,
  is_listening boolean not null default false,
  name text not null,
  version text not null
) with (fillfactor = 50);
comment on column sendonce_workers.is_listening is 'It serves metrics; the eldest of these also those of the database';

create table sendonce_counters (
  id bigint generated always as identity primary key,
  created_at timestamptz not null default now(),
  amount bigint not null,
  name text not null
);

-- The rules. AFTER triggers with a WHEN clause: a BEFORE trigger would lock every row first.

-- Functions find our tables in the schema they are made in, and never a caller's temporary table of the same name.
select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

create function sendonce_forbid() returns trigger language plpgsql as $$
begin
  raise exception '%: % is not allowed on this row (rule %)', tg_table_name, lower(tg_op), tg_name using errcode = '23514';
end $$;

-- Content can be taken away and nothing be put in its place; what was done is written beside it, once.
create trigger events_are_immutable after update on sendonce_events for each row
  when ((new.payload is not null and new.payload is distinct from old.payload)
        or (new.headers is not null and new.headers is distinct from old.headers)
        or (new.subject is not null and new.subject is distinct from old.subject)
        or (old.content_gone_at is not null and new.content_gone_at is distinct from old.content_gone_at)
        or (old.history_gone_at is not null and new.history_gone_at is distinct from old.history_gone_at)
        or row(new.payload, new.headers, new.subject, new.content_gone_at, new.history_gone_at)
           is not distinct from row(old.payload, old.headers, old.subject, old.content_gone_at, old.history_gone_at)
        or row(new.id, new.version, new.created_at, new.content_digest, new.tenant, new.type, new.key)
           is distinct from row(old.id, old.version, old.created_at, old.content_digest, old.tenant, old.type, old.key))
  execute function sendonce_forbid();

create trigger contents_are_immutable after update on sendonce_contents for each row
  when (old.content is null or new.content is not null
        or row(new.event_id, new.corrections, new.destination_hash)
           is distinct from row(old.event_id, old.corrections, old.destination_hash))
  execute function sendonce_forbid();

-- Content for a delivery that is on its way is never added: only a correction of one that was given up brings its own.
create function sendonce_check_correction() returns trigger language plpgsql set search_path from current as $$
begin
  perform 1 from sendonce_deliveries d join sendonce_dead_letters z on z.delivery_id = d.id
    where d.event_id = new.event_id and d.corrections = new.corrections - 1 and z.closed_at is null;
  if not found then
    raise exception 'content for correction % needs an open dead letter that it corrects', new.corrections
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger contents_correct_dead_letters after insert on sendonce_contents for each row
  when (new.corrections > 0) execute function sendonce_check_correction();

create trigger corrections_are_immutable after update on sendonce_corrections for each row
  execute function sendonce_forbid();

create trigger ended_operations_are_frozen after update on sendonce_operations for each row
  when (old.state in ('done', 'cancelled') or new.last_id < old.last_id
        or row(new.id, new.created_at, new.kind, new.operator, new.reason, new.subject, new.filter, new.upper_id)
           is distinct from
           row(old.id, old.created_at, old.kind, old.operator, old.reason, old.subject, old.filter, old.upper_id))
  execute function sendonce_forbid();

create trigger requests_are_immutable after update on sendonce_requests for each row
  execute function sendonce_forbid();

create trigger request_keys_are_immutable after update on sendonce_request_keys for each row
  execute function sendonce_forbid();

create trigger recipients_keep_their_identity after update on sendonce_recipients for each row
  when (row(new.request_id, new.is_required, new.destination)
        is distinct from row(old.request_id, old.is_required, old.destination))
  execute function sendonce_forbid();

-- Versions of a subject only rise: a rerun needs the run before it, of a lower version. What is there is immutable and
-- runs are unique, so no race gets past this.
create function sendonce_check_run() returns trigger language plpgsql set search_path from current as $$
begin
  perform 1 from sendonce_requests
    where subject = new.subject and type = new.type and tenant = new.tenant
      and run = new.run - 1 and version < new.version;
  if not found then
    -- Without the run before it, retention has just taken that away: the same may succeed next time.
    raise exception 'run % needs a run % of a lower version before it', new.run, new.run - 1
      using errcode = case when exists (
        select 1 from sendonce_requests
         where subject = new.subject and type = new.type and tenant = new.tenant and run = new.run - 1)
        then '23514' else '40001' end;
  end if;
  return null;
end $$;
create trigger versions_only_rise after insert on sendonce_requests for each row
  when (new.run > 0) execute function sendonce_check_run();

-- One trigger for the three rules of a delivery's update: its WHEN is looked at for every row that moves.
create function sendonce_refuse_move() returns trigger language plpgsql as $$
begin
  raise exception 'sendonce_deliveries: update is not allowed on this row (rule %)',
    case when old.status in ('Completed', 'DeadLettered') then 'finished_deliveries_are_frozen'
         when old.status <> new.status then 'deliveries_move_as_drawn'
         else 'deliveries_keep_their_identity' end
    using errcode = '23514';
end $$;
create trigger deliveries_follow_the_rules after update on sendonce_deliveries for each row
  when (old.status in ('Completed', 'DeadLettered')
    or (old.status <> new.status and not (
      (old.status = 'InProgress' and new.status in ('Completed', 'PendingRetry', 'DeadLettered'))
      or (old.status in ('Pending', 'PendingRetry') and new.status in ('InProgress', 'DeadLettered'))))
    or new.id <> old.id or new.event_id <> old.event_id or new.destination_hash <> old.destination_hash
    or new.generation <> old.generation or new.corrections <> old.corrections
    or new.attempt_count < old.attempt_count or new.destination <> old.destination)
  execute function sendonce_refuse_move();

-- An erasure takes away what the other side has said, and nothing else.
create trigger finished_attempts_are_frozen after update on sendonce_attempts for each row
  when (old.status in ('Completed', 'Failed')
    and ((new.response is not null and new.response is distinct from old.response)
      or (new.error_message is not null and new.error_message is distinct from old.error_message)
      or row(new.response, new.error_message) is not distinct from row(old.response, old.error_message)
      or row(new.delivery_id, new.lease_id, new.created_at, new.finished_at, new.attempt, new.status, new.outcome,
             new.error_code, new.notification_id)
         is distinct from
         row(old.delivery_id, old.lease_id, old.created_at, old.finished_at, old.attempt, old.status, old.outcome,
             old.error_code, old.notification_id)))
  execute function sendonce_forbid();

create trigger open_deliveries_stay after delete on sendonce_deliveries for each row
  when (old.status not in ('Completed', 'DeadLettered'))
  execute function sendonce_forbid();

create trigger open_dead_letters_stay after delete on sendonce_dead_letters for each row
  when (old.closed_at is null)
  execute function sendonce_forbid();

-- What belongs to a delivery that is open stays, and an event stays with its deliveries. Only retention deletes these, so
-- nobody else pays for looking.
create function sendonce_check_attempt_delete() returns trigger language plpgsql set search_path from current as $$
begin
  perform 1 from sendonce_deliveries where id = old.delivery_id and status not in ('Completed', 'DeadLettered');
  if found then
    raise exception 'sendonce_attempts: delete is not allowed while its delivery is open (rule open_history_stays)'
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger open_history_stays after delete on sendonce_attempts for each row
  execute function sendonce_check_attempt_delete();

create function sendonce_check_content_delete() returns trigger language plpgsql set search_path from current as $$
begin
  perform 1 from sendonce_deliveries
    where event_id = old.event_id and destination_hash = old.destination_hash
      and status not in ('Completed', 'DeadLettered');
  if found then
    raise exception 'sendonce_contents: delete is not allowed while a delivery is open (rule open_contents_stay)'
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger open_contents_stay after delete on sendonce_contents for each row
  execute function sendonce_check_content_delete();

create function sendonce_check_event_delete() returns trigger language plpgsql set search_path from current as $$
begin
  perform 1 from sendonce_deliveries where event_id = old.id limit 1;
  if found then
    raise exception 'sendonce_events: delete is not allowed while it has deliveries (rule events_stay_with_deliveries)'
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger events_stay_with_deliveries after delete on sendonce_events for each row
  execute function sendonce_check_event_delete();

-- Whoever opens what comes after a finished delivery holds it first, and its event: two do not open two, and neither
-- retention nor an erasure takes away meanwhile what is to be sent. In the order of the ids. With its owner's rights: who
-- opens a generation may not change an event, and so not lock one.
create function sendonce_hold(wanted bigint[]) returns void language plpgsql security definer
  set search_path from current as $$
begin
  perform 1 from sendonce_deliveries where id = any(wanted) order by id for update;
  perform 1 from sendonce_events
    where id = any(array(select d.event_id from sendonce_deliveries d where d.id = any(wanted))) order by id for share;
end $$;
revoke execute on function sendonce_hold(bigint[]) from public;

-- A key belongs to a request that is there, and stays there until it is committed. With its owner's rights, as above.
create function sendonce_check_request_key() returns trigger language plpgsql security definer
  set search_path from current as $$
begin
  perform 1 from sendonce_requests where id = new.request_id for key share;
  if not found then
    raise exception 'the request of this key is no longer kept; try again' using errcode = '40001';
  end if;
  return null;
end $$;
revoke execute on function sendonce_check_request_key() from public;
create trigger request_keys_have_a_request after insert on sendonce_request_keys for each row
  execute function sendonce_check_request_key();

-- A new generation only after the one before has ended. What has ended is frozen, so this cannot be undone by a race; and
-- retention, which takes away what has ended, locks the event first. With its owner's rights: who opens a generation may
-- not change an event, and so not lock one.
create function sendonce_check_generation() returns trigger language plpgsql security definer
  set search_path from current as $$
begin
  perform 1 from sendonce_events where id = new.event_id for share;
  perform 1 from sendonce_deliveries
    where event_id = new.event_id and destination_hash = new.destination_hash
      and generation = new.generation - 1 and status in ('Completed', 'DeadLettered');
  if not found then
    raise exception 'generation % needs a finished generation % before it', new.generation, new.generation - 1
      using errcode = '23514';
  end if;
  return null;
end $$;
revoke execute on function sendonce_check_generation() from public;
create trigger generations_follow_each_other after insert on sendonce_deliveries for each row
  when (new.generation > 0) execute function sendonce_check_generation();

create trigger deliveries_begin_pending after insert on sendonce_deliveries for each row
  when (new.status <> 'Pending' and (new.status <> 'Completed' or new.generation = 0))
  execute function sendonce_forbid();

-- One active attempt: attempt n only when n - 1 has ended, and an ended attempt is frozen.
create function sendonce_check_attempt() returns trigger language plpgsql set search_path from current as $$
begin
  perform 1 from sendonce_attempts
    where delivery_id = new.delivery_id and attempt = new.attempt - 1 and status in ('Completed', 'Failed');
  if not found then
    raise exception 'attempt % needs a finished attempt % before it', new.attempt, new.attempt - 1
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger attempts_follow_each_other after insert on sendonce_attempts for each row
  when (new.attempt > 1) execute function sendonce_check_attempt();

-- Where one secret is encrypted, none is stored in plain: somebody has forgotten the key. With its owner's rights, because
-- who may store a secret may not read one.
create function sendonce_refuse_plain_secret() returns trigger language plpgsql security definer
  set search_path from current as $$
begin
  perform 1 from sendonce_subscription_secrets s where substring(s.secret from 1 for 7) = 'sealed:'::bytea;
  if found then
    raise exception 'the secrets of this database are encrypted: put their key into SENDONCE_SECRET_KEYS'
      using errcode = '23514';
  end if;
  return null;
end $$;
revoke execute on function sendonce_refuse_plain_secret() from public;
create trigger secrets_stay_sealed after insert on sendonce_subscription_secrets for each row
  when (substring(new.secret from 1 for 7) <> 'sealed:'::bytea) execute function sendonce_refuse_plain_secret();

-- The stop that holds a delivery back, as scope:value, or null. A function, because it is planned only where it is called:
-- written out in the claim it took half of that statement's planning, and nearly always there is no stop.
create function sendonce_stop_of(of_event bigint, of_subscription bigint, of_destination text) returns text
  language plpgsql stable as $$
declare
  place text := (select s.destination from sendonce_subscriptions s where s.id = of_subscription);
begin
  return (
    select t.scope || ':' || t.value from sendonce_stops t
     where (t.scope = 'channel' and t.value = split_part(coalesce(place, of_destination), ':', 1))
        or (t.scope = 'destination' and t.value in (of_destination, place))
        or (t.scope = 'tenant' and t.value = (select e.tenant from sendonce_events e where e.id = of_event))
     order by t.scope, t.value limit 1);
end $$;

-- Where an address leads to: a host with its port, or else the scheme, whose one provider all of its addresses share.
-- Nothing limits null: it leads nowhere.
create function sendonce_place(address text) returns text language sql immutable parallel safe as $$
  select case when address like 'null:%' then ''
              when split_part(address, ':', 2) like '//%'
              then split_part(substr(address, position('://' in address) + 3), '/', 1)
              else split_part(address, ':', 1) end
$$;

-- Which of these candidates of a claim, given in the order in which they are to go, are held back: by a subscription, a stop,
-- a breaker or a rate, but for the room they are taken from; or because no more are left for their destination or place.
-- A rate does not hold what a breaker lets out: who waits for both would go from one to the other for ever.
-- A function for the same reason as above: most of the claim's planning would be for this.
create function sendonce_held(
  ids bigint[], event_ids bigint[], subscription_ids bigint[], destinations text[], rooms text[],
  each int, each_place int, known text[], lefts int[], known_places text[], place_lefts int[])
  returns bigint[] language plpgsql stable as $$
declare
  has_stops boolean := exists (select 1 from sendonce_stops);
  has_breakers boolean := exists (select 1 from sendonce_breakers);
begin
  return (
    with r as materialized (
      select w.id, w.event_id, w.subscription_id, w.destination, w.room, w.nth,
             sendonce_place(coalesce(s.destination, w.destination)) as place,
             coalesce(s.destination, w.destination) like '%://%' as has_host,
             coalesce(s.state in ('paused', 'disabled'), false) as is_shut,
             s.rate is not null and w.room is distinct from 'rate:' || w.subscription_id as has_rate
        from unnest(ids, event_ids, subscription_ids, destinations, rooms) with ordinality
               as w(id, event_id, subscription_id, destination, room, nth)
        left join lateral (
          select n.destination, n.state, n.rate from sendonce_subscriptions n
           where n.id = w.subscription_id offset 0) s on true
    ),
    k as (
      select r.id,
             r.is_shut
             or (r.has_rate and not (has_breakers and exists (select 1 from sendonce_breakers b where b.room = r.room)))
             or (has_stops and sendonce_stop_of(r.event_id, r.subscription_id, r.destination) is not null)
             or (has_breakers and exists (
                   select 1 from sendonce_breakers b
                    where b.room in ('destination:' || r.destination, 'place:' || r.place)
                      and b.room is distinct from r.room))
             or (r.place <> '' and row_number() over (partition by r.place order by r.nth)
                 > coalesce(p.remaining, each_place))
             or (r.has_host and row_number() over (partition by r.destination order by r.nth)
                 > coalesce(d.remaining, each)) as is_held
        from r
        left join unnest(known, lefts) as d(name, remaining) on d.name = r.destination
        left join unnest(known_places, place_lefts) as p(name, remaining) on p.name = r.place
    )
    select array_agg(k.id) from k where k.is_held);
end $$;

-- Parks what must not be sent now, each on the first thing that holds it: a subscription that is not active or a stop,
-- under a share lock (a resume either waits for this, or has begun, and then is not waited for: whoever resumes waits for
-- the deliveries that are locked here; what is not locked is left for the next time); a breaker; a subscription's rate; a destination or a place that has as many on their way as it may.
-- Runs with its owner's rights, so that the orchestrator can lock a subscription it may not change.
create function sendonce_park(wanted bigint[], full_destinations text[], full_places text[], from_room text)
  returns bigint language plpgsql security definer set search_path from current as $$
declare
  shut bigint[] := array(
    select s.id from sendonce_subscriptions s
     where s.id = any(select d.subscription_id from sendonce_deliveries d where d.id = any(wanted))
       and s.state in ('paused', 'disabled') order by s.id for share skip locked);
  stopped text[] := array(
    select s.scope || ':' || s.value from sendonce_stops s order by s.scope, s.value for share skip locked);
  parked bigint;
begin
  with h as materialized (
    select d.id,
           case when s.id = any(shut) then 'subscription:' || s.id
                when sendonce_stop_of(d.event_id, d.subscription_id, d.destination) = any(stopped)
                then 'stop:' || sendonce_stop_of(d.event_id, d.subscription_id, d.destination)
                when exists (select 1 from sendonce_breakers b where b.room = 'destination:' || d.destination)
                then 'destination:' || d.destination
                when exists (
                  select 1 from sendonce_breakers b where b.room = 'place:' || sendonce_place(coalesce(s.destination, d.destination)))
                then 'place:' || sendonce_place(coalesce(s.destination, d.destination))
                when s.rate is not null then 'rate:' || s.id
                when d.destination = any(full_destinations) then 'destination:' || d.destination
                when sendonce_place(coalesce(s.destination, d.destination)) = any(full_places)
                then 'place:' || sendonce_place(coalesce(s.destination, d.destination)) end as room
      from sendonce_deliveries d
      left join sendonce_subscriptions s on s.id = d.subscription_id
     where d.id = any(wanted)
  )
  update sendonce_deliveries d
     set next_attempt_at = null, parked_on = h.room, updated_at = now()
    from h
   where d.id = h.id and h.room is not null and h.room is distinct from from_room
     and (d.next_attempt_at is not null or d.parked_on = from_room);
  get diagnostics parked = row_count;
  return parked;
end $$;
revoke execute on function sendonce_park(bigint[], text[], text[], text) from public;
