"""The measurements on PostgreSQL, each against its floor in the same round."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from statistics import quantiles
from typing import Any

import psycopg

from benchmarks import floors, ours, processes
from sendonce import Draft, Outbox
from sendonce.compose import migrate
from tests.servers.postgres import Server

Figures = dict[str, float]


def fresh(server: Server, schema: str | None = None) -> str:
    """A new database: ours, or a floor's."""
    dsn = server.dsn(server.create_database())
    if schema is None:
        migrate(dsn)
    else:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(schema.encode())
    return dsn


def drains(server: Server, count: int, workers: int) -> Figures:
    """Deliveries per second with the null channel, and the WAL of publish and drain together."""
    floor = fresh(server, floors.FLOOR_2)
    asyncio.run(floors.fill_2(floor, count))
    checkpoint(server)
    floor_seconds = processes.drain("floor2", floor, workers).seconds

    dsn = fresh(server)
    before = wal(server)
    ours.fill(dsn, count)
    checkpoint(server)
    drained = processes.drain("ours", dsn, workers)
    written = wal(server) - before
    left = scalar(dsn, "select count(*) from sendonce_deliveries where status <> 'Completed'")
    if left:
        raise RuntimeError(f"{left} deliveries were not completed")
    measured = count - workers * floors.BATCH  # the first claims came in before the clock was started
    return {
        f"drain x{workers}: floor 2 per second": measured / floor_seconds,
        f"drain x{workers}: ours per second": measured / drained.seconds,
        f"drain x{workers}: ours / floor 2": floor_seconds / drained.seconds,
        f"drain x{workers}: WAL bytes per delivery": written / count,
        f"drain x{workers}: memory MB": drained.memory,
    }


def publishes(server: Server, singles: int, many: int) -> Figures:
    """Publish one by one against one bare INSERT each, and in batches of 1000 against COPY."""
    floor, dsn = fresh(server, floors.FLOOR_1), fresh(server)
    outbox = Outbox()
    with psycopg.connect(floor, autocommit=True) as bare, psycopg.connect(dsn) as connection:
        insert = "insert into job (payload) values (%s)"
        floor_one = timed(lambda: [bare.execute(insert, each) for each in floors.texts(range(singles))])

        def publish_each() -> None:
            for number in range(singles):
                outbox.publish(connection, "noop", floors.payload_of(number), key=str(number), to="null:")
                connection.commit()

        def copy_all() -> None:
            for first in range(0, many, 1000):
                with bare.cursor() as cursor, cursor.copy("copy job (payload) from stdin") as copy:
                    for row in floors.texts(range(first, first + 1000)):
                        copy.write_row(row)

        def publish_batches() -> None:
            for first in range(0, many, 1000):
                numbers = range(first, first + 1000)
                drafts = [Draft("noop", floors.payload_of(each), key=f"b{each}", to="null:") for each in numbers]
                outbox.publish_many(connection, drafts)
                connection.commit()

        ours_one = timed(publish_each)
        floor_many, ours_many = timed(copy_all), timed(publish_batches)
    return {
        "publish one: floor 1 per second": singles / floor_one,
        "publish one: ours per second": singles / ours_one,
        "publish one: ours / floor 1": floor_one / ours_one,
        "publish many: COPY per second": many / floor_many,
        "publish many: ours per second": many / ours_many,
        "publish many: ours / COPY": floor_many / ours_many,
    }


def latencies(server: Server, count: int) -> Figures:
    """From the commit's answer to the channel being called, with an idle worker, one event every 20 ms."""
    floor = fresh(server, floors.FLOOR_2)
    figures: Figures = {}
    with psycopg.connect(floor, autocommit=True) as connection:
        statement = "with i as (insert into deliveries (payload) values (%s)) select pg_notify('job', '')"

        def floor_one(number: int) -> None:
            connection.execute(statement, floors.texts([number])[0])

        figures |= _latency("floor 2 with NOTIFY", "floor2", floor, floor_one, count)
    for name, kind, notify in (("ours with NOTIFY", "ours-notify", True), ("ours without NOTIFY", "ours", False)):
        dsn = fresh(server)
        outbox = Outbox(notify=notify)
        # Without an announcement events must be rare enough that the worker has gone idle in between.
        interval, rounds = (0.02, count) if notify else (1.37, max(5, count // 15))
        with psycopg.connect(dsn) as connection:

            def one(number: int, connection: Any = connection, outbox: Outbox = outbox) -> None:
                outbox.publish(connection, "noop", floors.payload_of(number), key=str(number), to="null:")
                connection.commit()

            figures |= _latency(name, kind, dsn, one, rounds, interval)
    for part in ("p50", "p99"):
        ratio = figures[f"latency {part} ms: ours with NOTIFY"] / figures[f"latency {part} ms: floor 2 with NOTIFY"]
        figures[f"latency {part}: ours / floor 2"] = ratio
    return figures


def _latency(name: str, kind: str, dsn: str, one: Callable[[int], None], count: int, interval: float = 0.02) -> Figures:
    committed: dict[int, float] = {}
    with processes.listening(kind, dsn) as arrivals:
        time.sleep(1.5)
        begun = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, begun + number * interval - time.monotonic()))
            one(number)
            committed[number] = time.monotonic()
        time.sleep(2.5)
    waits = [(arrivals[number] - at) * 1000 for number, at in committed.items() if number in arrivals]
    if len(waits) < count:
        raise RuntimeError(f"{name}: {count - len(waits)} of {count} events did not arrive")
    cuts = quantiles(waits, n=100, method="inclusive")
    return {f"latency p50 ms: {name}": max(cuts[49], 0.01), f"latency p99 ms: {name}": max(cuts[98], 0.01)}


def timed(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def wal(server: Server) -> int:
    return int(scalar(server.dsn(), "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"))


def checkpoint(server: Server) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("checkpoint")


def scalar(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row: tuple[Any, ...] | None = connection.execute(query.encode()).fetchone()
        return None if row is None else row[0]


def plan(connection: "psycopg.Connection[Any]", query: str, values: Mapping[str, object]) -> dict[str, Any]:
    """EXPLAIN ANALYZE with buffers; the top node."""
    row = connection.execute(b"explain (analyze, buffers, format json) " + query.encode(), values).fetchone()
    found = row[0] if row else None
    document: Any = json.loads(found) if isinstance(found, str) else found
    return dict(document[0]["Plan"])
