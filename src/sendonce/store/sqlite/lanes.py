"""A lane: one connection on a thread of its own. Every call is one whole transaction in one hop to that thread."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

from sendonce.errors import StoreError
from sendonce.sql.queries import load
from sendonce.sql.records import reader
from sendonce.sql.steps import Query, Row, Steps, run
from sendonce.store.sqlite.files import MEMORY, open_file, translated
from sendonce.store.sqlite.times import microseconds, moment, stamp

Clock: TypeAlias = Callable[[], int]
Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")

PACKAGE = "sendonce.store.sqlite"
QUERIES = load(PACKAGE)
# Run once for each of the ids given: for a list of them old statistics could have the whole table read.
_ONE_BY_ONE = {name for name, sql in QUERIES.items() if ":each_id" in sql}
_YES_OR_NO = ("has_content", "in_doubt")


class Transaction(NamedTuple):
    """A transaction that has begun, and the time that everything in it is written with (microseconds since 1970)."""

    connection: sqlite3.Connection
    now: int

    def carry_out(self, steps: Steps[Answer]) -> Answer:
        """Carry out steps; their result."""
        return run(steps, self._execute)

    def _execute(self, query: Query) -> list[Any]:
        sql = QUERIES[query.name]
        if not sql:  # what only the other database has to do
            return []
        values = {"now": self.now, **{name: _spelled(value) for name, value in query.values.items()}}
        if query.name in _ONE_BY_ONE:
            ids: Any = query.values["ids"]
            self.connection.executemany(sql, [{**values, "each_id": each} for each in ids])
            return []
        cursor = self.connection.execute(sql, values)
        rows = cursor.fetchall()
        if query.record is dict:
            names = [column[0] for column in cursor.description]
            return [{name: _named(name, value) for name, value in zip(names, row, strict=True)} for row in rows]
        return rows if query.record is None else list(map(_reader(query.record), rows))

    def fetch(self, name: str, values: Mapping[str, object] | None = None) -> list[Row]:
        """Run a named query; its rows, if it has any."""
        return self.connection.execute(QUERIES[name], {"now": self.now, **(values or {})}).fetchall()

    def change(self, name: str, values: Mapping[str, object] | None = None) -> int:
        """Run a named query; how many rows it has changed."""
        return self.connection.execute(QUERIES[name], {"now": self.now, **(values or {})}).rowcount

    def change_many(self, sql: str, rows: Sequence[Row] | Sequence[Mapping[str, object]]) -> None:
        """Run one statement once for every row of values."""
        self.connection.executemany(sql, rows)


def _named(name: str, value: Any) -> Any:
    """A column as PostgreSQL has it, where nothing but its name says what it is."""
    if name.endswith("_at") and value is not None:
        return moment(value)
    return bool(value) if name in _YES_OR_NO else value


def _spelled(value: object) -> object:
    """A value as SQLite has it: times and spans in microseconds, a list as JSON, a digest as its bytes."""
    match value:
        case datetime():
            return stamp(value)
        case timedelta():
            return microseconds(value)
        case list() | tuple():
            return json.dumps(value)
        case UUID():
            return value.bytes
    return value


@cache
def _reader(kind: Callable[..., Any]) -> Callable[[Row], Any]:
    return reader(kind, {datetime: moment, bool: bool, tuple: _listed})


def _listed(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text))


class Lane:
    """One connection, opened when it is first used. Calls queue up; after an error the next one starts afresh.

    `inline` runs everything in the caller's own thread, for programs that must be the same every time.
    """

    def __init__(self, path: str, clock: Clock, *, inline: bool, read_only: bool = False) -> None:
        self._path = path
        self._clock = clock
        self._read_only = read_only
        self._connection: sqlite3.Connection | None = None
        self._thread = None if inline else ThreadPoolExecutor(1, thread_name_prefix="sendonce-sqlite")
        self._is_closed = False

    async def run(
        self,
        work: Callable[Concatenate[Transaction, Arguments], Answer],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Answer:
        """Do `work` in a transaction: committed when this returns, rolled back when it raises."""
        if self._is_closed:
            raise StoreError("this store is closed")
        if self._thread is None:
            return self._transact(work, *args, **kwargs)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: self._transact(work, *args, **kwargs))

    async def close(self) -> None:
        """Finish what is queued, and close the connection."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._thread is None:
            self._drop()
            return
        await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
        self._thread.shutdown()

    def _transact(
        self,
        work: Callable[Concatenate[Transaction, Arguments], Answer],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Answer:
        with translated():
            connection = self._opened()
            # Whoever will write takes the lock at once: a later upgrade could fail in the middle.
            connection.execute("begin" if self._read_only else "begin immediate")
            try:
                answer = work(Transaction(connection, self._clock()), *args, **kwargs)
                connection.execute("commit")
            except BaseException:
                self._undo(connection)
                raise
            return answer

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = open_file(self._path, read_only=self._read_only)
            if not self._read_only:
                connection.execute(QUERIES["make_results"])
            self._connection = connection
        return self._connection

    def _undo(self, connection: sqlite3.Connection) -> None:
        """Roll back. A connection that cannot even do that is given up, and the next call opens another one."""
        with suppress(sqlite3.Error):
            connection.rollback()
        if connection.in_transaction and self._path != MEMORY:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
