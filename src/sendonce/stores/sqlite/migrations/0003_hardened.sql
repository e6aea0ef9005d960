-- What an attack on the second version showed to be missing: moments, names and rules. Columns are nullable and have no
-- default, so that programs of the version before go on.

-- A moment before which a delivery in doubt is neither asked about nor sent, by anybody.
alter table sendonce_deliveries add column not_before integer;

-- Since when the other side has been putting a delivery off (429, 503 with Retry-After), without anything else in between.
alter table sendonce_deliveries add column put_off_since integer;

-- A database that is older than what a worker remembers has lost commits: a restore, a file copied back. What was recorded
-- before that was noticed, up to upto_id, is put in doubt, and nothing is claimed until that is done.
create table sendonce_losses (
  id integer primary key autoincrement,
  noticed_at integer not null,
  ended_at integer,
  upto_id integer not null,
  marked_id integer not null default 0,
  doubted integer not null default 0,
  wait real not null check (wait >= 0),
  noticed_by text not null,
  ended_by text,
  check ((ended_at is null) = (ended_by is null))
);
create unique index sendonce_losses_open on sendonce_losses (ended_at is null) where ended_at is null;

-- The loss that alone has put it in doubt; null when there is more to it.
alter table sendonce_deliveries add column doubted_by integer;

-- How much it was when people were told, so that they are told again when it has grown; and where a fault on our side was
-- met last, so that it is over when something gets through there.
alter table sendonce_alerts add column told_size integer;
alter table sendonce_alerts add column met_at text;

-- A breaker knows which turn it is (a number that changes with every change of its state), how much of what it has let out
-- is on its way, and what has become of this round. Where the version before has written it, these are null: none.
alter table sendonce_breakers add column turn integer;
alter table sendonce_breakers add column on_way integer;
alter table sendonce_breakers add column through integer;
alter table sendonce_breakers add column failed integer;

-- What a worker serves: a JSON list of schemes and beginnings of addresses; null for workers of the version before.
alter table sendonce_workers add column serves text;
