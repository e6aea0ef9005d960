"""One SQLite connection on a thread of its own: every call is one whole transaction in one hop to that thread."""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar
from urllib.parse import quote
from uuid import UUID

from sendonce.domain.events import digest_of_stored
from sendonce.domain.texts import provider_token, storable
from sendonce.errors import BadValue, ConfigError, NotAllowed, SchemaMismatch, SendonceError, StoreBusy, StoreError
from sendonce.outbox.requests import published
from sendonce.sql.queries import load, with_parameters
from sendonce.sql.steps import Query, Row, Steps, reader, run

Clock: TypeAlias = Callable[[], int]
Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")

PACKAGE = "sendonce.store.sqlite"
QUERIES = {**load(PACKAGE), **published("sqlite")}
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
        each: Any = query.values.get("each")
        if each is not None:
            self.connection.executemany(_positional(sql), each)
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


def _named(name: str, value: Any) -> Any:
    """A column as PostgreSQL has it, where nothing but its name says what it is."""
    if name.endswith("_at") and value is not None:
        return moment(value)
    return bool(value) if name in _YES_OR_NO else value


def _spelled(value: object) -> object:
    """A value as SQLite has it: times and spans in microseconds, a list as JSON, a digest as its bytes.

    What it cannot keep of a text is replaced, as on every database.
    """
    match value:
        case str():
            return storable(value)
        case datetime():
            return stamp(value)
        case timedelta():
            return microseconds(value)
        case list() | tuple():
            return json.dumps([storable(each) if isinstance(each, str) else each for each in value])
        case UUID():
            return value.bytes
    return value


@cache
def _positional(sql: str) -> str:
    """The query with parameters that have no names: they take plain tuples, which cost half of what dicts do."""
    return with_parameters(sql, lambda name: "?")


@cache
def _reader(kind: Callable[..., Any]) -> Callable[[Row], Any]:
    return reader(kind, {datetime: moment, timedelta: _span, bool: bool, tuple: _listed})


def _span(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def _listed(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text))


class OwnConnection:
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


MEMORY = ":memory:"
BUSY_SECONDS = 5.0
PATIENT_SECONDS = 300.0
_SCHEME = "sqlite://"
# What passes by itself: another process writes, a disk is cleared, a file system comes back.
_PASSING = {
    sqlite3.SQLITE_BUSY: "another process is writing",
    sqlite3.SQLITE_LOCKED: "the database is locked",
    sqlite3.SQLITE_FULL: "the disk or the database is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PROTOCOL: "the database is locked",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_INTERRUPT: "interrupted",
}
_LASTING = {
    sqlite3.SQLITE_READONLY: "the file cannot be written; check its owner and rights, and those of its folder",
    sqlite3.SQLITE_PERM: "the file cannot be used; check its owner and rights",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup",
}


def parse_url(url: str) -> str:
    """The path that an address names: sqlite:///file, sqlite:////absolute/file, a path; sqlite:// is in memory."""
    path = url
    if url.startswith("sqlite:"):
        path = url.removeprefix(_SCHEME).removeprefix("/")
        if not url.startswith(_SCHEME) or (path and not url.startswith(_SCHEME + "/")):
            raise ConfigError("a SQLite database is sqlite:///file, sqlite:////absolute/file, or sqlite:// in memory")
    if "\0" in path:
        raise ConfigError("a SQLite file's name must not contain a NUL character")
    return path or MEMORY


def exists(path: str) -> bool:
    return path == MEMORY or Path(path).exists()


def open_file(path: str, *, create: bool = False, read_only: bool = False) -> sqlite3.Connection:
    """A connection that commits only when told to. Never makes a file unless asked to, and then for its owner alone."""
    if create and path != MEMORY:
        _make_private(path)
    mode = "memory" if path == MEMORY else "rwc" if create else "rw"
    connection = sqlite3.connect(
        f"file:{quote(path)}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        if path != MEMORY and not read_only:
            _use_wal(connection)
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma cache_size = -16000")
        if read_only:
            connection.execute("pragma query_only = on")
        add_functions(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def add_functions(connection: sqlite3.Connection) -> None:
    """Add the functions that our SQL calls."""
    connection.create_function("provider_token", 6, provider_token, deterministic=True)
    connection.create_function("content_digest_of", 4, digest_of_stored, deterministic=True)


@contextmanager
def translated() -> Iterator[None]:
    """Turn sqlite3's errors into ours. Messages never carry SQL or values: those may be payloads."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translation(error) from None
    except (UnicodeEncodeError, OverflowError) as error:
        raise BadValue(f"a value cannot be stored ({type(error).__name__})") from None


def _translation(error: sqlite3.Error) -> SendonceError:
    code = getattr(error, "sqlite_errorcode", -1) & 0xFF
    if code in _PASSING:
        return StoreBusy(f"SQLite cannot answer now: {_PASSING[code]}")
    if code in _LASTING:
        return StoreError(f"SQLite cannot use this database: {_LASTING[code]}")
    if isinstance(error, sqlite3.IntegrityError):
        # Names of tables, columns and rules; never a value.
        return NotAllowed(f"the database refused it ({error})")
    if str(error).startswith(("no such table", "no such column")):
        return SchemaMismatch("this database has no sendonce tables, or only some; run: sendonce migrate")
    return StoreError(f"SQLite failed ({type(error).__name__}, {getattr(error, 'sqlite_errorname', 'no code')})")


def begin(connection: sqlite3.Connection) -> None:
    """Begin a transaction that writes, however long others take their turns; they are short, but there may be many."""
    until = time.monotonic() + PATIENT_SECONDS
    while True:
        try:
            connection.execute("begin immediate")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise


def _make_private(path: str) -> None:
    """An empty file that its owner alone can read, unless there is one. SQLite gives -wal and -shm the same rights."""
    with suppress(OSError):  # it is there; or what else is wrong SQLite will say
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _use_wal(connection: sqlite3.Connection) -> None:
    """Readers and the writer do not wait for each other. The change itself does not wait for others, so we do."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def system_clock() -> int:
    return time.time_ns() // 1000


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def microseconds(span: timedelta) -> int:
    return span // _MICROSECOND


def stamp(at: datetime) -> int:
    """The time as it is written; a time without a zone is taken as local, as everywhere in Python."""
    return (at.astimezone(UTC) - EPOCH) // _MICROSECOND
