-- name: secrets_of
select s.subscription_id, s.id, s.kind, s.secret, s.created_at, s.expires_at
  from json_each(:subscription_ids) w
 cross join sendonce_subscription_secrets s on s.subscription_id = w.value
 where s.expires_at is null or s.expires_at > :now
 order by s.subscription_id, s.id desc
 limit 100000;

-- name: kept_secrets
-- Without the secrets themselves.
select id, kind, created_at, expires_at
  from sendonce_subscription_secrets
 where subscription_id = :subscription_id and (expires_at is null or expires_at > :now)
 order by id desc
 limit 100;

-- name: add_secret
insert into sendonce_subscription_secrets (subscription_id, created_at, kind, secret)
values (:subscription_id, :now, :kind, :secret);

-- name: touch_subscription
update sendonce_subscriptions
   set updated_at = :now
 where id = :subscription_id and state <> 'removed'
returning id;

-- name: end_secrets
-- What ends sooner already keeps its end.
update sendonce_subscription_secrets
   set expires_at = :now + :overlap
 where subscription_id = :subscription_id and kind = 'signing'
   and (expires_at is null or expires_at > :now + :overlap);

-- name: drop_ended_secrets
delete from sendonce_subscription_secrets where subscription_id = :subscription_id and expires_at <= :now;

-- name: disable_subscription
update sendonce_subscriptions
   set state = 'disabled', state_reason = :reason, updated_at = :now
 where id = :subscription_id and state = 'active'
returning id;

-- name: secret_window
select id, secret from sendonce_subscription_secrets where id > :after order by id limit :window;

-- name: reseal_secret
update sendonce_subscription_secrets set secret = :secret where id = :id;
