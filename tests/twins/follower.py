"""A PostgreSQL store that is asked what a SQLite store was asked, at the same moments: whatever differs is an error."""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeAlias
from uuid import UUID

import psycopg
from psycopg import sql

from sendonce.errors import NotAllowed
from sendonce.store.ports import Started
from sendonce.store.postgres.claims import PARK_LIMIT
from sendonce.store.postgres.connection import OwnConnection
from sendonce.store.postgres.migrate import migrate
from sendonce.store.postgres.store import PostgresStore
from sendonce.store.sqlite.connection import moment, stamp
from tests.simulation.database import NAMESPACE
from tests.twins.calls import TRANSACT, Call

Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Row]]

# A function in SQL is read before it runs: what the server itself takes for now() is not asked any more.
_CLOCKS = ("now", "clock_timestamp")
_CLOCK = """
create or replace function pg_catalog.{}() returns timestamptz language sql stable parallel safe
as $$ select pg_catalog.current_setting('twins.now')::pg_catalog.timestamptz $$
"""
_SEQUENCES = """
select table_name, pg_get_serial_sequence(table_name, column_name) from information_schema.columns
 where table_name like 'sendonce%' and is_identity = 'YES' and table_name <> 'sendonce_counters'
"""
_TABLES = "select tablename from pg_tables where tablename like 'sendonce%' order by 1"
_SQLITE_TABLES = "select name from sqlite_master where type = 'table' and name like 'sendonce%' order by 1"
# What is there from the beginning.
_FILLED = ("sendonce_meta", "sendonce_retention")
_BEGIN_AGAIN = (
    "delete from sendonce_meta",
    "insert into sendonce_meta select * from twins_meta",
    f"update sendonce_meta set value = '{NAMESPACE}' where name = 'namespace'",
    "update sendonce_retention set held_by = null, last_id = 0, due_at = to_timestamp(0), whole_at = to_timestamp(0)",
)
# The moment of a call, and what was given out so far: a call that failed leaves a gap here, and none on SQLite.
_BEGIN = """
select set_config('twins.now', %(now)s, false),
       (select count(setval(s.name::regclass, greatest(s.last, 1), s.last > 0))
          from unnest(%(sequences)s::text[], %(last_ids)s::bigint[]) as s(name, last))
"""
_RENAME = """
with l as (update sendonce_leases set id = %(theirs)s where id = %(ours)s)
update sendonce_attempts set lease_id = %(theirs)s where delivery_id = any(%(ids)s) and lease_id = %(ours)s
"""


# What only a database with a server can answer.
_OF_SERVERS = ("server",)


class Difference(AssertionError):
    """The two databases do not say the same."""


class _Unhurried(PostgresStore):
    """Looks at all there is with every claim, as SQLite does; how far it looks at once is a matter of speed."""

    def _look_from(self) -> None:
        return None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, PARK_LIMIT if name == "_parking" else value)


def prepare(url: str, now: int) -> None:
    """Make the tables in an empty database, and a clock that can be moved; it stands at this moment."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set allow_system_table_mods = on")
        for clock in _CLOCKS:
            connection.execute(sql.SQL(_CLOCK).format(sql.Identifier(clock)))
        here, begun = sql.Identifier(connection.info.dbname), sql.Literal(moment(now).isoformat())
        connection.execute(sql.SQL("alter database {} set twins.now = {}").format(here, begun))
    asyncio.run(migrate(url))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table twins_meta as table sendonce_meta")
        for (table,) in connection.execute(_TABLES).fetchall():
            # What the planner knows of them stays the same, and so do its plans.
            connection.execute(sql.SQL("alter table {} set (autovacuum_enabled = off)").format(sql.Identifier(table)))


class Follower:
    """Such a database, emptied. It goes by what it is told."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._lane = OwnConnection(url, prepares=True)
        self._store = _Unhurried(self._lane)
        self._own = psycopg.connect(url, autocommit=True)
        self._sequences: dict[str, str] = dict(self._own.execute(_SEQUENCES).fetchall())
        self._last_ids: Mapping[str, int] = {}

    def close(self) -> None:
        self._runner.run(self._store.close())
        self._runner.close()
        self._own.close()

    def follow(self, call: Call) -> None:
        """Ask the same, and compare the answers."""
        if call.name in _OF_SERVERS:
            return
        begin = {
            "now": moment(call.now).isoformat(),
            "sequences": list(self._sequences.values()),
            "last_ids": [self._last_ids.get(table, 0) for table in self._sequences],
        }
        self._last_ids = call.last_ids
        answer, error = None, None
        try:
            answer = self._transact(call, begin) if call.name == TRANSACT else self._ask(call, begin)
        except Difference:
            raise
        except Exception as raised:
            error = raised
        if _words(error) != _words(call.error):
            said = f"SQLite: {call.error or call.answer!r}\n  PostgreSQL: {error or answer!r}"
            raise Difference(f"{call}\n  {said}") from error
        if isinstance(answer, Started):
            answer = self._with_their_lease(answer, call.answer)
        _compare(str(call), _in_order(call.answer), _in_order(answer))

    def compare(self, tables: Tables) -> None:
        """Every row of every table."""
        for table, wanted in tables.items():
            cursor = self._own.execute(sql.SQL("select * from {}").format(sql.Identifier(table)))
            names = [column.name for column in cursor.description or ()]
            found = [dict(zip(names, map(_plain, row), strict=True)) for row in cursor.fetchall()]
            _compare(table, _known(table, wanted), _known(table, found))

    def _ask(self, call: Call, begin: Mapping[str, object]) -> Any:
        said = iter(call.overheard)

        def ask(question: Any) -> Any:
            heard, answer = next(said, (None, None))
            _compare(f"what is asked by {call}", heard, question)
            return answer

        async def work() -> Any:
            async with self._lane.connection() as connection:
                await connection.execute(_BEGIN, begin)
            args = [ask if callable(each) else each for each in call.args]
            kwargs = {name: ask if callable(each) else each for name, each in call.kwargs.items()}
            return await getattr(self._store, call.name)(*args, **kwargs)

        return self._runner.run(work())

    def _transact(self, call: Call, begin: Mapping[str, object]) -> Any:
        self._own.execute(_BEGIN, begin)
        with self._own.transaction():
            return call.args[0](self._own)

    def _with_their_lease(self, ours: Started, theirs: Started) -> Started:
        """A lease's id is nobody's but the database's that gave it: from here on it has the other one's here too."""
        if ours.lease is None or theirs.lease is None:
            return ours
        ids = [claim.delivery_id for claim in ours.lease.claims]
        with self._own.transaction():
            self._own.execute("set local session_replication_role = replica")
            self._own.execute(_RENAME, {"ours": ours.lease.id, "theirs": theirs.lease.id, "ids": ids})
        return Started(ours.lease._replace(id=theirs.lease.id), ours.parked)

    def empty(self) -> None:
        """Begin again from nothing."""
        self._last_ids = {}
        with self._own.transaction():
            tables = [name for (name,) in self._own.execute(_TABLES).fetchall()]
            filled = [name for name in tables if name not in _FILLED]
            self._own.execute(
                sql.SQL("truncate {} restart identity").format(sql.SQL(", ").join(map(sql.Identifier, filled)))
            )
            for each in _BEGIN_AGAIN:
                self._own.execute(each)


def _in_order(answer: Any) -> Any:
    """What is claimed is sent at once, all of it: nobody promises which of one lease is named first."""
    if not isinstance(answer, Started) or answer.lease is None:
        return answer
    return replace(answer, lease=answer.lease._replace(claims=tuple(sorted(answer.lease.claims))))


def tables_of(connection: sqlite3.Connection) -> dict[str, list[Row]]:
    """Every row of every table of a SQLite database."""
    found = {}
    for (table,) in connection.execute(_SQLITE_TABLES).fetchall():
        cursor = connection.execute(f"select * from {table}")
        names = [column[0] for column in cursor.description]
        found[table] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return found


def _known(table: str, rows: Sequence[Row]) -> list[Row]:
    """What must be the same of these rows. Of counters the sums: which row comes first is nobody's concern."""
    if table == "sendonce_leases":
        rows = [{**row, "deliveries": sorted(json.loads(row["deliveries"]))} for row in rows]
    if table != "sendonce_counters":
        return sorted(rows, key=lambda row: (row.get("id", 0), repr(sorted(row.items(), key=itemgetter(0)))))
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row["name"]] += row["amount"]
    return [dict(sums)]


def _plain(value: Any) -> Any:
    """A value as SQLite keeps it."""
    match value:
        case datetime():
            return stamp(value)
        case UUID():
            return value.bytes
        case bool():
            return int(value)
        case list():
            return json.dumps(value)
    return value


def _words(error: Exception | None) -> object:
    """What an error says; of one that a rule of the database's own has caused, that it is one."""
    if isinstance(error, NotAllowed) and "the database refused it" in str(error):
        return "refused"
    return error and (type(error), str(error))


def _compare(what: str, wanted: Any, found: Any) -> None:
    if wanted != found:
        raise Difference("\n".join([what, *_differences("", wanted, found)]))


def _differences(where: str, wanted: Any, found: Any) -> Iterator[str]:
    """One line for each value that is not the same, with the way to it."""
    parts = _parts(wanted), _parts(found)
    if type(wanted) is not type(found) or not parts[0] or parts[0].keys() != parts[1].keys():
        lengths = f" ({len(parts[0])} and {len(parts[1])})" if parts[0] or parts[1] else ""
        yield f"  {where or 'answer'}{lengths}: SQLite {wanted!r}, PostgreSQL {found!r}"
        return
    for name, value in parts[0].items():
        if value != parts[1][name]:
            yield from _differences(f"{where}.{name}", value, parts[1][name])


def _parts(value: Any) -> dict[Any, Any]:
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    return dict(value) if isinstance(value, dict) else {}
