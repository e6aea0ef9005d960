"""Examine a PostgreSQL: its settings, who holds vacuum back, its tables, the rights of its roles, and its schema."""

import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from sendonce.store.examining import EVERY_ROLE, ExaminedPostgres, Holder, MissingRight, TableHealth, work
from sendonce.store.migrations import available
from sendonce.store.postgres.connection import Connection, Connections, carry_out, connect, fetch, translated
from sendonce.store.postgres.grants import PREFIX, Right, rights
from sendonce.store.postgres.migrate import PACKAGE, version_on
from sendonce.store.rules import DISABLED, NOT_VALID, Broken, Rule, bare, broken_rules, rules_of
from sendonce.store.verifying import (
    SPANS_OF_TIME,
)


async def examine(url: str) -> ExaminedPostgres:
    """Everything of one moment, in a transaction that cannot write. Works on any schema, and on none."""
    async with translated():
        connection = await connect(url)
        try:
            async with connection.transaction():
                await fetch(connection, "read_snapshot", {})
                return await _examined(connection)
        finally:
            await connection.close()


async def _examined(connection: Connection) -> ExaminedPostgres:
    asked = time.time()
    settings = (await fetch(connection, "server_settings", {}))[0]
    answered = time.time()
    me = (await fetch(connection, "current_role", {}))[0][0]
    [(schema, strangers)] = await fetch(connection, "strangers", {}) or [("", None)]
    known = len(available(PACKAGE))
    version, missing = None, await _missing(connection, [Right(me, "select", "table", "sendonce_meta")])
    if not missing:
        version = await version_on(connection)
    broken = [] if version is None else await broken_on(connection)
    gone = tuple(each.name for each in broken if each.kind == "table")
    if version is not None and version >= known and not gone:
        looking = [Right(me, *right[1:]) for right in rights() if right.role == f"{PREFIX}reader"]
        missing = await _missing(connection, [*looking, *rights()])
    may_look = version is not None and version >= known and not gone and not any(each.role == me for each in missing)
    return ExaminedPostgres(
        version=version,
        known_version=known,
        clock_ahead=clock_ahead(settings[8], asked, answered),
        missing_tables=gone,
        work=await carry_out(connection, work(broken)) if may_look else None,
        encoding=settings[9],
        synchronous_commit=settings[0],
        has_fsync=settings[1],
        has_full_page_writes=settings[2],
        has_autovacuum=settings[3],
        is_read_only=settings[4],
        most_connections=settings[5],
        used_connections=settings[6],
        sees_everybody=settings[7],
        careless=tuple(row[0] for row in await fetch(connection, "careless_defaults", {"every": EVERY_ROLE})),
        holders=tuple(Holder(*row) for row in await fetch(connection, "vacuum_holders", {})),
        tables=tuple(TableHealth(*row) for row in await fetch(connection, "table_health", {})),
        missing_rights=missing,
        schema=schema,
        strangers=tuple(strangers or ()),
    )


def clock_ahead(theirs: datetime, asked: float, answered: float) -> float:
    """By how much their clock is surely ahead of ours: it was read between two looks at ours."""
    moment = theirs.timestamp()
    return min(0.0, moment - asked) or max(0.0, moment - answered)


async def _missing(connection: Connection, wanted: Sequence[Right]) -> tuple[MissingRight, ...]:
    """Which of these rights a role does not have, of the roles that are there."""
    names = ("roles", "privileges", "kinds", "objects", "columns")
    values = {name: [right[place] for right in wanted] for place, name in enumerate(names)}
    return tuple(MissingRight(*row) for row in await fetch(connection, "missing_rights", values))


_TIMES = {name: span.total_seconds() for name, span in SPANS_OF_TIME.items()}


class Verifying(Connections):
    """See VerifyStore."""

    async def broken_rules(self) -> list[Broken]:
        async with self._snapshot() as connection:
            return await broken_on(connection)

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[Connection]:
        async with self.people.transaction() as connection:
            await fetch(connection, "read_snapshot", {})
            yield connection


async def broken_on(connection: Connection) -> list[Broken]:
    """What of the schema is not as the migrations made it."""
    expected = rules_of(available(PACKAGE), await version_on(connection))
    rows = await fetch(connection, "found_rules", {"disabled": DISABLED, "not_valid": NOT_VALID})
    return broken_rules(expected, [Rule(*row) for row in rows], reading)


_HEAD = re.compile(
    r'create trigger \w+ (\w+) (\w+) on (?:(?:"(?:[^"]|"")+"|\w+)\.)?(\w+)( referencing .*?)? for each (\w+)(.*)'
    r' execute (?:function|procedure) (?:(?:"(?:[^"]|"")+"|\w+)\.)?(\w+)\('
)
_BINARY = re.compile(r"'[^']*'::bytea")
_ROWS = re.compile(r"row\(([^()]*)\) is (not )?distinct from row\(([^()]*)\)")
_TOKEN = re.compile(r"\b(?:new|old)\.\w+|'[^']*'|\b(?:and|or|true|false|null)\b|<>|<=|>=|<|>|=|(?<![\w.'])\d+\b")


def reading(rule: Rule) -> object:
    match rule.kind:
        case "trigger":
            return _trigger(rule.text)
        case "function":
            return bare(rule.text)
    return None


def _trigger(text: str) -> object:
    head = _HEAD.match(" ".join(text.lower().split()))
    if head is None:
        return text
    condition = _BINARY.sub("", head[6])
    condition = _ROWS.sub(_each_column, condition)
    condition = re.sub(r"\bnot in\b", "<>", condition)
    condition = re.sub(r"\bin\b", "=", condition)
    return (*head.group(1, 2, 3, 4, 5, 7), _TOKEN.findall(condition), len(re.findall(r"\bnot\b", condition)))


def _each_column(rows: re.Match[str]) -> str:
    """PostgreSQL keeps a comparison of two rows as one of each column."""
    pairs = zip(rows[1].split(","), rows[3].split(","), strict=True)
    return (rows[2] or "") + " or ".join(f"{left} is distinct from {right}" for left, right in pairs)
