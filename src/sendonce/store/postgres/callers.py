"""A PostgreSQL store on the caller's connection: every verb is a savepoint in the transaction that is the caller's.

psycopg 3 writes the values and reads the rows whatever the driver is, so that a verb meets the same types everywhere,
and none of the settings, codecs or row factories that the owner has chosen.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, cast

import psycopg
from psycopg import errors
from psycopg.adapt import Transformer
from psycopg.pq import DiagnosticField, Format, TransactionStatus
from psycopg.rows import tuple_row
from psycopg.sql import Literal

from sendonce.errors import ConfigError, StoreBusy, StoreError
from sendonce.sql.shielded import shielded
from sendonce.sql.steps import Row
from sendonce.store.migrations import available, check_version
from sendonce.store.postgres.connection import Connection, OwnConnection, translated
from sendonce.store.postgres.migrate import PACKAGE, apply_missing, version_on
from sendonce.store.postgres.store import PostgresStore

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy
    from psycopg2 import extensions

    _Asyncpg: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

T = TypeVar("T")
Values: TypeAlias = Mapping[str, Any] | Sequence[Any] | None

# What statements ask the server for; inside a caller's transaction its answer would never change.
_CLOCKS = ("clock_timestamp()", "now()")
# How to begin, to undo and to end a verb.
_SAVEPOINT = (
    "savepoint sendonce_engine",
    "rollback to savepoint sendonce_engine; release savepoint sendonce_engine",
    "release savepoint sendonce_engine",
)
_TRANSACTION = ("begin", "rollback", "commit")
_DATE_STYLE = "set local datestyle = '{}'"
_PLACEHOLDER = re.compile(r"%(?:%|s|\((\w+)\)s)")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_CONTROLS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class Rows:
    """An answer that has come as a whole; `description` is None for a statement that gives no rows."""

    def __init__(self, description: Sequence[Any] | None = None, rows: Sequence[Row] = ()) -> None:
        self.description = description
        self._rows = list(rows)

    async def fetchall(self) -> list[Row]:
        return self._rows

    async def fetchone(self) -> Row | None:
        return self._rows[0] if self._rows else None


class Driver(Protocol):
    """Runs statements on somebody's open connection. Its errors are those of psycopg 3.

    On a sync connection (`is_async` is False) no coroutine ever suspends.
    """

    is_async: ClassVar[bool]

    @property
    def is_closed(self) -> bool: ...

    @property
    def commits_by_itself(self) -> bool:
        """True outside a transaction where the next statement would begin none."""
        ...

    @property
    def date_style(self) -> str:
        """How the server spells times on this connection: its DateStyle."""
        ...

    async def execute(self, query: str, values: Values = None) -> Rows:
        """Run one statement."""
        ...

    async def run(self, script: str) -> None:
        """Run any number of statements that have no values and no rows."""
        ...


def driver_of(connection: Any, names: Iterable[tuple[str, str]]) -> Driver | None:
    """Return what runs statements on a connection of a class with these names; None when it is not PostgreSQL's."""
    for name in names:
        if name in _DRIVERS:
            return _DRIVERS[name](connection)
    return None


class CallersConnection(OwnConnection):
    """The caller's connection in place of all of a store's own.

    It commits nothing, unless the connection is outside a transaction and commits every statement by itself. `find`
    returns the driver anew for each verb: a session has another connection after each commit. `clock` gives the time
    that statements take instead of the server's.
    """

    def __init__(self, find: Callable[[], Awaitable[Driver]], clock: Callable[[], datetime] | None) -> None:
        super().__init__("")
        self._find = find
        self._clock = clock
        self._is_cut = False
        self.store = PostgresStore(self)
        self.store.is_callers = True

    async def check(self) -> None:
        """Raise SchemaMismatch unless the tables are there and of this version."""
        async with self.transaction() as connection:
            check_version(await version_on(connection), len(available(PACKAGE)))

    async def make_tables(self) -> None:
        """Make the tables that are missing, in the caller's transaction."""
        async with self.transaction() as connection:
            found, wanted = await version_on(connection), len(available(PACKAGE))
            if found < wanted:
                [[path]] = await (await connection.execute("select current_setting('search_path')")).fetchall()
                await apply_missing(connection)
                await connection.execute("select set_config('search_path', %s, true)", (path,))
            else:
                check_version(found, wanted)

    async def server_time(self) -> datetime:
        """What the server's own clock says."""
        async with self.connection() as connection:
            [[now]] = await (await connection.execute("select statement_timestamp()")).fetchall()
            return cast(datetime, now)

    def cut(self) -> None:
        """Refuse every verb from now on."""
        self._is_cut = True

    async def rest(self) -> None:
        """Wait for whoever is at work here, and for those who queue up."""
        async with self._turn:
            return

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Connection]:
        """The connection for one verb, in a savepoint. What a worker would wait for does not pass by itself here."""
        try:
            async with self._turn, translated():
                if self._is_cut:
                    raise StoreError("this store is closed")
                borrowed = _Borrowed(await self._find(), self._clock)
                async with borrowed.transaction():
                    yield cast(Connection, borrowed)
        except StoreBusy as error:
            raise StoreError(str(error)) from None


class _Borrowed:
    """As much of an AsyncConnection as the store uses."""

    def __init__(self, driver: Driver, clock: Callable[[], datetime] | None) -> None:
        self._driver = driver
        self._clock = clock

    async def execute(self, query: str | bytes, values: Values = None) -> Rows:
        """Run a statement with the clock's time in it, or a script, which is bytes, as it is."""
        if isinstance(query, bytes):
            await self._run(query.decode())
            return Rows()
        if self._clock is not None:
            for each in _CLOCKS:
                query = query.replace(each, f"timestamptz '{self._clock().isoformat()}'")
        return await self._whole(self._driver.execute(query, values))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        begin, undo, end = _TRANSACTION if self._driver.commits_by_itself else _SAVEPOINT
        try:
            await self._run(begin)
        except errors.InFailedSqlTransaction:
            raise ConfigError(
                "a statement has failed in this connection's transaction; roll it back, or back to a savepoint before"
                " that"
            ) from None
        except asyncio.CancelledError:
            await self._run(undo)
            raise
        try:
            async with self._readable_times():
                yield
        except BaseException:
            with suppress(psycopg.Error, OSError):  # where all of it is gone already
                await self._run(undo)
            raise
        await self._run(end)

    @asynccontextmanager
    async def _readable_times(self) -> AsyncIterator[None]:
        """Have times spelled in the one way that can be read, and then in their owner's again; undone by a failure."""
        theirs = self._driver.date_style
        if theirs.startswith("ISO"):
            yield
            return
        await self._run(_DATE_STYLE.format("ISO"))
        yield
        await self._run(_DATE_STYLE.format(theirs))

    async def _run(self, script: str) -> None:
        await self._whole(self._driver.run(script))

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Await the driver to the end, whoever is cancelled; what never suspends needs no event loop for that."""
        return await (shielded(work) if self._driver.is_async else work)


class Psycopg:
    """psycopg 3: a plain cursor, whatever its owner has chosen, and nothing is prepared."""

    is_async: ClassVar[bool] = False

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return self._connection.closed

    @property
    def commits_by_itself(self) -> bool:
        return _commits_by_itself(self._connection)

    @property
    def date_style(self) -> str:
        return self._connection.info.parameter_status("DateStyle") or ""

    async def execute(self, query: str, values: Values = None) -> Rows:
        cursor = self._execute(query, values)
        return Rows(cursor.description, [] if cursor.description is None else cursor.fetchall())

    async def run(self, script: str) -> None:
        self._execute(script, None)

    def _execute(self, query: str, values: Values) -> psycopg.Cursor[Row]:
        cursor = psycopg.Cursor(self._connection, row_factory=tuple_row)
        return cursor.execute(query.encode(), values, prepare=False)


class AsyncPsycopg:
    """The same on an async connection."""

    is_async: ClassVar[bool] = True

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return self._connection.closed

    @property
    def commits_by_itself(self) -> bool:
        return _commits_by_itself(self._connection)

    @property
    def date_style(self) -> str:
        return self._connection.info.parameter_status("DateStyle") or ""

    async def execute(self, query: str, values: Values = None) -> Rows:
        cursor = await self._execute(query, values)
        return Rows(cursor.description, [] if cursor.description is None else await cursor.fetchall())

    async def run(self, script: str) -> None:
        await self._execute(script, None)

    async def _execute(self, query: str, values: Values) -> psycopg.AsyncCursor[Row]:
        cursor = psycopg.AsyncCursor(self._connection, row_factory=tuple_row)
        return await cursor.execute(query.encode(), values, prepare=False)


class Psycopg2:
    """psycopg2: values go in as literals, rows come out as text."""

    is_async: ClassVar[bool] = False

    def __init__(self, connection: "extensions.connection") -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return bool(self._connection.closed)

    @property
    def commits_by_itself(self) -> bool:
        return self._connection.autocommit and self._connection.get_transaction_status() == TransactionStatus.IDLE

    @property
    def date_style(self) -> str:
        return self._connection.get_parameter_status("DateStyle") or ""

    async def execute(self, query: str, values: Values = None) -> Rows:
        from psycopg2 import extensions

        with _psycopg2_translated(), self._connection.cursor(cursor_factory=extensions.cursor) as cursor:
            extensions.register_type(_psycopg2_text(), cursor)
            cursor.execute(with_values(query, values))
            if cursor.description is None:
                return Rows()
            types = [column.type_code for column in cursor.description]
            texts = [[None if each is None else each.encode() for each in row] for row in cursor.fetchall()]
            return Rows(cursor.description, read(types, texts))

    async def run(self, script: str) -> None:
        await self.execute(script)


class Asyncpg:
    """asyncpg, alone or from its pool: rows are copied out as text, past the codecs that its owner may have set."""

    is_async: ClassVar[bool] = True

    def __init__(self, connection: "_Asyncpg") -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        import asyncpg

        try:
            return self._connection.is_closed()
        except asyncpg.InterfaceError:  # it was given back to its pool
            return True

    @property
    def commits_by_itself(self) -> bool:
        return not self._connection.is_in_transaction()

    @property
    def date_style(self) -> str:
        return str(self._connection.get_settings().DateStyle)

    async def execute(self, query: str, values: Values = None) -> Rows:
        text, copied = with_values(query, values), bytearray()

        async def write(data: bytes) -> None:
            copied.extend(data)

        with _asyncpg_translated():
            columns = (await self._connection.prepare(text)).get_attributes()
            if not columns:
                await self._connection.execute(text)
                return Rows()
            await self._connection.copy_from_query(text, output=write, format="text")
        rows = [[_unescaped(each) for each in line.split(b"\t")] for line in bytes(copied).split(b"\n")[:-1]]
        return Rows(columns, read([each.type.oid for each in columns], rows))

    async def run(self, script: str) -> None:
        with _asyncpg_translated():
            await self._connection.execute(script)


_DRIVERS: dict[tuple[str, str], Callable[[Any], Driver]] = {
    ("psycopg", "Connection"): Psycopg,
    ("psycopg", "AsyncConnection"): AsyncPsycopg,
    ("psycopg2", "connection"): Psycopg2,
    ("asyncpg", "Connection"): Asyncpg,
    ("asyncpg", "PoolConnectionProxy"): Asyncpg,
}


def with_values(query: str, values: Values) -> str:
    """Write the values into the query; one without any is left as it is, percent signs too."""
    if values is None:
        return query
    named, positional = (values, iter(())) if isinstance(values, Mapping) else ({}, iter(values))

    def spelled(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        return Literal(named[match[1]] if match[1] else next(positional)).as_string()

    return _PLACEHOLDER.sub(spelled, query)


def read(types: Sequence[int], rows: Iterable[Sequence[bytes | None]]) -> list[Row]:
    """Read rows that the server has sent as text; `types` are the oids of the columns."""
    transformer = Transformer()
    loaders = [transformer.get_loader(each, Format.TEXT).load for each in types]
    return [
        tuple(None if text is None else load(text) for load, text in zip(loaders, row, strict=True)) for row in rows
    ]


def _commits_by_itself(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE


def _unescaped(copied: bytes) -> bytes | None:
    if copied == rb"\N":
        return None
    return _ESCAPED.sub(lambda match: _CONTROLS.get(match[1], match[1]), copied)


@cache
def _psycopg2_text() -> Any:
    """A type that, registered for one cursor, leaves whatever psycopg 3 can read as the server has sent it."""
    from psycopg2 import extensions

    types = {oid for each in psycopg.adapters.types for oid in (each.oid, each.array_oid) if oid}
    return extensions.new_type(tuple(types), "SENDONCE_TEXT", lambda text, _: text)


@contextmanager
def _psycopg2_translated() -> Iterator[None]:
    import psycopg2

    try:
        yield
    except psycopg2.Error as error:
        if error.pgcode is not None:
            message = error.diag.message_primary or type(error).__name__
            raise _error_of(error.pgcode, message, error.diag.constraint_name) from None
        # Without an answer of the server's it is one of the DB-API's own, whose names are the same in both.
        kind: type[psycopg.Error] = getattr(psycopg, type(error).__name__, psycopg.Error)
        raise kind(str(error)) from None


@contextmanager
def _asyncpg_translated() -> Iterator[None]:
    import asyncpg

    try:
        yield
    except asyncpg.PostgresError as error:
        state, constraint = error.sqlstate or "", getattr(error, "constraint_name", None)
        raise _error_of(state, str(error.args[0]), constraint) from None
    except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise psycopg.InterfaceError(str(error)) from None


def _error_of(state: str, message: str, constraint: str | None) -> psycopg.Error:
    """Return what psycopg 3 would raise for this answer of the server's."""
    try:
        kind = errors.lookup(state)
    except KeyError:
        kind = psycopg.DatabaseError
    told = {DiagnosticField.SQLSTATE: state, DiagnosticField.MESSAGE_PRIMARY: message}
    if constraint is not None:
        told[DiagnosticField.CONSTRAINT_NAME] = constraint
    return kind(message, info={int(field): text.encode() for field, text in told.items()})
