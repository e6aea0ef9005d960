"""What the inbox costs: a handler of one update and its commit, bare and inside `once`, by turns in one run."""

import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.measures import Figures, fresh
from sendonce import Inbox
from sendonce.compose import migrate
from tests.servers.postgres import Server

WALLETS = 100
# So many messages of one kind, then as many of the other: what the machine does meanwhile meets both alike.
TURN = 50
TABLE = "create table wallets (id integer primary key, balance bigint not null)"


def inbox(server: Server, count: int) -> Figures:
    """Milliseconds for each message, and the ratio to the bare handler, on both databases."""
    figures: Figures = {}
    dsn = fresh(server)
    with psycopg.connect(dsn) as connection:
        _prepare(connection)
        for name, setting in (("PostgreSQL", "on"), ("PostgreSQL, synchronous_commit off", "off")):
            connection.execute(f"set synchronous_commit = {setting}".encode())
            connection.commit()
            figures |= _compared(name, connection, "update wallets set balance = balance - 1 where id = %s", count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "inbox.db"
        migrate(f"sqlite:///{path}")
        with closing(sqlite3.connect(path)) as connection:
            _prepare(connection)
            for name, setting in (("SQLite", "full"), ("SQLite, synchronous normal", "normal")):
                connection.execute(f"pragma synchronous = {setting}")
                figures |= _compared(name, connection, "update wallets set balance = balance - 1 where id = ?", count)
    return figures


def _prepare(connection: Any) -> None:
    connection.execute(TABLE)
    for each in range(WALLETS):
        connection.execute(f"insert into wallets (id, balance) values ({each}, 0)")
    connection.commit()


def _compared(name: str, connection: Any, deduct: str, count: int) -> Figures:
    box = Inbox()

    def bare(number: int) -> None:
        connection.execute(deduct, (number % WALLETS,))
        connection.commit()

    def once(number: int) -> None:
        with box.once(connection, "wallet", f"{name} {number}") as first:
            if first:
                connection.execute(deduct, (number % WALLETS,))
        connection.commit()

    bare_seconds = once_seconds = 0.0
    for begin in range(0, count, TURN):
        numbers = range(begin, begin + TURN)
        bare_seconds += _timed(bare, numbers)
        once_seconds += _timed(once, numbers)
    each = -(-count // TURN) * TURN
    return {
        f"inbox, {name}: bare handler, ms": bare_seconds / each * 1000,
        f"inbox, {name}: with once, ms": once_seconds / each * 1000,
        f"inbox, {name}: with once / bare": once_seconds / bare_seconds,
    }


def _timed(work: Callable[[int], None], numbers: range) -> float:
    begun = time.monotonic()
    for each in numbers:
        work(each)
    return time.monotonic() - begun
