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
  closed_as text check (closed_as in ('requeued', 'discarded', 'attested')),
  closed_by text,
  check ((closed_at is null) = (closed_as is null))
);
create index sendonce_dead_letters_open on sendonce_dead_letters (created_at, id) where closed_at is null;

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
  kind text not null,
  operator text not null,
  reason text,
  subject text not null,
  affected bigint not null default 0,
  details text
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

create table sendonce_workers (
  id bigint generated always as identity primary key,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  progressed_at timestamptz,
  stopped_at timestamptz,
  concurrency int not null,
  name text not null,
  version text not null
) with (fillfactor = 50);

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

create trigger events_are_immutable after update on sendonce_events for each row
  when (old.payload is null or new.payload is not null
        or (new.headers is not null and new.headers is distinct from old.headers)
        or (new.subject is not null and new.subject is distinct from old.subject)
        or row(new.id, new.version, new.created_at, new.content_digest, new.tenant, new.type, new.key)
           is distinct from row(old.id, old.version, old.created_at, old.content_digest, old.tenant, old.type, old.key))
  execute function sendonce_forbid();

create trigger contents_are_immutable after update on sendonce_contents for each row
  when (old.content is null or new.content is not null
        or row(new.event_id, new.corrections, new.destination_hash)
           is distinct from row(old.event_id, old.corrections, old.destination_hash))
  execute function sendonce_forbid();

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

create trigger finished_attempts_are_frozen after update on sendonce_attempts for each row
  when (old.status in ('Completed', 'Failed'))
  execute function sendonce_forbid();

create trigger open_deliveries_stay after delete on sendonce_deliveries for each row
  when (old.status not in ('Completed', 'DeadLettered'))
  execute function sendonce_forbid();

-- A new generation only after the one before has ended. What has ended is frozen, so this cannot be undone by a race.
create function sendonce_check_generation() returns trigger language plpgsql set search_path from current as $$
begin
  perform 1 from sendonce_deliveries
    where event_id = new.event_id and destination_hash = new.destination_hash
      and generation = new.generation - 1 and status in ('Completed', 'DeadLettered');
  if not found then
    raise exception 'generation % needs a finished generation % before it', new.generation, new.generation - 1
      using errcode = '23514';
  end if;
  return null;
end $$;
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
