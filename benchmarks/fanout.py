"""One event to many endpoints in one transaction, against as many plain rows of the same width; then sending them."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import processes
from benchmarks.floors import BATCH, payload_of
from benchmarks.measures import Figures, fresh
from sendonce import Outbox
from sendonce.compose import migrate
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.store.seeding import seed_subscriptions

ROUNDS = 5
# What a delivery's row holds when it is made, in a table with a primary key and nothing else.
PLAIN = """
create table plain (
  id {id}, event_id bigint not null, subscription_id bigint, created_at {time} not null, next_attempt_at {time},
  updated_at {time} not null, destination_hash {hash} not null, generation int not null, attempt_count int not null,
  status text not null, destination text not null)
"""
INSERT = """
insert into plain (event_id, subscription_id, created_at, next_attempt_at, updated_at, destination_hash, generation,
                   attempt_count, status, destination)
select {round}, id, {now}, {now}, {now}, {hash}, 0, 0, 'Pending', 'subscription:' || id from sendonce_subscriptions
"""
ON_POSTGRES = {
    "id": "bigint generated always as identity primary key", "time": "timestamptz", "hash": "uuid",
}  # fmt: skip
ON_SQLITE = {"id": "integer primary key", "time": "integer", "hash": "blob"}


def fanout(server: Server, endpoints: int) -> Figures:
    """Milliseconds of one transaction, the best of a few rounds each; and deliveries per second of sending them."""
    with tempfile.TemporaryDirectory() as folder:
        on_sqlite = _measured("SQLite", _on_sqlite(Path(folder)), endpoints)
    return _measured("PostgreSQL", PostgresDatabase(fresh(server)), endpoints) | on_sqlite


def _on_sqlite(folder: Path) -> SqliteDatabase:
    database = SqliteDatabase(folder / "fanout.db")
    migrate(database.url)
    return database


def _measured(name: str, database: PostgresDatabase | SqliteDatabase, endpoints: int) -> Figures:
    seed_subscriptions(database, endpoints)
    is_postgres = isinstance(database, PostgresDatabase)
    database.execute(PLAIN.format(**(ON_POSTGRES if is_postgres else ON_SQLITE)))
    values = {"now": "now()", "hash": "gen_random_uuid()"} if is_postgres else {"now": "1", "hash": "randomblob(16)"}
    floor = _best(lambda number: database.execute(INSERT.format(round=number, **values)))
    ours = _best(lambda number: _publish(database, number))
    drained = processes.drain("ours", database.url, 1).seconds
    left = database.one("select count(*) from sendonce_deliveries where status <> 'Completed'")
    if left:
        raise RuntimeError(f"{left} deliveries were not completed")
    return {
        f"fan-out to {endpoints:,}, {name}: plain rows, ms": floor * 1000,
        f"fan-out to {endpoints:,}, {name}: one event, ms": ours * 1000,
        f"fan-out, {name}: one event / plain rows": ours / floor,
        f"fan-out, {name}: then sent per second": (ROUNDS * endpoints - BATCH) / drained,
    }


def _publish(database: Database, number: int) -> None:
    with database.connection() as connection:
        Outbox().publish(connection, "order.paid", payload_of(number), key=str(number), to=None, tenant="acme")


def _best(work: Callable[[int], object]) -> float:
    seconds = []
    for number in range(ROUNDS):
        begun = time.monotonic()
        work(number)
        seconds.append(time.monotonic() - begun)
    return min(seconds)
