"""Sagas without an application: made past a worker, and things that fail when they are used for what is forbidden."""

import re
from importlib.resources import files
from typing import Any

import psycopg

from sendonce.store.ports import Store
from tests.given import given_event
from tests.store.databases import Database, PostgresDatabase

_HEADER = re.compile(r"^-- (?:name|part): .*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_MOVES = re.compile(
    r"update sendonce_deliveries\b(?:(?! where ).)*?\bset\b(?:(?! where ).)*?(?:\bstatus = |\(status, )"
)

# What moves a saga or makes a job.
MOVING = (
    "update sendonce_deliveries set status = 'DeadLettered', next_attempt_at = null",
    "update sendonce_deliveries set attempt_count = attempt_count + 1",
    "insert into sendonce_attempts (delivery_id, lease_id, attempt, status) select 1, 1, 1, 'Leased'",
)
ALLOWED = (
    "select payload from sendonce_events",
    "select state from sendonce_subscriptions",
    "update sendonce_deliveries set updated_at = now()",
    "insert into sendonce_attempts (delivery_id, lease_id, attempt, status) select id, 1, 1, 'Leased'"
    " from sendonce_deliveries",
)
# What the orchestrator has no right to.
FORBIDDEN = (
    "delete from sendonce_deliveries",
    "delete from sendonce_attempts",
    "update sendonce_events set payload = null",
    "insert into sendonce_events (type, key, content_digest) values ('a', 'k', gen_random_uuid())",
    "delete from sendonce_events",
    "update sendonce_subscriptions set state = 'paused'",
    "insert into sendonce_subscriptions (destination) values ('null:a')",
    "delete from sendonce_subscription_types",
    "select secret from sendonce_subscription_secrets",
    "update sendonce_leases set expires_at = now()",
    "delete from sendonce_leases",
)


async def given_sagas(database: Database, store: Store, amount: int = 1) -> list[int]:
    """Due deliveries, each of an event to the only subscription; their ids."""
    await store.add_subscription(
        tenant="", types=["*"], destination="null:hook", policy=None, description=None, operator="ada"
    )
    for _ in range(amount):
        given_event(database)
    return [row["id"] for row in database.rows("deliveries")]


def moving_files(database_name: str) -> set[str]:
    """The files of queries that change a delivery's status or make an attempt."""
    folder = files(f"sendonce.store.{database_name}").joinpath("sql")
    return {file.name for file in folder.iterdir() if any(map(_moves, _HEADER.split(file.read_text("utf-8"))))}


def _moves(query: str) -> bool:
    plain = " ".join(_COMMENT.sub("", query).split())
    return bool(_MOVES.search(plain)) or "into sendonce_attempts" in plain


class Only:
    """Something of which no other names may be used than these."""

    def __init__(self, inner: object, *names: str) -> None:
        self._inner, self._names = inner, names

    def __getattr__(self, name: str) -> Any:
        assert name in self._names, f"it used {name}"
        return getattr(self._inner, name)


class Sealed(str):
    """A payload that nobody may look into."""

    def _looked(self, *_: object) -> Any:
        raise AssertionError("it looked into the payload")

    __str__ = __repr__ = __iter__ = __len__ = __getitem__ = __eq__ = __hash__ = _looked


def given_history(database: PostgresDatabase) -> None:
    """Sagas that have ended, most of them well, and a few that wait; and the planner knows. No rule looks: quicker."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        for statement in _HISTORY.split(";"):
            connection.execute(statement.encode())


_HISTORY = """
set session_replication_role = replica;
insert into sendonce_events (content_digest, tenant, type, key, payload)
select md5(n::text)::uuid, 'acme', 'order.paid', 'order-' || n, '{}' from generate_series(1, 20000) n;
insert into sendonce_deliveries (event_id, subscription_id, destination_hash, destination, attempt_count, status,
                                 next_attempt_at, parked_on)
select n, 1 + n % 100, md5(n::text)::uuid, 'subscription:' || 1 + n % 100, 1,
       case when n > 19800 then 'PendingRetry' when n % 10 = 0 then 'DeadLettered' else 'Completed' end,
       case when n > 19900 then now() end, case when n between 19801 and 19900 then 'subscription:1' end
  from generate_series(1, 20000) n;
insert into sendonce_dead_letters (delivery_id, reason, closed_at, closed_as)
select id, 'exhausted', case when id % 100 > 0 then now() end, case when id % 100 > 0 then 'discarded' end
  from sendonce_deliveries where status = 'DeadLettered';
analyze
"""
