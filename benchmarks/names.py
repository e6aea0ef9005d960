"""A healthy tenant beside one whose endpoints have names that never answer: how long each delivery takes."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from benchmarks.measures import Figures, fresh
from benchmarks.sinks import Sinks
from sendonce import Draft, Outbox
from tests.attack.dns import name_server
from tests.servers.postgres import Server

SILENT_ENDPOINTS = 300
# Between two events of each tenant; the silent endpoints get theirs in turn.
INTERVAL = 0.05
HEALTHY = "healthy.example"
# From the moment it was recorded to the moment it was sent; in milliseconds.
SLOWEST = """
select extract(epoch from percentile_disc(0.99) within group (order by d.notified_at - e.created_at)) * 1000, count(*)
  from sendonce_deliveries d join sendonce_events e on e.id = d.event_id
 where e.tenant = %s and d.status = 'Completed'
"""


def names(server: Server, count: int) -> Figures:
    """The slowest hundredth of the healthy tenant's deliveries, alone and beside 300 endpoints without an answer."""
    alone, beside = (_slowest(server, silent, count) for silent in (0, SILENT_ENDPOINTS))
    return {
        "names: p99 of a healthy tenant alone, ms": alone,
        f"names: the same beside {SILENT_ENDPOINTS} silent names, ms": beside,
        "names: beside silent / alone": beside / alone,
    }


def _slowest(server: Server, silent: int, count: int) -> float:
    dsn = fresh(server)
    with Sinks() as sinks, _answering() as address, psycopg.connect(dsn) as connection:
        outbox, port = Outbox(notify=True), sinks.ports["quick"]
        worker = _worker(dsn, address)
        try:
            outbox.publish(connection, "a", {}, key="first", to=f"http://127.0.0.1:{port}/", tenant="first")
            connection.commit()
            _measured(connection, worker, "first", 1)
            begun = time.monotonic()
            for number in range(count):
                time.sleep(max(0.0, begun + number * INTERVAL - time.monotonic()))
                drafts = [Draft("a", {}, key=str(number), to=f"http://{HEALTHY}:{port}/{number}", tenant="healthy")]
                if silent:
                    to = f"http://hook.d{number % silent}.silent:{port}/"
                    drafts.insert(0, Draft("a", {}, key=str(number), to=to, tenant="silent"))
                outbox.publish_many(connection, drafts)
                connection.commit()
            return _measured(connection, worker, "healthy", count)
        finally:
            worker.kill()
            worker.wait()


def _measured(connection: psycopg.Connection, worker: "subprocess.Popen[bytes]", tenant: str, count: int) -> float:
    """When all of a tenant's are sent."""
    while True:
        row = connection.execute(SLOWEST, (tenant,)).fetchone()
        connection.commit()
        if row is not None and row[1] == count:
            return float(row[0])
        if worker.poll() is not None:
            raise RuntimeError("the worker ended early")
        time.sleep(0.1)


def _worker(dsn: str, name_server: str) -> "subprocess.Popen[bytes]":
    environment = {
        **os.environ,
        "SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8",
        "SENDONCE_NETWORK_NAME_SERVERS": name_server,
    }
    command = [sys.executable, "-m", "sendonce", "worker", "--notify", "--database", dsn]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


@contextmanager
def _answering() -> Iterator[str]:
    """A name server in a thread of its own: the healthy name may be kept for a second, the silent ones never answer."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    ended, address = asyncio.Event(), ""

    async def serve() -> None:
        nonlocal address
        async with name_server(ttl=1) as server:
            server.says(HEALTHY, ["127.0.0.1"])
            address = server.address
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
