"""Examine a SQLite file: its journal, its health, the disk it is on, who works on it, and its schema."""

import asyncio
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sendonce.sql.steps import rows
from sendonce.store.examining import ExaminedSqlite, Work, work
from sendonce.store.migrations import available
from sendonce.store.rules import Broken, Rule, bare, broken_rules, rules_of
from sendonce.store.sqlite.connection import (
    PACKAGE,
    OwnConnection,
    Transaction,
    microseconds,
    open_file,
    parse_url,
    system_clock,
    translated,
)
from sendonce.store.sqlite.migrate import version_on
from sendonce.store.verifying import (
    LAST_ID,
    SPANS_OF_TIME,
)

# A large file is looked at for so long and no longer.
QUICK_CHECK_SECONDS = 10.0
_MOUNTS = Path("/proc/mounts")
_LOOK_EVERY = 10_000
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

Seen = TypeVar("Seen")
Other = TypeVar("Other")


async def examine(url: str, *, check_seconds: float = QUICK_CHECK_SECONDS) -> ExaminedSqlite:
    """On a connection that cannot write. Works on any schema, and on none."""
    return await asyncio.to_thread(_examine, parse_url(url), check_seconds)


def _examine(path: str, check_seconds: float) -> ExaminedSqlite:
    known, folder, wal = len(available(PACKAGE)), Path(path).resolve().parent, Path(f"{path}-wal")
    with translated(), closing(_opened(path)) as connection:
        look = _Look(connection)
        was_checked = look.at(lambda one: _quick_check(look, one, check_seconds), True)
        version = look.at(version_on, None)
        broken = look.at(lambda one: broken_on(Transaction(one, 0)), []) if version else []
        gone = tuple(each.name for each in broken if each.kind == "table")
        may_look = version is not None and version >= known and not gone
        return ExaminedSqlite(
            version=version,
            known_version=known,
            clock_ahead=look.at(_clock_ahead, 0.0) if may_look else 0.0,
            missing_tables=gone,
            work=look.at(lambda one: _work(one, broken), None) if may_look else None,
            journal_mode=look.at(lambda one: str(_one(one, "pragma journal_mode")), "unknown"),
            size=os.path.getsize(path),
            wal_size=wal.stat().st_size if wal.exists() else 0,
            free_space=shutil.disk_usage(folder).free,
            file_system=_file_system(Path(path).resolve()),
            is_writable=os.access(path, os.W_OK) and os.access(folder, os.W_OK),
            is_open_to_all=any(_is_open_to_all(Path(f"{path}{end}")) for end in ("", "-wal", "-shm")),
            was_checked=was_checked,
            broken_references=look.at(_broken_references, 0),
            damage=tuple(dict.fromkeys(look.damage)),
        )


def _opened(path: str) -> sqlite3.Connection:
    """On a file that is too damaged for our settings too."""
    try:
        return open_file(path, read_only=True)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in _DAMAGE:
            raise
        return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)


class _Look:
    """Looks at one thing after the other; what is damaged keeps nobody from looking at the rest."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.damage: list[str] = []

    def at(self, thing: Callable[[sqlite3.Connection], Seen], otherwise: Other) -> Seen | Other:
        """What is seen of it, or `otherwise` where the file is too damaged for that."""
        try:
            return thing(self._connection)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _DAMAGE:
                raise
            # Words of SQLite's own, without a value.
            self.damage.append(str(error))
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            return otherwise


def _broken_references(connection: sqlite3.Connection) -> int:
    return len(connection.execute("pragma foreign_key_check").fetchmany(1000))


def _one(connection: sqlite3.Connection, pragma: str) -> Any:
    return connection.execute(pragma).fetchone()[0]


def _quick_check(look: _Look, connection: sqlite3.Connection, seconds: float) -> bool:
    """Adds what is damaged; whether there was time to look at all of it."""
    give_up_at = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > give_up_at, _LOOK_EVERY)
    try:
        rows = connection.execute("pragma quick_check(5)").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return False
    finally:
        connection.set_progress_handler(None, 0)
    look.damage += [row[0] for row in rows if row[0] != "ok"]
    return True


def _is_open_to_all(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))


def _file_system(path: Path) -> str:
    """The kind of file system that the file is on, where the system says it; else nothing."""
    if not _MOUNTS.exists():
        return ""
    mounts = [line.split()[1:3] for line in _MOUNTS.read_text("utf-8", "replace").splitlines() if len(line.split()) > 2]
    over = [(len(place), kind) for place, kind in mounts if path.is_relative_to(place.replace("\\040", " "))]
    return max(over)[1] if over else ""


def _clock_ahead(connection: sqlite3.Connection) -> float:
    """By how much the clock that the newest rows were written by is ahead of ours."""
    newest: int = Transaction(connection, 0).carry_out(rows("newest_time", before=LAST_ID))[0][0]
    return max(0.0, (newest - system_clock()) / 1e6)


def _work(connection: sqlite3.Connection, broken: Sequence[Broken]) -> Work:
    connection.execute("begin")
    found = Transaction(connection, system_clock()).carry_out(work(broken))
    connection.execute("commit")
    return found


_TIMES = {name: microseconds(span) for name, span in SPANS_OF_TIME.items()}


class Verifying:
    """See VerifyStore."""

    _reader: OwnConnection

    async def broken_rules(self) -> list[Broken]:
        return await self._reader.run(broken_on)


def broken_on(transaction: Transaction) -> list[Broken]:
    """What of the schema is not as the migrations made it."""
    expected = rules_of(available(PACKAGE), version_on(transaction.connection))
    # A constraint cannot be taken from a table, and none of them has a row of its own here.
    wanted = {key: rule for key, rule in expected.items() if rule.kind != "constraint"}
    return broken_rules(wanted, [Rule(*row) for row in transaction.carry_out(rows("found_rules"))], _reading)


def _reading(rule: Rule) -> object:
    return None if rule.kind == "table" else bare(rule.text)
