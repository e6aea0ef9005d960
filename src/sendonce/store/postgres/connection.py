"""A lane: one connection that heals itself, used by one caller at a time; and the translation of driver errors."""

import asyncio
import select
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg import errors

from sendonce.domain.texts import storable
from sendonce.errors import BadValue, NotAllowed, SchemaMismatch, ServerReadOnly, StoreBusy, StoreError
from sendonce.outbox.requests import published
from sendonce.sql.queries import load, with_parameters
from sendonce.sql.steps import Query, Row, Steps, arun, reader
from sendonce.store.verbs import On, Verbs

T = TypeVar("T")
Connection: TypeAlias = psycopg.AsyncConnection[Row]

QUERIES = {
    name: with_parameters(sql.replace("%", "%%"), lambda parameter: f"%({parameter})s")
    for name, sql in {**load("sendonce.store.postgres"), **published("postgres")}.items()
}
CALL_SECONDS = 60.0
# A cut network must not look like a slow database for ever.
_NETWORK = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


# This passes too, when a failover is done.
_READ_ONLY = (
    "this server or session only reads (a standby, or default_transaction_read_only is on); use the primary's address,"
    " or switch that off"
)
# What passes by itself: lost connections, deadlocks, full disks.
_PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.TransactionRollback,
    errors.IdleInTransactionSessionTimeout,
)


# A statement that was prepared is not there any more, or not as it was: a pooler came in between, or a migration.
_UNPREPARED = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement, errors.FeatureNotSupported)
PREPARE_AFTER = 2
# Plans, of triggers too, are kept while tables grow: what was made for a small one reads it whole ever after, or until
# somebody analyzes it. So they are made anew: after so many uses, then after so many times as many, up to this.
FIRST_REPLAN, REPLAN_TIMES, REPLAN_EVERY = 8, 4, 512

ENCODING = "UTF8"
_ISOLATION = "read committed"
# One round trip for a new connection. Poolers keep these three settings for each of their clients; the fourth they do
# not know, so that it is set only where the session is ours alone ({own} is who was there when we came).
_BEGIN_SESSION = f"""
begin isolation level {_ISOLATION};
select pg_backend_pid() = {{own}}, current_setting('server_encoding'),
       pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on',
       current_setting('default_transaction_isolation'),
       set_config('DateStyle', 'ISO, MDY', false), set_config('TimeZone', 'UTC', false),
       set_config('standard_conforming_strings', 'on', false),
       case when pg_backend_pid() = {{own}}
            then set_config('default_transaction_isolation', '{_ISOLATION}', false) end;
commit
"""


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Turn psycopg's errors into ours. Messages never carry values: those may be payloads."""
    try:
        yield
    except errors.UndefinedTable:
        raise SchemaMismatch("this database has no sendonce tables, or only some; run: sendonce migrate") from None
    except errors.InsufficientPrivilege as error:
        raise StoreError(f"this database role may not do that ({_words(error)}); see: sendonce grants --sql") from None
    except psycopg.IntegrityError as error:
        raise NotAllowed(f"the database refused it ({error.diag.constraint_name or _words(error)})") from None
    except psycopg.DataError as error:
        raise BadValue(f"the database refused a value ({type(error).__name__})") from None
    except UnicodeError:
        raise BadValue("the database refused a value (not UTF-8)") from None
    except errors.ReadOnlySqlTransaction:
        raise _read_only() from None
    except (*_PASSING, *_UNPREPARED) as error:
        raise StoreBusy(f"PostgreSQL cannot answer now ({cause_of(error)})") from None
    except (TimeoutError, OSError) as error:
        raise StoreBusy(f"PostgreSQL cannot answer now ({type(error).__name__})") from None
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL failed ({type(error).__name__}, {error.sqlstate})") from None


class Session(NamedTuple):
    """What a new connection was told of its server.

    `is_direct`: nobody stands between us and the server, as the process that we were told of is the one that answers. A
    pooler that gives a transaction to any of its connections names a process of its own, or none.
    """

    is_direct: bool
    encoding: str
    is_read_only: bool
    isolation: str


async def connect(url: str) -> Connection:
    """Open a connection that commits by itself and reads and writes texts and times in one way.

    Whatever the environment, the role or the database says. Nobody else's session is changed by it.
    """
    connection, _ = await opened(url)
    return connection


async def opened(url: str) -> tuple[Connection, Session]:
    """The same, with what it was told of its server."""
    parameters = {name: value for name, value in _NETWORK.items() if name not in url}
    connection = await psycopg.AsyncConnection.connect(
        url,
        autocommit=True,
        prepare_threshold=None,
        application_name="sendonce",
        client_encoding="UTF8",
        **parameters,  # type: ignore[arg-type]
    )
    try:
        # Said with every BEGIN, whatever the default is: who has waited for a lock must see what came before it.
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        return connection, await _begun(connection)
    except BaseException:
        await connection.close()
        raise


async def _begun(connection: Connection) -> Session:
    own = connection.info.backend_pid
    cursor = await connection.execute(_BEGIN_SESSION.format(own=own).encode())
    cursor.nextset()  # past the BEGIN
    [row] = await cursor.fetchall()
    return Session(*row[:4])


class OwnConnection:
    """One connection, opened when it is first used and again after it was lost. Calls queue up.

    One that `prepares` has the server keep its plans, where that is the server itself. One that `writes` never stays
    with a server that only reads, nor with a database that cannot keep every text.
    """

    def __init__(self, url: str, *, prepares: bool = False, writes: bool = False) -> None:
        self._url = url
        self._prepares = prepares
        self._writes = writes
        self._connection: Connection | None = None
        self._in_blocks = False
        self._uses, self._plans_last = 0, FIRST_REPLAN
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """The connection for one call. After an error that may have broken it, it is closed and opened anew."""
        async with self._lent() as connection, connection.transaction() if self._in_blocks else nullcontext():
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """The same inside a transaction."""
        async with self._lent() as connection, connection.transaction():
            yield connection

    async def open(self) -> None:
        """Have the connection open now."""
        async with self._lent():
            return

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Connection]:
        async with self._turn, translated(), asyncio.timeout(CALL_SECONDS):
            if self._connection is not None and _has_ended(self._connection):
                await self._drop()
            if self._connection is None:
                self._connection = await self._opened()
            try:
                if self._connection.prepare_threshold is not None:
                    await self._replan(self._connection)
                yield self._connection
            except (psycopg.OperationalError, psycopg.InterfaceError, OSError, TimeoutError, asyncio.CancelledError):
                await self._drop()
                raise
            except errors.ReadOnlySqlTransaction:  # another server may answer at this address in a moment
                await self._drop()
                raise
            except _UNPREPARED:
                self._prepares = False
                await self._drop()
                raise

    async def _replan(self, connection: Connection) -> None:
        self._uses += 1
        if self._uses > self._plans_last:
            self._uses, self._plans_last = 0, min(self._plans_last * REPLAN_TIMES, REPLAN_EVERY)
            await connection.execute("discard plans", prepare=False)

    async def _opened(self) -> Connection:
        connection, session = await opened(self._url)
        if self._writes and (session.is_read_only or session.encoding != ENCODING):
            await connection.close()
            raise _read_only() if session.is_read_only else wrong_encoding(session.encoding)
        if self._prepares and session.is_direct:
            connection.prepare_threshold = PREPARE_AFTER
            self._uses, self._plans_last = 0, FIRST_REPLAN
        # What a session is told to do by default is another's too behind a pooler, so that it is said with a BEGIN.
        self._in_blocks = not session.is_direct and session.isolation != _ISOLATION
        return connection

    async def fetch(self, name: str, values: Mapping[str, object]) -> list[Row]:
        """Run one query as a transaction of its own."""
        async with self.connection() as connection:
            return await fetch(connection, name, values)

    async def close(self) -> None:
        async with self._turn:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class Connections(Verbs):
    """The connections of one store, by what waits for what: claims, results and leases never wait for each other.

    `where` is the database's address, or one lane for everything. `writes`: see OwnConnection.
    """

    def __init__(self, where: str | OwnConnection, *, writes: bool = False) -> None:
        def lane(*, prepares: bool = False) -> OwnConnection:
            return where if isinstance(where, OwnConnection) else OwnConnection(where, prepares=prepares, writes=writes)

        self.claims = lane(prepares=True)
        self.results = lane(prepares=True)
        self.leases = lane()
        self.people = lane()
        self.upkeep = lane()

        self._lanes = {
            On.CLAIMS: self.claims,
            On.RESULTS: self.results,
            On.LEASES: self.leases,
            On.PEOPLE: self.people,
            On.READING: self.people,
            On.UPKEEP: self.upkeep,
        }

    async def carry_out(self, steps: Steps[T], on: On, *, is_atomic: bool, only_reads: bool = False) -> T:
        """See Verbs."""
        lane = self._lanes[on]
        async with lane.transaction() if is_atomic else lane.connection() as connection:
            if is_atomic and only_reads:
                await fetch(connection, "read_snapshot", {})
            return await carry_out(connection, steps)

    async def ready(self) -> None:
        """See LeaseStore."""
        for lane in (self.claims, self.results, self.leases):
            await lane.open()

    async def close(self) -> None:
        """Close every connection."""
        for lane in (self.claims, self.results, self.leases, self.people, self.upkeep):
            await lane.close()


async def fetch(connection: Connection, name: str, values: Mapping[str, object]) -> list[Row]:
    """Run a named query on this connection; its rows, if it has any."""
    cursor = await connection.execute(QUERIES[name], values)
    return await cursor.fetchall() if cursor.description is not None else []


async def carry_out(connection: Connection, steps: Steps[T]) -> T:
    """Carry out steps on this connection, in the transaction it may be in."""

    async def execute(query: Query) -> list[Any]:
        sql = QUERIES[query.name]
        if not sql:  # what only the other database has to do
            return []
        cursor = await connection.execute(sql, {name: _spelled(value) for name, value in query.values.items()})
        rows = await cursor.fetchall() if cursor.description is not None else []
        if query.record is dict:
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in rows]
        return rows if query.record is None else list(map(_reader(query.record), rows))

    return await arun(steps, execute)


def _spelled(value: object) -> object:
    """A value as psycopg takes it. What PostgreSQL cannot keep of a text is replaced, as on every database."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, list | tuple):
        return [storable(each) if isinstance(each, str) else each for each in value]
    return value


@cache
def _reader(kind: Callable[..., Any]) -> Callable[[Row], Any]:
    return reader(kind, {})


def _has_ended(connection: Connection) -> bool:
    """Nobody has asked the server anything, so what there is to read from it now is its farewell.

    Seen before a call is made, as one that fails is told as an outage although the server may be back long since.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _read_only() -> ServerReadOnly:
    return ServerReadOnly(f"PostgreSQL cannot answer now: {_READ_ONLY}")


def wrong_encoding(encoding: str) -> StoreError:
    """Why a database of this encoding is refused."""
    return StoreError(
        f"this database's encoding is {encoding}, which cannot keep every text; use one that was made with encoding"
        f" {ENCODING}: create database … encoding '{ENCODING}' template template0"
    )


def _words(error: psycopg.Error) -> str:
    return (error.diag.message_primary or type(error).__name__)[:200]


def cause_of(error: psycopg.Error) -> str:
    """What is known of a failure without what may be secret: connection errors name hosts and users, never values."""
    if error.sqlstate:
        return f"{type(error).__name__}, {error.sqlstate}"
    said = [line for line in str(error).splitlines() if line.strip() and not line.startswith("\t")]  # tabs: advice
    return (said or [type(error).__name__])[-1][:200]
