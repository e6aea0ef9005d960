-- The inbox: what keeps a handler's effect from happening twice, what a consumer could not handle yet or at all, and what
-- comes in later about what was sent. Columns are nullable and have no default, so that adding them takes moments.

-- Both at once, before anything is done, in the order in which programs take them.
lock table sendonce_subscriptions, sendonce_receipts in access exclusive mode;

-- A receipt is deleted by the age of its last sight. How often the message came again is counted, and no index holds it,
-- so that a sight is a small update. No program before this one writes receipts, so their index takes moments.
alter table sendonce_receipts add column seen_at timestamptz, add column duplicates int;
comment on table sendonce_receipts is
  'A consumer has handled this message: one row that commits with the effect. As long as it is here, it is known again';
comment on column sendonce_receipts.seen_at is 'When the message last came again; null when it never has';
comment on column sendonce_receipts.duplicates is 'How often the message came again';
comment on column sendonce_receipts.result is 'What the handler has said about it, if anything';
create index sendonce_receipts_age on sendonce_receipts (received_at);

-- What a receiver that can be asked answers: a URL with {token} in it. Null: it cannot be asked.
alter table sendonce_subscriptions add column ask text check (octet_length(ask) between 1 and 2000);
comment on column sendonce_subscriptions.ask is 'Where to ask about a delivery before it is sent again: a URL with {token}';

-- A message that a consumer has begun to handle in tries of its own, has failed at or has given up. One that was handled
-- at once has a receipt and nothing here. next_attempt_at is when it may be taken: while somebody handles it, from when
-- on others take that one for dead.
create table sendonce_messages (
  id bigint generated always as identity primary key,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  next_attempt_at timestamptz,
  ended_at timestamptz,
  closed_at timestamptz,
  content_gone_at timestamptz,
  generation int not null default 0 check (generation >= 0),
  sightings int not null default 1 check (sightings >= 1),
  begun int not null default 0 check (begun >= 0),
  finished int not null default 0 check (finished between 0 and begun),
  consumer text not null check (octet_length(consumer) between 1 and 200),
  message_id text check (octet_length(message_id) between 1 and 500),
  status text not null default 'Pending'
    check (status in ('Pending', 'InProgress', 'PendingRetry', 'Completed', 'DeadLettered')),
  reason text check (reason in ('refused', 'exhausted', 'expired', 'failed', 'poison', 'malformed', 'cancelled')),
  error_code text,
  error_message text,
  closed_as text check (closed_as in ('retried', 'discarded', 'erased')),
  closed_by text,
  source text not null check (octet_length(source) between 1 and 500),
  source_position text check (octet_length(source_position) <= 500),
  trace text check (octet_length(trace) <= 500),
  content_type text check (octet_length(content_type) <= 500),
  headers text,
  body bytea,
  unique (message_id, consumer, generation),
  check ((next_attempt_at is null) = (status in ('Completed', 'DeadLettered'))),
  check ((ended_at is null) = (next_attempt_at is not null)),
  check ((reason is null) = (status <> 'DeadLettered')),
  check ((closed_at is null) = (closed_as is null)),
  check (closed_at is null or status = 'DeadLettered'),
  check (message_id is not null or reason = 'malformed')
) with (fillfactor = 70);
comment on table sendonce_messages is 'Messages at a consumer in several tries, failed or given up; receipts are kept apart';
comment on column sendonce_messages.next_attempt_at is 'When it may be taken; during a try, when others may take it over';
comment on column sendonce_messages.begun is 'Tries begun, each counted in a transaction of its own before it is made';
comment on column sendonce_messages.finished is 'Tries that came to an end; what is missing killed its process';
comment on column sendonce_messages.source is 'Where it comes from, as in amqp:orders/payments or webhook:stripe';
comment on column sendonce_messages.source_position is 'Where it stands there: a sequence, or a partition and an offset';
create index sendonce_messages_due on sendonce_messages (consumer, next_attempt_at, id) where next_attempt_at is not null;
create index sendonce_messages_dead on sendonce_messages (ended_at, id) where reason is not null and closed_at is null;
create index sendonce_messages_content on sendonce_messages (ended_at, id)
  where ended_at is not null and content_gone_at is null;
create index sendonce_messages_age on sendonce_messages (ended_at, id) where ended_at is not null;

-- One row for each try, as it begins; kept, so that every error of a message can be read.
create table sendonce_tries (
  message bigint not null,
  number int not null check (number >= 1),
  begun_at timestamptz not null default now(),
  finished_at timestamptz,
  outcome text check (outcome in ('Completed', 'Duplicate', 'Failed', 'Refused', 'Lost')),
  error_code text,
  error_message text,
  worker text,
  primary key (message, number),
  check ((finished_at is null) = (outcome is null))
);
comment on table sendonce_tries is 'The tries of the messages; Lost: nobody finished it, and the next one found that out';

-- What came in later about what was sent: a callback, a line of a settlement file, a person's word; and what it did.
create table sendonce_evidence (
  id bigint generated always as identity primary key,
  created_at timestamptz not null default now(),
  occurred_at timestamptz,
  delivery_id bigint,
  attempt int,
  source text not null check (octet_length(source) between 1 and 200),
  outcome text not null check (octet_length(outcome) between 1 and 100),
  token text check (octet_length(token) between 1 and 500),
  notification_id text check (octet_length(notification_id) between 1 and 500),
  reference text check (octet_length(reference) between 1 and 500),
  effect text not null check (octet_length(effect) between 1 and 100),
  operator text,
  details text,
  unique (source, reference)
);
comment on table sendonce_evidence is 'What came in later about a send. The same reference of a source counts once';
comment on column sendonce_evidence.reference is 'What the source calls it: the id of a callback, or a line of a file';
comment on column sendonce_evidence.effect is 'What it did: settled, known, contradicts, unmatched, ...';
create index sendonce_evidence_of on sendonce_evidence (delivery_id, id) where delivery_id is not null;
create index sendonce_evidence_age on sendonce_evidence (created_at);

-- The rules.

-- Functions find our tables in the schema they are made in, and never a caller's temporary table of the same name.
select pg_catalog.set_config(
  'search_path', pg_catalog.quote_ident(pg_catalog.current_schema()::text) || ', pg_temp'::text, true);

create trigger receipts_have_names after insert on sendonce_receipts for each row
  when (octet_length(new.message_id) < 1 or octet_length(new.message_id) > 500
        or octet_length(new.consumer) < 1 or octet_length(new.consumer) > 200)
  execute function sendonce_forbid();

-- What it says is said once; what a handler has said can be taken away again.
create trigger receipts_keep_what_they_say after update on sendonce_receipts for each row
  when (row(new.consumer, new.message_id, new.received_at) is distinct from
        row(old.consumer, old.message_id, old.received_at)
        or (old.handled_at is not null and new.handled_at is distinct from old.handled_at)
        or (old.result is not null and new.result is not null and new.result <> old.result)
        or (old.duplicates is not null and (new.duplicates is null or new.duplicates < old.duplicates)))
  execute function sendonce_forbid();

-- Counted with the owner's rights: who may record a sight may not change the other counters.
create function sendonce_count_duplicates() returns trigger language plpgsql security definer as $$
begin
  insert into sendonce_counters (name, amount) values ('duplicates'::text, (new.duplicates - coalesce(old.duplicates, 0))::bigint);
  return null;
end $$;
revoke execute on function sendonce_count_duplicates() from public;
create trigger duplicates_are_counted after update on sendonce_receipts for each row
  when (new.duplicates > coalesce(old.duplicates, 0)) execute function sendonce_count_duplicates();

-- A generation after the first one is opened by the person who has closed the one before it for that.
create function sendonce_check_message() returns trigger language plpgsql as $$
begin
  perform 1 from sendonce_messages
    where consumer = new.consumer and message_id = new.message_id and generation = new.generation - 1
      and closed_as = 'retried'::text;
  if not found then
    raise exception 'generation % of a message needs the one before it to be closed as retried', new.generation
      using errcode = '23514';
  end if;
  return null;
end $$;
create trigger message_generations_follow after insert on sendonce_messages for each row
  when (new.generation > 0) execute function sendonce_check_message();

create trigger messages_move_as_drawn after update on sendonce_messages for each row
  when (old.status <> new.status and not (
          (old.status = 'InProgress' and new.status in ('Completed', 'PendingRetry', 'DeadLettered'))
          or (old.status in ('Pending', 'PendingRetry') and new.status in ('InProgress', 'DeadLettered'))))
  execute function sendonce_forbid();

create trigger messages_keep_their_identity after update on sendonce_messages for each row
  when (row(new.id, new.created_at, new.generation, new.consumer, new.message_id, new.source)
        is distinct from row(old.id, old.created_at, old.generation, old.consumer, old.message_id, old.source)
        or new.begun < old.begun or new.finished < old.finished or new.sightings < old.sightings)
  execute function sendonce_forbid();

-- Content comes once, while it is open, and can be taken away.
create trigger messages_keep_their_content after update on sendonce_messages for each row
  when ((old.body is not null and new.body is not null and new.body <> old.body)
        or (old.headers is not null and new.headers is not null and new.headers <> old.headers)
        or (old.content_gone_at is not null and (
              new.content_gone_at is distinct from old.content_gone_at or new.body is not null
              or new.headers is not null))
        or (new.content_gone_at is null
            and ((old.body is not null and new.body is null) or (old.headers is not null and new.headers is null))))
  execute function sendonce_forbid();

-- What has ended stays as it ended; a dead letter is closed once.
create trigger ended_messages_are_frozen after update on sendonce_messages for each row
  when (old.ended_at is not null
        and (row(new.ended_at, new.begun, new.finished, new.reason, new.error_code)
             is distinct from row(old.ended_at, old.begun, old.finished, old.reason, old.error_code)
             or (new.error_message is not null and new.error_message is distinct from old.error_message)
             or (old.body is null and new.body is not null)
             or (old.closed_at is not null
                 and row(new.closed_at, new.closed_as, new.closed_by)
                     is distinct from row(old.closed_at, old.closed_as, old.closed_by))))
  execute function sendonce_forbid();

create trigger tries_end_once after update on sendonce_tries for each row
  when (row(new.message, new.number, new.begun_at) is distinct from row(old.message, old.number, old.begun_at)
        or (old.finished_at is not null
            and (row(new.finished_at, new.outcome, new.error_code)
                 is distinct from row(old.finished_at, old.outcome, old.error_code)
                 or (new.error_message is not null and new.error_message is distinct from old.error_message))))
  execute function sendonce_forbid();

-- What it says can be taken away, and nothing be put in its place.
create trigger evidence_is_immutable after update on sendonce_evidence for each row
  when (new.details is not null
        or row(new.id, new.created_at, new.occurred_at, new.delivery_id, new.attempt, new.source, new.outcome, new.token,
               new.notification_id, new.reference, new.effect, new.operator)
           is distinct from
           row(old.id, old.created_at, old.occurred_at, old.delivery_id, old.attempt, old.source, old.outcome, old.token,
               old.notification_id, old.reference, old.effect, old.operator))
  execute function sendonce_forbid();

-- Claims cost less, and what they do is as before.

-- What is written twice has its place from the start: each claim enters its delivery into these indexes once more, and into a
-- page that is full only after that one was cleaned up or split.
alter index sendonce_deliveries_pkey set (fillfactor = 50);
alter index sendonce_deliveries_once set (fillfactor = 50);

-- As before. Nearly always nothing is held back, and that is seen by destinations, of which there are few; where something
-- may be, or anything at all is stopped, it is told row by row.
create or replace function sendonce_held_back(
  ids bigint[], event_ids bigint[], subscription_ids bigint[], destinations text[], rooms text[],
  each int, each_place int, known text[], lefts int[], known_places text[], place_lefts int[],
  served text[], beginnings text[], proven bigint[])
  returns bigint[] language plpgsql stable as $$
declare
  has_stops boolean;
  has_breakers boolean;
  has_beginnings boolean;
begin
  if not exists (
       select 1
         from (
           select a.*, pg_catalog.sum(a.n) over (partition by a.destination) as at_destination,
                  pg_catalog.sum(a.n) over (partition by a.place) as at_place
             from (
               select t.subscription_id, t.destination, t.room, t.n, coalesce(s.destination, t.destination) as address,
                      sendonce_place(coalesce(s.destination, t.destination)) as place, s.state, s.rate
                 from (
                   select w.subscription_id, w.destination, w.room, pg_catalog.count(*) as n
                     from unnest(subscription_ids, destinations, rooms) as w(subscription_id, destination, room)
                    group by w.subscription_id, w.destination, w.room) t
                 left join lateral (
                   select n.destination, n.state, n.rate from sendonce_subscriptions n
                    where n.id = t.subscription_id offset 0) s on true offset 0) a) r
         left join unnest(known, lefts) as d(name, remaining) on d.name = r.destination
         left join unnest(known_places, place_lefts) as p(name, remaining) on p.name = r.place
        where r.state in ('paused', 'disabled')
           or (r.rate is not null and r.room is distinct from 'rate:'::text || r.subscription_id::text)
           or (served is not null
               and not (case when pg_catalog.cardinality(beginnings) > 0
                             then sendonce_channel(r.address, r.subscription_id is not null, beginnings)
                             else pg_catalog.split_part(r.address, ':'::text, 1) end = any(served)))
           or exists (
                select 1 from sendonce_breakers b
                 where b.room in ('destination:'::text || r.destination, 'place:'::text || r.place)
                   and b.room is distinct from r.room)
           or (r.place <> '' and r.at_place > coalesce(p.remaining, each_place)::numeric)
           or (r.address like '%://%' and r.at_destination > coalesce(d.remaining, each)::numeric))
     and not exists (select 1 from sendonce_stops) then
    return null;
  end if;
  has_stops := exists (select 1 from sendonce_stops);
  has_breakers := exists (select 1 from sendonce_breakers);
  has_beginnings := pg_catalog.cardinality(beginnings) > 0;
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

-- As before. A statement nearly always moves its rows in one way: then it is enough to count their open attempts once.
create or replace function sendonce_check_moved() returns trigger language plpgsql as $$
begin
  if (select m.moving in (0::bigint, m.moved)
             and m.moving = (select pg_catalog.count(*) from sendonce_attempts a
                              where a.delivery_id = any(m.ids) and a.outcome is null)
        from (select pg_catalog.array_agg(f.id) as ids, pg_catalog.count(*) as moved,
                     pg_catalog.count(*) filter (where f.status = 'InProgress') as moving from fresh f) m) then
    return null;
  end if;
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
