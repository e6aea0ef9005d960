"""All that takes part in a chaos run: a database, a proxy, a receiver, two workers, two publishers, and operators."""

import json
import signal
import sqlite3
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from sendonce.compose import migrate
from tests.crash.backups import Place
from tests.crash.commands import typed
from tests.crash.proxy import Proxy
from tests.crash.publishing import ORDERS, PUBLISHERS, SUBSCRIBED, journal
from tests.crash.recorder import KINDS, RecorderProcess
from tests.processes import Process, sendonce
from tests.servers.binaries import local_binaries, packaged
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Server, start
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

WORKERS = 2
LEASE_SECONDS = 5
DOWN = (psycopg.OperationalError, sqlite3.OperationalError)
POLICY = {
    "max_attempts": 10_000, "first_delay": "200ms", "longest_delay": "2s", "jitter": 0.5,
    "doubt_wait": "500ms",
}  # fmt: skip
_COULD_NOT_BEGIN = "^sendonce: (PostgreSQL|SQLite) cannot answer now"
# "+ 0" keeps the planner from walking the finished ones.
_OPEN = """
select count(*), coalesce(min(id), 0) from (
  select id + 0 as id from sendonce_deliveries where next_attempt_at is not null
  union all select id + 0 from sendonce_deliveries where parked_on is not null
  union all select d.id from sendonce_leases l cross join {deliveries} w
              join sendonce_deliveries d on d.id = w.{value} where d.status = 'InProgress') o
"""


class Stage:
    """`lease` and `timeout` are the workers'. `server` and `proxy` are there on PostgreSQL only; as "pgbouncer" it is
    reached through that.
    """

    lease, timeout = f"{LEASE_SECONDS}s", "2s"

    def __init__(self, kind: str, folder: Path, *, rate: float, seed: int, concurrency: int) -> None:
        self.kind, self.folder, self.rate, self.seed = kind, folder, rate, seed
        self.workers: list[Process] = []
        self.publishers: list[Process] = []
        self.server: Server | None = None
        self.proxy: Proxy | None = None
        self._concurrency = concurrency
        self._started = 0.0
        self._starting = threading.Lock()
        # Whoever stops the server, or puts another in its place.
        self.halting = threading.Lock()
        # Of each publisher's journal, from where to where it was written between a backup and its restore.
        self.lost: list[list[tuple[int, int]]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.database = self._new_database(stack)
            self.place = Place(self.database, self.folder, self.server)
            self.recorder = stack.enter_context(RecorderProcess(str(self.seed)))
            self._write_settings()
            self.subscription = self._subscribe()
            self._started = time.monotonic()
            self.workers = [self._worker(which) for which in range(WORKERS)]
            self.publishers = [self._publisher(which) for which in range(PUBLISHERS)]
            stack.callback(self._end)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for which, worker in enumerate(self.workers):
                error.add_note(f"worker {which} said:\n{worker.said}")
        self._stack.close()

    def restart_worker(self, which: int) -> None:
        """Kill it, if it is still there, and start another in its place."""
        with self._starting:
            self.workers[which].kill()
            self.workers[which] = self._worker(which)

    def back_up(self) -> list[int]:
        """Take a backup; how long the journals were before it."""
        with self.halting:
            before = self._journals()
            self.place.back_up()
        return before

    def restore(self, before: list[int], *, typed_too: bool) -> None:
        """Put the newest backup back, and say so if that is `typed_too`; else the workers must notice.

        A server goes away under everybody, while whoever has a file open must be ended first.
        """
        with self.halting, self._starting:
            if self.server is None:
                for process in (*self.workers, *self.publishers):
                    process.kill()
            self.place.restore()
            if typed_too:
                typed(self.database, "doubt", "--open", "--even-if-running", "--wait", "500ms", "--reason", "restored")
            if self.server is None:
                self.workers = [self._worker(which) for which in range(WORKERS)]
                self.publishers = [self._publisher(which) for which in range(PUBLISHERS)]
        self.lost.append(list(zip(before, self._journals(), strict=True)))

    def _journals(self) -> list[int]:
        paths = [journal(self.folder, which) for which in range(PUBLISHERS)]
        return [path.stat().st_size if path.exists() else 0 for path in paths]

    def restart_publisher(self, which: int) -> None:
        with self._starting:
            self.publishers[which].kill()
            self.publishers[which] = self._publisher(which)

    def stop_publishing(self) -> None:
        (self.folder / "stop").touch()
        for publisher in self.publishers:
            publisher.ended()

    def check(self) -> None:
        """Nobody may end but by the monkey's hand.

        A worker that could not reach the database when it began is started again, as whoever runs services does.
        """
        for which, worker in enumerate(self.workers):
            if not worker.is_running and worker.count(_COULD_NOT_BEGIN):
                with self._starting:
                    if self.workers[which] is worker:
                        self.workers[which] = self._worker(which)
        for process in (*self.workers, *self.publishers, self.recorder):
            if process.count(_COULD_NOT_BEGIN):
                continue
            assert process.is_running or process.ended() in (0, -signal.SIGKILL), process.said

    def brake(self, *, is_on: bool) -> None:
        """Have the publishers wait, or go on."""
        if is_on:
            (self.folder / "brake").touch()
        else:
            (self.folder / "brake").unlink(missing_ok=True)

    def open_deliveries(self) -> tuple[int, int]:
        """How many are not closed, and the id of the oldest; one of DOWN when the database cannot say."""
        is_sqlite = isinstance(self.database, SqliteDatabase)
        source = ("json_each(l.deliveries)", "value") if is_sqlite else ("lateral unnest(l.deliveries)", "w")
        with self.halting:  # nobody looks into a file that is being restored
            [[amount, oldest]] = self.database.execute(_OPEN.format(deliveries=source[0], value=source[1]))
        return amount, oldest

    def have_begun(self) -> bool:
        """Whether all workers have all their connections: their lease keepers, which open theirs last, have spoken."""
        begun = self.database.one("select count(*) from sendonce_workers where seen_at > started_at")
        return bool(begun >= WORKERS)

    def last_delivery(self) -> int:
        """The id of the newest one."""
        with self.halting:
            return int(self.database.one("select coalesce(max(id), 0) from sendonce_deliveries"))

    def _new_database(self, stack: ExitStack) -> Database:
        database: Database
        if self.kind == "sqlite":
            database = SqliteDatabase(self.folder / "chaos.db")
            self._url = database.url
        else:
            self.server = start(local_binaries() or packaged(16), durable=True, settings={"max_wal_size": "4GB"})
            stack.callback(self.server.stop)
            name = self.server.create_database()
            database = PostgresDatabase(self.server.dsn(name))
            port = int(self.server.url.rpartition(":")[2].partition("/")[0])
            self.proxy = stack.enter_context(Proxy("127.0.0.1", port))
            self._url = f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{name}"
            if self.kind == "pgbouncer":  # between everybody and the proxy, with a connection for every second of them
                self._url = stack.enter_context(PgBouncer(self._url, size=6)).url_of(name)
        migrate(database.url)
        database.execute(ORDERS)
        return database

    def _write_settings(self) -> None:
        asked = self.recorder.url("asked")
        endpoint = f'[http.asked]\nurl = "{asked}/asked/"\nlook_up = "{asked}/look-up/{{token}}"\n'
        (self.folder / "sendonce.toml").write_text(endpoint)

    def _worker(self, which: int) -> Process:
        return sendonce(
            "worker", "--config", str(self.folder / "sendonce.toml"), "--lease", self.lease,
            "--state", str(self.folder / f"worker-{which}.state"),
            "--concurrency", str(self._concurrency), "--policy", json.dumps({**POLICY, "timeout": self.timeout}),
            database=self._url, environment={"SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8"},
        )  # fmt: skip

    def _subscribe(self) -> str:
        to = f"{self.recorder.url('subscribed')}/subscribed"
        return str(typed(self.database, "subscriptions", "add", "--type", SUBSCRIBED, "--to", to, "--json")["id"])

    def _publisher(self, which: int) -> Process:
        orders = {
            "url": self._url, "folder": str(self.folder), "which": which, "rate": self.rate / PUBLISHERS,
            "seed": self.seed, "started": self._started, "receivers": {kind: self.recorder.url(kind) for kind in KINDS},
        }  # fmt: skip
        return Process("-m", "tests.crash.publishing", json.dumps(orders))

    def _end(self) -> None:
        for process in (*self.workers, *self.publishers):
            if process.is_running:
                process.kill()
            process.ended()
