-- name: secrets_of
-- A row for each that has none, too: whether it is signed is a property of the subscription.
select coalesce(o.is_signed, false), w.id, s.id, s.kind, s.secret, s.created_at, s.expires_at
  from unnest(:subscription_ids::bigint[]) as w(id)
  left join lateral (select n.is_signed from sendonce_subscriptions n where n.id = w.id offset 0) o on true
  left join lateral (
   select n.id, n.kind, n.secret, n.created_at, n.expires_at from sendonce_subscription_secrets n
    where n.subscription_id = w.id and (n.expires_at is null or n.expires_at > now())
    order by n.id desc
    limit 100) s on true
 order by w.id, s.id desc;

-- name: kept_secrets
-- Without the secrets themselves: a role may know that there is one without the right to read it.
select id, kind, created_at, expires_at
  from sendonce_subscription_secrets
 where subscription_id = :subscription_id and (expires_at is null or expires_at > now())
 order by id desc
 limit 100;

-- name: add_secret
insert into sendonce_subscription_secrets (subscription_id, kind, secret) values (:subscription_id, :kind, :secret);

-- name: touch_subscription
update sendonce_subscriptions
   set updated_at = now()
 where id = :subscription_id and state <> 'removed'
returning id;

-- name: end_secrets
-- What ends sooner already keeps its end.
update sendonce_subscription_secrets
   set expires_at = now() + make_interval(secs => :overlap)
 where subscription_id = :subscription_id and kind = 'signing'
   and (expires_at is null or expires_at > now() + make_interval(secs => :overlap));

-- name: zero_what_is_deleted
-- Nothing to be done: vacuum does it.

-- name: drop_ended_secrets
delete from sendonce_subscription_secrets where subscription_id = :subscription_id and expires_at <= now();

-- name: disable_subscription
update sendonce_subscriptions
   set state = 'disabled', state_reason = :reason, updated_at = now()
 where id = :subscription_id and state = 'active'
returning id;

-- name: secret_window
select id, subscription_id, kind, secret
  from sendonce_subscription_secrets
 where id > :after
 order by id
 limit :window
   for update;

-- name: reseal_secret
update sendonce_subscription_secrets set secret = :secret where id = :id;

-- name: bind_secrets
-- Every secret says now what it is of: none that does not can be stored from here on.
insert into sendonce_meta (name, value) values ('secrets', 'bound') on conflict (name) do nothing;
