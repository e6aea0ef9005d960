-- What an attack on the second version showed to be missing: moments, names and rules. Columns are nullable and have no
-- default, so that adding them takes moments, and programs of the version before go on.

-- All of them at once, before anything is done, in the order in which programs take them: one that is taken late is waited
-- for while the others stand still, and a program that holds it may wait for one of those.
lock table sendonce_subscriptions, sendonce_subscription_secrets, sendonce_events, sendonce_deliveries, sendonce_attempts,
  sendonce_contents, sendonce_breakers, sendonce_workers, sendonce_alerts in access exclusive mode;

-- A moment before which a delivery in doubt is neither asked about nor sent, by anybody.
alter table sendonce_deliveries add column not_before timestamptz;
comment on column sendonce_deliveries.not_before is
  'While it is in doubt: the moment before which it is neither asked about nor sent';

-- Since when the other side has been putting a delivery off (429, 503 with Retry-After), without anything else in between.
alter table sendonce_deliveries add column put_off_since timestamptz;
comment on column sendonce_deliveries.put_off_since is
  'Since when the other side has asked to wait, attempt after attempt; it ends as exhausted when that takes too long';

-- A database that is older than what a worker remembers has lost commits: a restore, a failover, a file copied back. What
-- was recorded before that was noticed, up to upto_id, is put in doubt, and nothing is claimed until that is done.
create table sendonce_losses (
  id bigint generated always as identity primary key,
  noticed_at timestamptz not null default now(),
  ended_at timestamptz,
  upto_id bigint not null,
  marked_id bigint not null default 0,
  doubted bigint not null default 0,
  wait float8 not null check (wait >= 0),
  noticed_by text not null,
  ended_by text,
  check ((ended_at is null) = (ended_by is null))
);
comment on table sendonce_losses is 'When it was noticed that this database has lost commits, and how far that is settled';
create unique index sendonce_losses_open on sendonce_losses ((ended_at is null)) where ended_at is null;

alter table sendonce_deliveries add column doubted_by bigint;
comment on column sendonce_deliveries.doubted_by is 'The loss that alone has put it in doubt; null when there is more to it';

-- Why a worker may claim nothing now, or null: the database has another name than its settings say, or no longer has the
-- newest claim that it has seen committed, or lost commits before and is not ready yet. A function, because it is planned
-- only where it is called.
create function sendonce_fence(of_instance text, seen_delivery bigint, seen_attempt int, seen_lease bigint)
  returns text language plpgsql stable as $$
begin
  if exists (select 1 from sendonce_meta m where m.name = 'instance' and m.value is distinct from of_instance) then
    return 'other_instance';
  end if;
  if seen_lease is not null and not exists (
       select 1 from sendonce_attempts a
        where a.delivery_id = seen_delivery and a.attempt = seen_attempt and a.lease_id = seen_lease) then
    return 'commits_lost';
  end if;
  if exists (select 1 from sendonce_losses l where l.ended_at is null and l.marked_id < l.upto_id) then
    return 'unmarked';
  end if;
  return null;
end $$;

-- How much it was when people were told, so that they are told again when it has grown; and where a fault on our side was
-- met last, so that it is over when something gets through there.
alter table sendonce_alerts add column told_size bigint;
alter table sendonce_alerts add column met_at text;

-- A breaker knows which turn it is (a number that changes with every change of its state), how much of what it has let out
-- is on its way, and what has become of this round. Where the version before has written it, these are null: none.
alter table sendonce_breakers add column turn bigint, add column on_way int, add column through int, add column failed int;
comment on column sendonce_breakers.turn is 'Only attempts that were let out in this turn count';

-- What a worker serves. What is due and not its own it leaves to others, in a room channel:<name>.
alter table sendonce_workers add column serves text;
comment on column sendonce_workers.serves is
  'A JSON list of schemes and beginnings of addresses; null for workers of the version before';

-- The newest claim that a worker has seen committed, so that all of them know it: a database that does not have it any more
-- has lost commits, and the one that made it may not be the first to come back.
alter table sendonce_workers add column claimed_at timestamptz, add column claim bigint[];
comment on column sendonce_workers.claim is 'The newest claim seen committed: delivery, attempt, lease, event';

-- Functions find our tables in the schema they are made in, and never a caller's temporary table of the same name.
select pg_catalog.set_config(
  'search_path', pg_catalog.quote_ident(pg_catalog.current_schema()::text) || ', pg_temp'::text, true);

-- Which name serves an address: the longest of these beginnings, else its scheme. A subscription's address over http is
-- served by those that are open to subscriptions, which have a name of their own for that.
create function sendonce_channel(address text, is_subscription boolean, beginnings text[]) returns text
  language sql immutable parallel safe as $$
  select coalesce(
    (select n from pg_catalog.unnest(beginnings) as n
      where pg_catalog.starts_with(
              case when is_subscription and address ~ '^https?:' then 'subscription:'::text || address else address end, n)
      order by pg_catalog.length(n) desc limit 1),
    pg_catalog.split_part(address, ':'::text, 1))
$$;

-- As sendonce_held, and only what is served (null: everything), but for what is proven: that is not sent any more.
create function sendonce_held_back(
  ids bigint[], event_ids bigint[], subscription_ids bigint[], destinations text[], rooms text[],
  each int, each_place int, known text[], lefts int[], known_places text[], place_lefts int[],
  served text[], beginnings text[], proven bigint[])
  returns bigint[] language plpgsql stable as $$
declare
  has_stops boolean := exists (select 1 from sendonce_stops);
  has_breakers boolean := exists (select 1 from sendonce_breakers);
  has_beginnings boolean := pg_catalog.cardinality(beginnings) > 0;
begin
  return (
    with r as materialized (
      select w.id, w.event_id, w.subscription_id, w.destination, w.room, w.nth,
             coalesce(s.destination, w.destination) as address,
             sendonce_place(coalesce(s.destination, w.destination)) as place,
             coalesce(s.destination, w.destination) like '%://%' as has_host,
             coalesce(s.state in ('paused', 'disabled'), false) as is_shut,
             s.rate is not null and w.room is distinct from 'rate:' || w.subscription_id::text as has_rate
        from unnest(ids, event_ids, subscription_ids, destinations, rooms) with ordinality
               as w(id, event_id, subscription_id, destination, room, nth)
        left join lateral (
          select n.destination, n.state, n.rate from sendonce_subscriptions n
           where n.id = w.subscription_id offset 0) s on true
    ),
    k as (
      select r.id,
             r.is_shut
             or (served is not null
                 and not (case when has_beginnings then sendonce_channel(r.address, r.subscription_id is not null, beginnings)
                               else pg_catalog.split_part(r.address, ':'::text, 1) end = any(served))
                 and not coalesce(r.id = any(proven), false))
             or (r.has_rate and not (has_breakers and exists (select 1 from sendonce_breakers b where b.room = r.room)))
             or (has_stops and sendonce_stop_of(r.event_id, r.subscription_id, r.destination) is not null)
             or (has_breakers and exists (
                   select 1 from sendonce_breakers b
                    where b.room in ('destination:' || r.destination, 'place:' || r.place)
                      and b.room is distinct from r.room))
             or (r.place <> '' and pg_catalog.row_number() over (partition by r.place order by r.nth)
                 > coalesce(p.remaining, each_place)::bigint)
             or (r.has_host and pg_catalog.row_number() over (partition by r.destination order by r.nth)
                 > coalesce(d.remaining, each)::bigint) as is_held
        from r
        left join unnest(known, lefts) as d(name, remaining) on d.name = r.destination
        left join unnest(known_places, place_lefts) as p(name, remaining) on p.name = r.place
    )
    select pg_catalog.array_agg(k.id) from k where k.is_held);
end $$;

-- As sendonce_park, and what is not served (null: everything is) waits in a room of its channel. Where a live worker serves
-- it and comes by anyway it is left: for `spare` seconds among what is due, and in rooms that it shares with others.
create function sendonce_set_aside(
  wanted bigint[], full_destinations text[], full_places text[], from_room text,
  served text[], beginnings text[], live text[], spare float8)
  returns bigint language plpgsql security definer as $$
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
           case when s.id = any(shut) then 'subscription:' || s.id::text
                when sendonce_stop_of(d.event_id, d.subscription_id, d.destination) = any(stopped)
                then 'stop:' || sendonce_stop_of(d.event_id, d.subscription_id, d.destination)
                when served is not null and d.proven_at is null and not (n.channel = any(served))
                then case when from_room like 'channel:%' or not (n.channel = any(live))
                            or d.next_attempt_at <= pg_catalog.now() - spare * interval '1 second'
                          then 'channel:' || n.channel end
                when exists (select 1 from sendonce_breakers b where b.room = 'destination:' || d.destination)
                then 'destination:' || d.destination
                when exists (select 1 from sendonce_breakers b where b.room = 'place:' || n.place)
                then 'place:' || n.place
                when s.rate is not null then 'rate:' || s.id::text
                when d.destination = any(full_destinations) then 'destination:' || d.destination
                when n.place = any(full_places) then 'place:' || n.place end as room
      from sendonce_deliveries d
      left join sendonce_subscriptions s on s.id = d.subscription_id
     cross join lateral (
       select sendonce_place(coalesce(s.destination, d.destination)) as place,
              sendonce_channel(coalesce(s.destination, d.destination), s.id is not null, beginnings) as channel) n
     where d.id = any(wanted)
  )
  update sendonce_deliveries d
     set next_attempt_at = null, parked_on = h.room, updated_at = pg_catalog.now()
    from h
   where d.id = h.id and h.room is not null and h.room is distinct from from_room
     and (d.next_attempt_at is not null or d.parked_on = from_room);
  get diagnostics parked = row_count;
  return parked;
end $$;
revoke execute on function sendonce_set_aside(bigint[], text[], text[], text, text[], text[], text[], float8) from public;

-- Rules that were not held yet.

-- The hash is that of the destination, and a subscription's delivery is for that subscription: nobody records a second
-- delivery of one event to one place under another hash or name. Only looked at when one is recorded, because none of
-- these changes afterwards.
create trigger destinations_are_hashed after insert on sendonce_deliveries for each row
  when (new.destination_hash <> pg_catalog.encode(pg_catalog.substr(pg_catalog.sha256(pg_catalog.convert_to(
          pg_catalog.octet_length(pg_catalog.convert_to(new.destination, 'UTF8'))::text || ':' || new.destination, 'UTF8')),
          1, 16), 'hex')::uuid
        or (new.subscription_id is not null and new.destination <> 'subscription:' || new.subscription_id::text))
  execute function sendonce_forbid();

-- Whoever has an id of the other side's may have been sent: it is in doubt, proven, or has ended.
create trigger ids_come_with_doubt after insert on sendonce_deliveries for each row
  when (new.notification_id is not null and not new.in_doubt and new.status <> 'Completed')
  execute function sendonce_forbid();

-- As before; and what a delivery was recorded as stays, doubt is cleared by the result of an attempt only, but for what a
-- loss alone has raised, proof stays, and an id comes with doubt, with proof or with the end.
create or replace function sendonce_refuse_move() returns trigger language plpgsql as $$
begin
  raise exception 'sendonce_deliveries: update is not allowed on this row (rule %)',
    case when old.status in ('Completed', 'DeadLettered') then 'finished_deliveries_are_frozen'
         when old.status <> new.status and not (
                (old.status = 'InProgress' and new.status in ('Completed', 'PendingRetry', 'DeadLettered'))
                or (old.status in ('Pending', 'PendingRetry') and new.status in ('InProgress', 'DeadLettered')))
         then 'deliveries_move_as_drawn'
         when (old.in_doubt and not new.in_doubt and old.status <> 'InProgress' and old.doubted_by is null)
              or (old.in_doubt and new.doubted_by is distinct from old.doubted_by and new.doubted_by is not null)
              or (old.proven_at is not null and new.proven_at is distinct from old.proven_at) then 'doubt_is_sticky'
         when new.notification_id is distinct from old.notification_id and not new.in_doubt and new.proven_at is null
              and new.status not in ('Completed', 'DeadLettered') then 'ids_come_with_doubt'
         else 'deliveries_keep_their_identity' end
    using errcode = '23514';
end $$;
drop trigger deliveries_follow_the_rules on sendonce_deliveries;
create trigger deliveries_follow_the_rules after update on sendonce_deliveries for each row
  when (old.status in ('Completed', 'DeadLettered')
    or (old.status <> new.status and not (
      (old.status = 'InProgress' and new.status in ('Completed', 'PendingRetry', 'DeadLettered'))
      or (old.status in ('Pending', 'PendingRetry') and new.status in ('InProgress', 'DeadLettered'))))
    or new.id <> old.id or new.event_id <> old.event_id or new.destination_hash <> old.destination_hash
    or new.generation <> old.generation or new.corrections <> old.corrections
    or new.attempt_count < old.attempt_count or new.destination <> old.destination
    or new.subscription_id is distinct from old.subscription_id or new.has_content <> old.has_content
    or (old.in_doubt and not new.in_doubt and old.status <> 'InProgress' and old.doubted_by is null)
    or (old.in_doubt and new.doubted_by is distinct from old.doubted_by and new.doubted_by is not null)
    or (old.proven_at is not null and new.proven_at is distinct from old.proven_at)
    or (new.notification_id is distinct from old.notification_id and not new.in_doubt and new.proven_at is null
        and new.status not in ('Completed', 'DeadLettered')))
  execute function sendonce_refuse_move();

create trigger open_attempts_keep_their_identity after update on sendonce_attempts for each row
  when (old.outcome is null and (new.delivery_id <> old.delivery_id or new.attempt <> old.attempt
    or new.lease_id <> old.lease_id or new.created_at <> old.created_at))
  execute function sendonce_forbid();

-- A delivery is in progress exactly as long as it has an open attempt, as seen at the end of every statement that moves it:
-- nobody leaves it so with nobody at it, or takes it away from somebody who is. Once for each statement, however many
-- rows that has: a call for each would cost three times as much.
create function sendonce_check_moved() returns trigger language plpgsql as $$
begin
  if (select pg_catalog.count(*) from fresh f where f.status = 'InProgress')
     <> (select pg_catalog.count(*) from sendonce_attempts a
          where a.delivery_id = any(array(select f.id from fresh f where f.status = 'InProgress')) and a.outcome is null)
     or exists (select 1 from sendonce_attempts a
                 where a.delivery_id = any(array(select f.id from fresh f where f.status <> 'InProgress'))
                   and a.outcome is null) then
    raise exception 'sendonce_deliveries: update is not allowed on this row (rule deliveries_move_with_their_attempt)'
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger deliveries_move_with_their_attempt after update on sendonce_deliveries
  referencing new table as fresh for each statement execute function sendonce_check_moved();

-- As before; and no attempt follows another of a delivery that has ended.
create or replace function sendonce_check_attempt() returns trigger language plpgsql as $$
begin
  perform 1 from sendonce_attempts
    where delivery_id = new.delivery_id and attempt = new.attempt - 1 and status in ('Completed', 'Failed');
  if not found then
    raise exception 'attempt % needs a finished attempt % before it', new.attempt, new.attempt - 1
      using errcode = '23514';
  end if;
  perform 1 from sendonce_deliveries where id = new.delivery_id and status = 'InProgress';
  if not found then
    raise exception 'attempt % needs a delivery that is in progress', new.attempt using errcode = '23514';
  end if;
  return null;
end $$;

-- What an open delivery would send stays: its payload, unless it has content of its own, and its headers; and content.
create function sendonce_check_blanked() returns trigger language plpgsql as $$
begin
  perform 1 from sendonce_deliveries
    where event_id = new.id and status not in ('Completed', 'DeadLettered')
      and (not has_content or new.headers is distinct from old.headers or new.subject is distinct from old.subject)
    limit 1;
  if found then
    raise exception 'sendonce_events: update is not allowed while a delivery is open (rule open_payloads_stay)'
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger open_payloads_stay after update on sendonce_events for each row
  when (new.payload is distinct from old.payload or new.headers is distinct from old.headers
        or new.subject is distinct from old.subject)
  execute function sendonce_check_blanked();

create function sendonce_check_content_blanked() returns trigger language plpgsql as $$
begin
  perform 1 from sendonce_deliveries
    where event_id = new.event_id and destination_hash = new.destination_hash and corrections = new.corrections
      and status not in ('Completed', 'DeadLettered');
  if found then
    raise exception 'sendonce_contents: update is not allowed while a delivery is open (rule open_contents_are_kept)'
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger open_contents_are_kept after update on sendonce_contents for each row
  execute function sendonce_check_content_blanked();

-- Signed is a property of the subscription, from its first signing secret on: when that is gone nothing is sent unsigned.
-- Written by the database, whatever program enters the secret; with its owner's rights, because nobody else may.
alter table sendonce_subscriptions add column is_signed boolean;
comment on column sendonce_subscriptions.is_signed is
  'It had a signing secret once, so nothing goes out without one; null for no, as before it is known';
update sendonce_subscriptions s set is_signed = true
 where exists (select 1 from sendonce_subscription_secrets n where n.subscription_id = s.id and n.kind = 'signing');

create function sendonce_mark_signed() returns trigger language plpgsql security definer as $$
begin
  update sendonce_subscriptions set is_signed = true where id = new.subscription_id and is_signed is not true;
  return null;
end $$;
revoke execute on function sendonce_mark_signed() from public;
create trigger signing_secrets_mark_their_subscription after insert on sendonce_subscription_secrets for each row
  when (new.kind = 'signing') execute function sendonce_mark_signed();

create trigger signed_subscriptions_stay_signed after update on sendonce_subscriptions for each row
  when (old.is_signed is true and new.is_signed is not true) execute function sendonce_forbid();

-- A secret stays that of its subscription and its kind; and where all that are encrypted say inside what they are of,
-- none is stored that does not.
create trigger secrets_keep_their_use after update on sendonce_subscription_secrets for each row
  when (new.id <> old.id or new.subscription_id <> old.subscription_id or new.kind <> old.kind
        or new.created_at <> old.created_at)
  execute function sendonce_forbid();

create function sendonce_refuse_unbound_secret() returns trigger language plpgsql as $$
begin
  perform 1 from sendonce_meta where name = 'secrets' and value = 'bound';
  if found then
    raise exception 'the secrets of this database are bound to what they are of: store them with a newer sendonce'
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger secrets_stay_bound after insert on sendonce_subscription_secrets for each row
  when (substring(new.secret from 1 for 7) = 'sealed:'::bytea and substring(new.secret from 1 for 9) <> 'sealed:2:'::bytea)
  execute function sendonce_refuse_unbound_secret();
create trigger resealed_secrets_stay_bound after update on sendonce_subscription_secrets for each row
  when (substring(new.secret from 1 for 7) = 'sealed:'::bytea and substring(new.secret from 1 for 9) <> 'sealed:2:'::bytea)
  execute function sendonce_refuse_unbound_secret();

-- Functions call the server's own functions and operators, whatever somebody has planted beside our tables: every call
-- is written with its schema and every operator between values of the types it is made for, so that nothing fits better.
-- What they do is as before.
create or replace function sendonce_stop_of(of_event bigint, of_subscription bigint, of_destination text) returns text
  language plpgsql stable as $$
declare
  place text := (select s.destination from sendonce_subscriptions s where s.id = of_subscription);
begin
  return (
    select t.scope || ':'::text || t.value from sendonce_stops t
     where (t.scope = 'channel' and t.value = pg_catalog.split_part(coalesce(place, of_destination), ':'::text, 1))
        or (t.scope = 'destination' and t.value in (of_destination, place))
        or (t.scope = 'tenant' and t.value = (select e.tenant from sendonce_events e where e.id = of_event))
     order by t.scope, t.value limit 1);
end $$;

-- The only one without a path of its own: it would not be planned as a part of what calls it. So nothing in it needs one.
create or replace function sendonce_place(address text) returns text language sql immutable parallel safe as $$
  select case when address operator(pg_catalog.~~) 'null:%'::text then ''::text
              when pg_catalog.split_part(address, ':'::text, 2) operator(pg_catalog.~~) '//%'::text
              then pg_catalog.split_part(
                     pg_catalog.substr(address, pg_catalog.strpos(address, '://'::text) operator(pg_catalog.+) 3),
                     '/'::text, 1)
              else pg_catalog.split_part(address, ':'::text, 1) end
$$;

create or replace function sendonce_held(
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
             s.rate is not null and w.room is distinct from 'rate:'::text || w.subscription_id::text as has_rate
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
                    where b.room in ('destination:'::text || r.destination, 'place:'::text || r.place)
                      and b.room is distinct from r.room))
             or (r.place <> '' and pg_catalog.row_number() over (partition by r.place order by r.nth)
                 > coalesce(p.remaining, each_place)::bigint)
             or (r.has_host and pg_catalog.row_number() over (partition by r.destination order by r.nth)
                 > coalesce(d.remaining, each)::bigint) as is_held
        from r
        left join unnest(known, lefts) as d(name, remaining) on d.name = r.destination
        left join unnest(known_places, place_lefts) as p(name, remaining) on p.name = r.place
    )
    select pg_catalog.array_agg(k.id) from k where k.is_held);
end $$;

create or replace function sendonce_park(wanted bigint[], full_destinations text[], full_places text[], from_room text)
  returns bigint language plpgsql security definer as $$
declare
  shut bigint[] := array(
    select s.id from sendonce_subscriptions s
     where s.id = any(select d.subscription_id from sendonce_deliveries d where d.id = any(wanted))
       and s.state in ('paused', 'disabled') order by s.id for share skip locked);
  stopped text[] := array(
    select s.scope || ':'::text || s.value from sendonce_stops s order by s.scope, s.value for share skip locked);
  parked bigint;
begin
  with h as materialized (
    select d.id,
           case when s.id = any(shut) then 'subscription:'::text || s.id::text
                when sendonce_stop_of(d.event_id, d.subscription_id, d.destination) = any(stopped)
                then 'stop:'::text || sendonce_stop_of(d.event_id, d.subscription_id, d.destination)
                when exists (select 1 from sendonce_breakers b where b.room = 'destination:'::text || d.destination)
                then 'destination:'::text || d.destination
                when exists (
                  select 1 from sendonce_breakers b
                   where b.room = 'place:'::text || sendonce_place(coalesce(s.destination, d.destination)))
                then 'place:'::text || sendonce_place(coalesce(s.destination, d.destination))
                when s.rate is not null then 'rate:'::text || s.id::text
                when d.destination = any(full_destinations) then 'destination:'::text || d.destination
                when sendonce_place(coalesce(s.destination, d.destination)) = any(full_places)
                then 'place:'::text || sendonce_place(coalesce(s.destination, d.destination)) end as room
      from sendonce_deliveries d
      left join sendonce_subscriptions s on s.id = d.subscription_id
     where d.id = any(wanted)
  )
  update sendonce_deliveries d
     set next_attempt_at = null, parked_on = h.room, updated_at = pg_catalog.now()
    from h
   where d.id = h.id and h.room is not null and h.room is distinct from from_room
     and (d.next_attempt_at is not null or d.parked_on = from_room);
  get diagnostics parked = row_count;
  return parked;
end $$;

create or replace function sendonce_altered(after_id bigint, upto_id bigint, cap int) returns setof bigint
  language sql stable security definer as $$
  select e.id
    from sendonce_events e
   cross join lateral (
     select pg_catalog.count(*) as made,
            pg_catalog.count(*) filter (where d.subscription_id is null and d.has_content and c.content is null) as unknown,
            coalesce(pg_catalog.string_agg(
              pg_catalog.octet_length(d.destination)::text || ':'::text || d.destination
              || case when d.has_content
                      then pg_catalog.octet_length('+'::text || c.content)::text || ':+'::text || c.content
                      else '1:-'::text end,
              ''::text order by d.destination collate pg_catalog."C") filter (where d.subscription_id is null), ''::text)
              as named
       from sendonce_deliveries d
       left join sendonce_contents c
         on c.event_id = d.event_id and c.destination_hash = d.destination_hash and c.corrections = d.corrections
      where d.event_id = e.id and d.generation = 0 and d.corrections = 0) n
   where e.id > after_id and e.id <= upto_id and e.payload is not null and e.history_gone_at is null
     and n.made = e.routed::bigint and n.unknown = 0::bigint
     and e.content_digest <> pg_catalog.encode(pg_catalog.substr(pg_catalog.sha256(pg_catalog.convert_to(
           pg_catalog.octet_length(e.payload)::text || ':'::text || e.payload
           || pg_catalog.octet_length(coalesce(e.subject, ''::text))::text || ':'::text || coalesce(e.subject, ''::text)
           || pg_catalog.length(coalesce(e.version::text, ''::text))::text || ':'::text
           || coalesce(e.version::text, ''::text)
           || n.named, 'UTF8'::name)), 1, 16), 'hex'::text)::uuid
   order by e.id
   limit cap
$$;

-- Last of all, so that none is left out: every function of ours looks for names in the server's own schema first, then in
-- the one it is in, and never first among a caller's temporary tables.
do $$
declare
  each pg_catalog.regprocedure;
begin
  for each in
    select p.oid::pg_catalog.regprocedure from pg_catalog.pg_proc p
     where p.pronamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident(pg_catalog.current_schema()::text))::oid
       and pg_catalog.starts_with(p.proname::text, 'sendonce_'::text) and p.proname <> 'sendonce_place'::name
       and pg_catalog.pg_has_role(p.proowner, 'member'::text)
  loop
    execute pg_catalog.format(
      'alter function %s set search_path = pg_catalog, %I, pg_temp'::text, each, pg_catalog.current_schema());
  end loop;
end $$;

-- Whose turn it is to check what is marked sent, until when; between two audits, when the next one is due. One row.
create table sendonce_audits (
  id int primary key check (id = 1),
  held_by bigint,
  due_at timestamptz not null
) with (fillfactor = 50);
