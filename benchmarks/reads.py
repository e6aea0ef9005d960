"""What people look at, with a million rows behind it: lists, filters and look-ups, rare and absent values included."""

import asyncio
import hashlib
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeAlias

import psycopg

from benchmarks.measures import Figures, fresh
from sendonce.admin.bulk import plan
from sendonce.admin.explain import explain
from sendonce.admin.subscriptions import held_back
from sendonce.compose import migrate, open_store
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.requests import RequestStatus
from sendonce.domain.texts import provider_token
from sendonce.errors import NotFound
from sendonce.store.bulk import CANCEL, REPLAY, REQUEUE
from sendonce.store.filters import Filter
from sendonce.store.inbox import MessageFilter
from sendonce.store.ports import Store
from tests.servers.postgres import Server

HISTORY = Path(__file__).with_name("history.sql")
TIMES = 7
# Milliseconds.
LIMITS = {"PostgreSQL": 300, "SQLite": 150}
# So many of the newest deliveries are open; as many letters, attempts and copies are more than a list looks at.
OPEN = 25_000
WIDE, OFTEN = 4, 5

Read: TypeAlias = Callable[[Store], Awaitable[object]]

ON_POSTGRES = """
create function ago(seconds float8) returns timestamptz language sql stable as $$
  select now() - seconds * interval '1 s' $$;
create function ago(seconds numeric) returns timestamptz language sql stable as $$ select ago(seconds::float8) $$;
create function digest(text) returns uuid language sql immutable as $$ select md5($1)::uuid $$;
create function listed(bigint) returns bigint[] language sql immutable as $$
  select array(select generate_series($1 - 99, $1)) $$;
create table numbers as select n::bigint from generate_series(1, {rows}) n;
set session_replication_role = replica;
"""


def _filters(look: Callable[[Store, Filter], Awaitable[object]], filters: Mapping[str, Filter]) -> dict[str, Read]:
    async def read(wanted: Filter, store: Store) -> object:
        return await look(store, wanted)

    return {name: partial(read, wanted) for name, wanted in filters.items()}


RARE = {
    "": Filter(),
    " of a type": Filter(type="order.paid"),
    " of a rare type": Filter(type="rare.type"),
    " of no type": Filter(type="none"),
    " of no family": Filter(type="none.*"),
    " of a rare tenant": Filter(tenant="rare"),
    " of no tenant": Filter(tenant="nobody"),
    " to a rare destination": Filter(destination="null:rare"),
    " to no destination": Filter(destination="null:none"),
    " of no type in the middle": Filter(type="none", before=500_000),
}
STATES = {f", {state}{name}": Filter(status=state, type=type) for state in DeliveryState for name, type in
          (("", None), (" of no type", "none"))}  # fmt: skip


async def _explained(words: str, store: Store) -> None:
    with suppress(NotFound):
        await explain(store, words)


async def _token_of(delivery_id: int, store: Store) -> object:
    row = await store.delivery(delivery_id)
    assert row is not None
    namespace = await store.namespace()
    token = provider_token(namespace, row.tenant, row.type, row.key, row.destination, row.corrections)
    return await store.delivery_by_token(token)


async def _previewed(kind: str, wanted: Filter, store: Store) -> object:
    return await plan(store, kind, wanted)


async def _since(store: Store) -> object:
    since = (await store.status()).now - timedelta(hours=1)
    return await store.deliveries(Filter(since=since, type="none"))


READS: dict[str, Read] = {
    "status": lambda store: store.status(),
    "held back": held_back,
    **_filters(lambda store, wanted: store.events(wanted), {f"events{name}": each for name, each in RARE.items()}),
    **_filters(
        lambda store, wanted: store.events(wanted),
        {
            "events, DeadLettered to no destination": Filter(
                status=DeliveryState.DEAD_LETTERED, destination="null:none"
            ),
            "events, Pending": Filter(status=DeliveryState.PENDING),
        },
    ),
    **_filters(
        lambda store, wanted: store.deliveries(wanted),
        {f"deliveries{name}": each for name, each in {**RARE, **STATES}.items()}
        | {"deliveries given up as expired": Filter(reason=ReasonClass.EXPIRED)},
    ),
    "deliveries of no type since an hour": _since,
    **_filters(
        lambda store, wanted: store.dead_letters(wanted),
        {f"dead letters{name}": each for name, each in RARE.items()}
        | {
            "dead letters as expired": Filter(reason=ReasonClass.EXPIRED),
            "dead letters with the cancelled": Filter(type="none", include_cancelled=True),
        },
    ),
    "dead letters, counted": lambda store: store.dead_letter_summary(Filter()),
    **_filters(
        lambda store, wanted: store.requests(wanted),
        {
            "requests": Filter(),
            "requests of no type": Filter(type="none"),
            "requests of a busy subject": Filter(subject="busy"),
            "requests of no type of a busy subject": Filter(subject="busy", type="none"),
            "requests of no subject": Filter(subject="none"),
            "requests in progress": Filter(status=RequestStatus.IN_PROGRESS),
        },
    ),
    "undelivered": lambda store: store.undelivered(None),
    "undelivered of no tenant": lambda store: store.undelivered("nobody"),
    "operations": lambda store: store.operations(),
    "operations, paused": lambda store: store.operations(state="paused"),
    "operations, running": lambda store: store.operations(state="running"),
    "subscriptions": lambda store: store.subscriptions(None),
    "subscriptions of a rare tenant": lambda store: store.subscriptions("rare"),
    "messages": lambda store: store.messages(MessageFilter()),
    "messages of no consumer": lambda store: store.messages(MessageFilter(consumer="none")),
    "messages, dead": lambda store: store.messages(MessageFilter(dead=True)),
    "messages, dead of no consumer": lambda store: store.messages(MessageFilter(dead=True, consumer="none")),
    "messages called so": lambda store: store.messages(MessageFilter(message_id="m-77")),
    "receipts of a message": lambda store: store.receipts_of("m-77"),
    "deliveries of an event with many": lambda store: store.deliveries_of(WIDE),
    "attempts of a delivery with many": lambda store: store.attempts_of(OFTEN),
    "findings of a delivery with many": lambda store: store.findings_of(OFTEN),
    "token of an old delivery": partial(_token_of, 77),
    "token of nobody": lambda store: store.delivery_by_token("0" * 40),
    "explain a key": partial(_explained, "order-77"),
    "explain no key": partial(_explained, "none"),
    "explain a token of nobody": partial(_explained, "0" * 40),
    "explain an event with many": partial(_explained, f"event:{WIDE}"),
    "explain a delivery with many attempts": partial(_explained, f"delivery:{OFTEN}"),
    "explain a message": partial(_explained, "message:m-77"),
    **{
        f"preview of a {kind} of {name}": partial(_previewed, kind, wanted)
        for kind in (REQUEUE, REPLAY, CANCEL)
        for name, wanted in (("everything", Filter()), ("no type", Filter(type="none")))
    },
}
BARS = {f"reads, {name}: {what}, ms": ("<=", limit) for name, limit in LIMITS.items() for what in READS}


def reads(server: Server, rows: int) -> Figures:
    """Milliseconds of each, the best of a few: what a page of a list costs, whatever is asked for."""
    dsn = fresh(server)
    _fill_postgres(dsn, rows)
    figures = asyncio.run(_measured("PostgreSQL", dsn))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reads.db"
        migrate(f"sqlite:///{path}")
        _fill_sqlite(path, rows)
        figures |= asyncio.run(_measured("SQLite", f"sqlite:///{path}"))
    slowest = {f"reads, {name}: slowest, ms": max(v for k, v in figures.items() if f" {name}:" in k) for name in LIMITS}
    return figures | slowest


async def _measured(name: str, url: str) -> Figures:
    store = await open_store(url)
    figures: Figures = {}
    try:
        for what, read in READS.items():
            took = []
            for _ in range(TIMES):
                begun = time.perf_counter()
                await read(store)
                took.append(time.perf_counter() - begun)
            figures[f"reads, {name}: {what}, ms"] = min(took) * 1000
    finally:
        await store.close()
    return figures


def _history(rows: int) -> str:
    return HISTORY.read_text("utf-8").replace(":rows", str(rows)).replace(":open", str(min(OPEN, rows // 4)))


def _fill_postgres(dsn: str, rows: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(ON_POSTGRES.format(rows=rows).encode())
        connection.execute(_history(rows).encode())
        connection.execute("drop table numbers")
        connection.execute("vacuum analyze")


def _fill_sqlite(path: Path, rows: int) -> None:
    now = time.time_ns() // 1000
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("ago", 1, lambda seconds: now - round(seconds * 1_000_000))
        connection.create_function("digest", 1, lambda text: hashlib.md5(text.encode()).digest())  # noqa: S324
        connection.create_function("listed", 1, lambda last: str([*range(last - 99, last + 1)]))
        for [trigger] in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            connection.execute(f"drop trigger {trigger}")
        connection.execute("create temp table numbers (n integer primary key)")
        connection.executemany("insert into numbers values (?)", ((each,) for each in range(1, rows + 1)))
        connection.executescript(_history(rows))
