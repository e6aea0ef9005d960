-- name: secrets_of
-- A row for each that has none, too: whether it is signed is a property of the subscription.
select coalesce(o.is_signed, 0), w.value, s.id, s.kind, s.secret, s.created_at, s.expires_at
  from json_each(:subscription_ids) w
  left join sendonce_subscriptions o on o.id = w.value
  left join sendonce_subscription_secrets s
    on s.subscription_id = w.value and (s.expires_at is null or s.expires_at > :now)
 order by w.value, s.id desc
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

-- name: zero_what_is_deleted
-- Else an old secret would stay readable in the file.
pragma secure_delete = on;

-- name: drop_ended_secrets
delete from sendonce_subscription_secrets where subscription_id = :subscription_id and expires_at <= :now;

-- name: disable_subscription
update sendonce_subscriptions
   set state = 'disabled', state_reason = :reason, updated_at = :now
 where id = :subscription_id and state = 'active'
returning id;

-- name: secret_window
select id, subscription_id, kind, secret
  from sendonce_subscription_secrets
 where id > :after
 order by id
 limit :window;

-- name: reseal_secret
update sendonce_subscription_secrets set secret = :secret where id = :id;

-- name: bind_secrets
-- Every secret says now what it is of: none that does not can be stored from here on.
insert into sendonce_meta (name, value) values ('secrets', 'bound') on conflict (name) do nothing;
