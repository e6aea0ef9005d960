"""A database with a long history: a million finished deliveries, and some thousands in every other place."""

import psycopg

FINISHED = 1_000_000
DEAD = 50_000
REQUESTS = 50_000
IN_FLIGHT = 5_000
PER_LEASE = 5
SUBSCRIPTIONS = 5_000
DUE = 100_000
RETRYING = 2_000
PARKED = 2_000
HANDLED = 50_000

# Keys are put back when the rows are there, and nothing is logged: faster, and the same to the planner.
_BEGIN = """
create temp table keys as
select conrelid::regclass as of, conname as name, pg_get_constraintdef(oid) as definition
  from pg_constraint
 where contype in ('p', 'u')
   and conrelid in ('sendonce_events'::regclass, 'sendonce_deliveries'::regclass, 'sendonce_attempts'::regclass);
do $$ declare
  key record;
begin
  for key in select * from keys loop
    execute format('alter table %s drop constraint %I', key.of, key.name);
  end loop;
  for key in select distinct of from keys loop
    execute format('alter table %s set unlogged', key.of);
  end loop;
end $$;
alter table sendonce_deliveries set (fillfactor = 100);
alter table sendonce_attempts set (fillfactor = 100);
"""

_END = """
do $$ declare
  key record;
begin
  for key in select * from keys loop
    execute format('alter table %s add constraint %I %s', key.of, key.name, key.definition);
  end loop;
end $$;
alter table sendonce_deliveries set (fillfactor = 45);
alter table sendonce_attempts set (fillfactor = 35);
"""

# What the planner knows stays as it is here, whatever the tests do to the rows and whenever a vacuum would come by.
_STILL = """
do $$ declare
  name text;
begin
  for name in select tablename from pg_tables where tablename like 'sendonce\\_%' loop
    execute format('alter table %I set (autovacuum_enabled = off)', name);
  end loop;
end $$;
"""

# Rows are made as they are when their time has come, which the rules refuse to whoever inserts; so no rule looks.
# Finished rows are packed tightly: small tables tempt the planner into scanning them.
_HISTORY = """
set session_replication_role = replica;

insert into sendonce_events (content_digest, tenant, type, key, payload, created_at)
select md5(n::text)::uuid,
       case n %% 10 when 0 then 'acme' else '' end,
       case n %% 3 when 0 then 'order.created' when 1 then 'order.paid' else 'memo.created' end,
       'order-' || lpad(n::text, 9, '0'), '{"order":' || n || '}', now() - interval '1 day' + n * interval '10 ms'
  from generate_series(1, %(finished)s) n;

insert into sendonce_deliveries (event_id, subscription_id, created_at, next_attempt_at, updated_at, notified_at,
                                 destination_hash, attempt_count, status, destination, notification_id)
select n, case when n %% 100 = 0 and n > %(dead)s then 1 + n %% 50 end,
       now() - interval '1 day' + n * interval '10 ms', null, now(),
       case when n > %(dead)s then now() end, encode(substr(sha256('6:null:a'::bytea), 1, 16), 'hex')::uuid, 1,
       case when n > %(dead)s then 'Completed' else 'DeadLettered' end, 'null:a', 'n-' || n
  from generate_series(1, %(finished)s) n;

insert into sendonce_attempts (delivery_id, lease_id, finished_at, attempt, status, outcome, notification_id)
select n, 1 + n / 100, now(), 1, case when n > %(dead)s then 'Completed' else 'Failed' end,
       case when n > %(dead)s then 'Delivered' else 'Refused' end, 'n-' || n
  from generate_series(1, %(finished)s) n;

insert into sendonce_requests (event_id, version, content_digest, tenant, type, subject)
select n, 3, md5(n::text)::uuid, '', 'order.created', 'order-' || n from generate_series(1, %(requests)s) n;
insert into sendonce_request_keys (request_id, type, key)
select n, 'order.created', 'job-' || n from generate_series(1, %(requests)s) n;
insert into sendonce_recipients (request_id, destination_hash, is_required, destination)
select n, encode(substr(sha256('6:null:a'::bytea), 1, 16), 'hex')::uuid, true, 'null:a'
  from generate_series(1, %(requests)s) n;

insert into sendonce_dead_letters (delivery_id, created_at, reason, closed_at, closed_as)
select n, now() - interval '1 day' + n * interval '10 ms', 'refused', case n %% 2 when 0 then now() end,
       case n %% 2 when 0 then 'discarded' end
  from generate_series(1, %(dead)s) n;
"""

_PRESENT = """
insert into sendonce_subscriptions (destination, state)
select 'null:hook-' || n, case n when 1 then 'paused' else 'active' end from generate_series(1, %(subscriptions)s) n;
insert into sendonce_subscription_types (tenant, pattern, subscription_id)
select '', case when n <= 50 then 'order.created' else 'type-' || n end, n from generate_series(1, %(subscriptions)s) n;
insert into sendonce_workers (name, version, concurrency) select 'host:' || n, '1.0', 10 from generate_series(1, 5) n;
insert into sendonce_counters (name, amount) select 'completed', 1 from generate_series(1, 5000) n;
insert into sendonce_findings (delivery_id, attempt, kind) select n, 1, 'late_result' from generate_series(1, 1000) n;
insert into sendonce_contents (event_id, destination_hash, content)
select n, encode(substr(sha256('6:null:a'::bytea), 1, 16), 'hex')::uuid, '{}' from generate_series(1, 20000) n;
insert into sendonce_receipts (consumer, message_id, handled_at)
select 'wallet', 'm-' || n, now() from generate_series(1, %(handled)s) n;
insert into sendonce_receipts (consumer, message_id, received_at, handled_at)
select 'wallet', 'old-' || n, now() - interval '30 days', now() - interval '30 days' from generate_series(1, 1000) n;
insert into sendonce_messages (consumer, message_id, source, status, reason, begun, finished, next_attempt_at, ended_at,
                               content_gone_at, body)
select 'wallet', 'm-' || n, 'nats:main/payments',
       case when n <= %(handled)s then 'Completed' when n %% 10 = 0 then 'PendingRetry' else 'DeadLettered' end,
       case when n > %(handled)s and n %% 10 > 0 then 'exhausted' end, 2, 1,
       case when n > %(handled)s and n %% 10 = 0 then now() end,
       case when n <= %(handled)s or n %% 10 > 0 then now() end,
       case when n <= %(handled)s - 1000 then now() end,
       case when n > %(handled)s - 1000 then '{}'::bytea end
  from generate_series(1, %(handled)s + 1000) n;
insert into sendonce_tries (message, number, finished_at, outcome)
select n, 1, now(), 'Failed' from generate_series(1, %(handled)s + 1000) n;
insert into sendonce_evidence (created_at, delivery_id, source, outcome, reference, effect)
select now() - case when n <= 1000 then interval '30 days' else interval '0' end, n, 'bank', 'Delivered',
       case n %% 2 when 0 then 'line-' || n end, 'settled'
  from generate_series(1, 50000) n;

insert into sendonce_corrections (delivery_id, replaces, operation_id)
select 10000000 + n, 20000000 + n, n from generate_series(1, 20000) n;

insert into sendonce_events (content_digest, type, key, payload)
select md5(n::text)::uuid, 'order.created', 'present-' || lpad(n::text, 9, '0'), '{"order":' || n || '}'
  from generate_series(%(finished)s + 1, %(finished)s + %(open)s) n;

insert into sendonce_deliveries (event_id, next_attempt_at, destination_hash, attempt_count, in_doubt, status,
                                 destination, parked_on)
select n,
       case place when 'due' then now() - interval '1 hour' + n * interval '1 ms'
                  when 'retrying' then now() + interval '1 hour' + n * interval '1 ms' end,
       encode(substr(sha256('6:null:a'::bytea), 1, 16), 'hex')::uuid,
       case place when 'due' then 0 else 1 end, place = 'retrying' and n %% 2 = 0,
       case place when 'due' then 'Pending' when 'in flight' then 'InProgress' else 'PendingRetry' end, 'null:a',
       case place when 'parked' then 'subscription:1' end
  from (select n, case when n > %(finished)s + %(due)s + %(retrying)s + %(parked)s then 'in flight'
                       when n > %(finished)s + %(due)s + %(retrying)s then 'parked'
                       when n > %(finished)s + %(due)s then 'retrying'
                       else 'due' end as place
          from generate_series(%(finished)s + 1, %(finished)s + %(open)s) n) x;

insert into sendonce_attempts (delivery_id, lease_id, finished_at, attempt, status, outcome)
select id, 1, now(), 1, 'Failed', 'Failed' from sendonce_deliveries where attempt_count = 1 and status = 'PendingRetry';

insert into sendonce_attempts (delivery_id, lease_id, attempt, status)
select id, 1000000 + id / %(per_lease)s, 2, 'Leased' from sendonce_deliveries where status = 'InProgress';
insert into sendonce_leases (id, worker_id, expires_at, deliveries)
select lease_id, 1, case lease_id %% 100 when 0 then now() - interval '1 s' else now() + interval '1 hour' end,
       array_agg(delivery_id)
  from sendonce_attempts where status = 'Leased' group by lease_id;
select setval('sendonce_lease_ids', 2000000);
"""


def fill(url: str, *, finished: int = FINISHED) -> None:
    """Write the history and the present, and let the planner know."""
    numbers = {
        "finished": finished,
        "dead": DEAD,
        "requests": REQUESTS,
        "due": DUE,
        "retrying": RETRYING,
        "parked": PARKED,
        "handled": HANDLED,
        "per_lease": PER_LEASE,
        "subscriptions": SUBSCRIPTIONS,
        "open": DUE + RETRYING + PARKED + IN_FLIGHT,
    }
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(_STILL)
        connection.execute(_BEGIN)
        connection.execute(_HISTORY, numbers)
        connection.execute(_END)
        connection.execute(_PRESENT, numbers)
        connection.execute("vacuum analyze")
