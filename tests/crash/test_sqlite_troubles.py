"""SQLite locked by another process, full, or on a disk that takes no more: the worker says so once and waits."""

import resource
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash import filling
from tests.crash.accounts import all_completed, completed, publish, settle_accounts, worker
from tests.processes import SECONDS, Process, until
from tests.receiver import Receiver
from tests.store.databases import Database, SqliteDatabase

AMOUNT = 150
PARTS = ("worker", "results", "lease keeper")

Trouble = Callable[[Process, SqliteDatabase], None]


def locked(process: Process, database: SqliteDatabase) -> None:
    """Hold the file's lock until the worker complains."""
    with closing(sqlite3.connect(database.path, timeout=SECONDS, isolation_level=None)) as other:
        other.execute("begin immediate")
        process.says("SQLite cannot answer now: another process is writing")
        other.execute("rollback")


def full(process: Process, database: SqliteDatabase) -> None:
    """Let the database grow no more, until the worker complains."""
    mark = mark_of(database)
    mark.touch()
    process.says("SQLite cannot answer now: the disk or the database is full")
    mark.unlink()


def mark_of(database: SqliteDatabase) -> Path:
    return database.path.with_suffix(".full")


def unwritable(process: Process, database: SqliteDatabase) -> None:
    """Let every write of this process to a file fail, until it complains."""
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    process.says("SQLite cannot answer now: the disk")
    frozen_at = completed(database)
    until_unchanged(lambda: completed(database), 0.3)
    assert completed(database) <= frozen_at + 10
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)


def until_unchanged(value: Callable[[], int], seconds: float) -> None:
    """Return when the value has stayed the same for so long."""
    last, since = value(), time.monotonic()

    def is_still() -> bool:
        nonlocal last, since
        if value() != last:
            last, since = value(), time.monotonic()
        return time.monotonic() - since >= seconds

    until(is_still, "no more change")


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("trouble", [locked, full, unwritable])
def test_worker_waits_and_goes_on(database: Database, receiver: Receiver, trouble: Trouble) -> None:
    assert isinstance(database, SqliteDatabase)
    publish(database, receiver, AMOUNT)
    receiver.delay = 0.1

    environment = {filling.FULL: str(mark_of(database))}
    with worker(
        database, "--concurrency", "5", "--app", f"{filling.__name__}:channels", environment=environment
    ) as here:
        receiver.most = AMOUNT // 2  # however late we look, there is work left
        until(lambda: completed(database) >= 15, "some work")
        trouble(here, database)
        receiver.most = None
        took = all_completed(database, AMOUNT)
        here.send(signal.SIGTERM)
        assert here.ended() == 0

    settle_accounts(database, receiver, AMOUNT, title=f"SQLite {trouble.__name__}", took=took)
    for part in PARTS:
        assert here.count(f"{part}: SQLite cannot answer now") <= 1
        assert here.count(f"{part}: SQLite") == here.count(f"{part}: the database is back")
    assert here.count("Traceback") == 0
