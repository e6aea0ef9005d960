-- A long past and some present, the same for both databases: `numbers` counts from 1, ago(s) is a moment, digest(t) a hash
-- and listed(t) the deliveries of a lease. Rows are made as they are when their time has come.
insert into sendonce_events (created_at, content_digest, tenant, type, key, payload)
select ago((:rows - n) * 0.01), digest('event ' || n),
       case when n = 1 then 'rare' else 'tenant-' || (n % 50) end,
       case when n = 2 then 'rare.type' when n % 3 = 0 then 'order.created' when n % 3 = 1 then 'order.paid' else 'memo.created' end,
       'order-' || n, '{"order":' || n || ',"text":"some words about an order, as long as they usually are"}'
  from numbers
 where n <= :rows
 order by n;

-- The last of them are open: due, waiting for a retry, parked, or being sent.
insert into sendonce_deliveries (event_id, created_at, updated_at, next_attempt_at, notified_at, destination_hash, attempt_count,
                                 in_doubt, status, destination, parked_on, notification_id)
select n, ago((:rows - n) * 0.01), ago((:rows - n) * 0.01),
       case when n > :rows - :open * 0.8 then ago((:rows - n) * 0.01)
            when n > :rows - :open * 0.9 then ago((:rows - n) * -0.01) end,
       case when n <= :rows - :open and n % 20 > 0 then ago((:rows - n) * 0.01) end,
       digest(case when n = 3 then 'null:rare' else 'https://hook-' || (n % 1000) || '.example/events' end),
       case when n > :rows - :open * 0.8 then 0 else 1 end,
       n > :rows - :open and n <= :rows - :open * 0.8 and n % 2 = 0,
       case when n > :rows - :open * 0.8 then 'Pending'
            when n > :rows - :open * 0.95 then 'PendingRetry'
            when n > :rows - :open then 'InProgress'
            when n % 20 = 0 then 'DeadLettered'
            else 'Completed' end,
       case when n = 3 then 'null:rare' else 'https://hook-' || (n % 1000) || '.example/events' end,
       case when n > :rows - :open * 0.95 and n <= :rows - :open * 0.9 then 'subscription:1' end,
       case when n <= :rows - :open then 'n-' || n end
  from numbers
 where n <= :rows
 order by n;

insert into sendonce_attempts (delivery_id, lease_id, created_at, finished_at, attempt, status, outcome, error_code)
select n, n / 100, ago((:rows - n) * 0.01),
       case when n <= :rows - :open or n > :rows - :open * 0.95 then ago((:rows - n) * 0.01) end, 1,
       case when n <= :rows - :open and n % 20 > 0 then 'Completed'
            when n <= :rows - :open or n > :rows - :open * 0.95 then 'Failed'
            else 'Leased' end,
       case when n <= :rows - :open and n % 20 > 0 then 'Delivered'
            when n <= :rows - :open then 'Refused'
            when n > :rows - :open * 0.95 then 'Failed' end,
       case when n <= :rows - :open and n % 20 = 0 then 'http_410' end
  from numbers
 where n <= :rows - :open * 0.8
 order by n;

insert into sendonce_leases (id, worker_id, created_at, expires_at, deliveries)
select n / 100, 1, ago(1), ago(-60), listed(n)
  from numbers
 where n > :rows - :open and n <= :rows - :open * 0.95 and n % 100 = 0;

insert into sendonce_dead_letters (delivery_id, created_at, reason, error_code, closed_at, closed_as)
select n, ago((:rows - n) * 0.01), case when n % 100 = 0 then 'cancelled' else 'refused' end, 'http_410',
       case when n % 40 = 0 then ago(0) end, case when n % 40 = 0 then 'discarded' end
  from numbers
 where n <= :rows - :open and n % 20 = 0
 order by n;

-- One event that went to very many, long ago, whose deliveries were made again since.
insert into sendonce_deliveries (event_id, created_at, updated_at, next_attempt_at, notified_at, destination_hash, attempt_count,
                                 status, destination, notification_id)
select 4, ago(10), ago(10), null, ago(10), digest('null:' || n), 1, 'Completed', 'null:' || n, 'm-' || n
  from numbers
 where n <= :open
 order by n;

-- A delivery that was tried very often.
insert into sendonce_attempts (delivery_id, lease_id, created_at, finished_at, attempt, status, outcome, error_code)
select 5, n, ago(100000 - n), ago(100000 - n), n, 'Failed', 'Failed', 'http_503'
  from numbers
 where n > 1 and n <= :open;
insert into sendonce_findings (delivery_id, attempt, created_at, kind, details)
select 5, n, ago(100000 - n), 'late_result', 'reported late' from numbers where n <= :open order by n;

insert into sendonce_requests (event_id, run, version, created_at, content_digest, tenant, type, subject)
select n, n, n, ago((:rows - n) * 0.01), digest('request ' || n), 'tenant-' || (n % 50), 'order.created',
       case when n % 4 = 0 then 'busy' else 'order-' || n end
  from numbers
 where n <= :rows / 5
 order by n;
insert into sendonce_request_keys (request_id, created_at, tenant, type, key)
select n, ago(0), 'tenant-' || (n % 50), 'order.created', 'job-' || n from numbers where n <= :rows / 5;
insert into sendonce_recipients (request_id, destination_hash, is_required, destination)
select n, digest('https://hook-' || (n % 1000) || '.example/events'), n > 0, 'https://hook-' || (n % 1000) || '.example/events'
  from numbers
 where n <= :rows / 5;

insert into sendonce_operations (created_at, updated_at, kind, operator, subject, affected, state)
select ago((:rows - n) * 0.01), ago(0), 'requeue', 'ada', 'delivery ' || n, 1, case when n = 1 then 'paused' else 'done' end
  from numbers
 where n <= :rows / 10
 order by n;

insert into sendonce_subscriptions (created_at, updated_at, tenant, destination, state)
select ago(0), ago(0), case when n = 2 then 'rare' else 'tenant-' || (n % 50) end, 'https://hook-' || n || '.example/events',
       case when n = 1 then 'paused' else 'active' end
  from numbers
 where n <= :rows / 5
 order by n;
insert into sendonce_subscription_types (tenant, pattern, subscription_id)
select case when n = 2 then 'rare' else 'tenant-' || (n % 50) end, 'type-' || (n % 100), n from numbers where n <= :rows / 5;

insert into sendonce_receipts (consumer, message_id, received_at) select 'wallet', 'm-' || n, ago(0) from numbers where n <= :rows;
insert into sendonce_messages (consumer, message_id, created_at, updated_at, seen_at, source, status, reason, begun, finished,
                               ended_at)
select case when n = 1 then 'rare' else 'wallet' end, 'm-' || n, ago(0), ago(0), ago(0), 'amqp:shop/payments',
       case when n % 10 = 0 then 'DeadLettered' else 'Completed' end, case when n % 10 = 0 then 'exhausted' end, 1, 1, ago(0)
  from numbers
 where n <= :rows
 order by n;
