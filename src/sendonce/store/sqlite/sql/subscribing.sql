-- name: set_subscription_policy
update sendonce_subscriptions
   set policy = :policy, updated_at = :now
 where id = :subscription_id and state <> 'removed'
returning id;

-- name: set_subscription_ask
update sendonce_subscriptions
   set ask = :ask, updated_at = :now
 where id = :subscription_id and state <> 'removed'
returning id;

-- name: tenant_of_subscription
update sendonce_subscriptions
   set updated_at = :now
 where id = :subscription_id and state <> 'removed'
returning tenant;

-- name: add_test_event
-- Of the subscription's own tenant; nothing when it was removed.
insert into sendonce_events (created_at, content_digest, tenant, type, key, payload, routed)
select :now, :content_digest, s.tenant, :type, :key, :payload, 1
  from sendonce_subscriptions s
 where s.id = :subscription_id and s.state <> 'removed'
returning id;

-- name: add_test_delivery
insert into sendonce_deliveries
  (event_id, subscription_id, created_at, updated_at, next_attempt_at, destination, destination_hash)
values (:event_id, :subscription_id, :now, :now, :now, :destination, :destination_hash)
returning id;
