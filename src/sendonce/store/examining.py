"""What an examination of a database finds out: facts only, and no word about whether they are good."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sendonce.sql.steps import Steps, records, rows
from sendonce.store.alerts import unserved
from sendonce.store.inbox import inbox_counts
from sendonce.store.migrations import Backfill
from sendonce.store.records import InboxCounts, UnservedRow, WorkerRow
from sendonce.store.rules import Broken
from sendonce.store.upkeep import Reached
from sendonce.store.verifying import LAST_ID
from sendonce.store.workers import live_workers

# So many of the newest attempts say how long sends take.
SAMPLE = 2_000
# Where a setting is not that of one role.
EVERY_ROLE = "every role"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the tables say of the work. `send_seconds`: of the newest attempts, without those whose lease ran out."""

    workers: tuple[WorkerRow, ...] = ()
    now: datetime
    oldest_due_at: datetime | None = None
    is_stopped: bool = False
    send_seconds: tuple[float, ...] = ()
    expired_leases: int = 0
    backfills: tuple[Backfill, ...] = ()
    broken_rules: tuple[Broken, ...] = ()
    unserved: tuple[UnservedRow, ...] = ()
    retention: tuple[Reached, ...] = ()
    inbox: InboxCounts = field(default=InboxCounts())


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Of every database. `clock_ahead`: by so many seconds its clock is ahead of ours, at least; negative when behind.

    `work` is None where tables are missing or may not be read; so is `version` where that may not be read.
    """

    version: int | None
    known_version: int
    clock_ahead: float = 0.0
    missing_tables: tuple[str, ...] = ()
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """What keeps vacuum back: a transaction by its pid, or a prepared one or a replication slot by its name."""

    kind: str
    name: str
    age: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class TableHealth:
    name: str
    live: int
    dead: int
    size: int
    wanted_size: int
    is_vacuumed: bool


@dataclass(frozen=True, slots=True)
class MissingRight:
    role: str
    privilege: str
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedPostgres(Examined):
    """`strangers`: who may create things in our schema and owns none of our tables; `public` is everybody."""

    encoding: str
    synchronous_commit: str
    has_fsync: bool
    has_full_page_writes: bool
    has_autovacuum: bool
    is_read_only: bool
    most_connections: int
    used_connections: int
    sees_everybody: bool
    careless: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()
    tables: tuple[TableHealth, ...] = ()
    missing_rights: tuple[MissingRight, ...] = field(default=())
    schema: str = ""
    strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedSqlite(Examined):
    """`damage`: what the quick check said; `was_checked` is False when it took too long."""

    journal_mode: str
    size: int
    wal_size: int
    free_space: int
    file_system: str
    is_writable: bool
    is_open_to_all: bool = False
    damage: tuple[str, ...] = ()
    was_checked: bool = True
    broken_references: int = 0


class _Due(NamedTuple):
    oldest_at: datetime | None
    now: datetime
    is_stopped: bool


def work(broken: Sequence[Broken]) -> Steps[Work]:
    """What the tables say of the work, where all of these that it needs are there."""
    [due] = yield from records(_Due, "oldest_due")
    attempts = yield from rows("send_times", before=LAST_ID, limit=SAMPLE)
    return Work(
        workers=tuple((yield from live_workers())),
        now=due.now,
        oldest_due_at=due.oldest_at,
        is_stopped=due.is_stopped,
        send_seconds=tuple(seconds for seconds, has_expired in attempts if not has_expired),
        expired_leases=sum(1 for _, has_expired in attempts if has_expired),
        backfills=tuple(Backfill.read(*row) for row in (yield from rows("backfills"))),
        broken_rules=tuple(broken),
        unserved=(yield from unserved()),
        retention=tuple((yield from records(Reached, "retention_reached"))),
        inbox=(yield from inbox_counts()),
    )
