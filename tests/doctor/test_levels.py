"""From which number on something is said, and how gravely: healthy facts, each time a little different."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sendonce.admin import doctor
from sendonce.admin.doctor import Diagnosis, Level
from sendonce.store.examining import ExaminedPostgres, ExaminedSqlite, Holder, TableHealth, Work
from sendonce.store.records import InboxCounts, UnservedRow, WorkerRow
from sendonce.store.upkeep import Reached
from tests.doctor.conftest import LIMITS

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DUE = NOW - timedelta(seconds=30)
MEGABYTE = 2**20
WORKER = WorkerRow(
    id=1, name="one:1", version="1", concurrency=1, started_at=NOW, seen_at=NOW, progressed_at=None, stopped_at=None
)
WORK = Work(now=NOW)
POSTGRES = ExaminedPostgres(
    version=2, known_version=2, work=WORK, encoding="UTF8", synchronous_commit="on", has_fsync=True,
    has_full_page_writes=True, has_autovacuum=True, is_read_only=False, most_connections=97, used_connections=1,
    sees_everybody=True,
)  # fmt: skip
SQLITE = ExaminedSqlite(
    version=2, known_version=2, work=WORK, journal_mode="wal", size=MEGABYTE, wal_size=0, free_space=10**12,
    file_system="ext4", is_writable=True,
)  # fmt: skip

Said = tuple[str, Level] | None


def said(examined: ExaminedPostgres | ExaminedSqlite) -> list[Diagnosis]:
    """What is not well."""
    diagnosed = (
        doctor.diagnose_postgres(examined, LIMITS)
        if isinstance(examined, ExaminedPostgres)
        else doctor.diagnose_sqlite(examined, LIMITS)
    )
    return [each for each in diagnosed if each.level is not Level.OK]


def check(examined: ExaminedPostgres | ExaminedSqlite, wanted: Said) -> None:
    assert [(each.name, each.level) for each in said(examined)] == ([] if wanted is None else [wanted])


@pytest.mark.parametrize("healthy", [POSTGRES, SQLITE], ids=["postgres", "sqlite"])
@pytest.mark.parametrize(
    ("ahead", "level"),
    [
        (1.9, None),
        (-1.9, None),
        (2.0, Level.WARNING),
        (-2.0, Level.WARNING),
        (60.0, Level.PROBLEM),
        (-60.0, Level.PROBLEM),
    ],
)
def test_clock(healthy: ExaminedPostgres | ExaminedSqlite, ahead: float, level: Level | None) -> None:
    examined = replace(healthy, clock_ahead=ahead)

    check(examined, None if level is None else ("clock", level))
    assert all((" ahead of " if ahead > 0 else " behind ") in each.sentence for each in said(examined))


def reached(part: str = "payloads", *, begun: timedelta = timedelta(days=99), **age: int) -> dict[str, Any]:
    return {"retention": (Reached(part, NOW - begun, NOW - timedelta(**age)),)}


def late(seconds: int) -> InboxCounts:
    return InboxCounts(waiting=1, oldest_due_at=NOW - timedelta(seconds=seconds), late_consumer="wallet")


WORKS: dict[str, tuple[dict[str, Any], Said]] = {
    "due for long": ({"oldest_due_at": DUE}, ("workers", Level.PROBLEM)),
    "not due for long": ({"oldest_due_at": DUE + timedelta(seconds=1)}, None),
    "due for long, and a worker is alive": ({"oldest_due_at": DUE, "workers": (WORKER,)}, None),
    "due for long, and everything is stopped": ({"oldest_due_at": DUE, "is_stopped": True}, None),
    "one slow send of a hundred": ({"send_seconds": (*[1.0] * 99, 40.0)}, ("lease", Level.PROBLEM)),
    "one slow send of two hundred": ({"send_seconds": (*[1.0] * 199, 40.0)}, None),
    "half of the lease": ({"send_seconds": (15.0,)}, None),
    "more than half": ({"send_seconds": (15.1,)}, ("lease", Level.WARNING)),
    "all of the lease": ({"send_seconds": (30.0,)}, ("lease", Level.WARNING)),
    "more than that": ({"send_seconds": (30.1,)}, ("lease", Level.PROBLEM)),
    "a message due for long": ({"inbox": late(30)}, ("inbox", Level.PROBLEM)),
    "a message not due for long": ({"inbox": late(29)}, None),
    "retention, almost a day late": (reached(days=30, hours=23), None),
    "retention, a day late": (reached(days=31), ("retention", Level.WARNING)),
    "retention, in a pass of less than a day": (reached(days=99, begun=timedelta(hours=23)), None),
    "retention, in a pass of a day": (reached(days=99, begun=timedelta(days=1)), ("retention", Level.WARNING)),
    "retention, of what is kept for ever": (reached("history", days=99), None),
    "retention, with nothing to do": ({"retention": (Reached("payloads", NOW - timedelta(days=9), None),)}, None),
}


@pytest.mark.parametrize("healthy", [POSTGRES, SQLITE], ids=["postgres", "sqlite"])
@pytest.mark.parametrize("case", WORKS)
def test_doctor_reports_work_without_workers(healthy: ExaminedPostgres | ExaminedSqlite, case: str) -> None:
    changed, wanted = WORKS[case]

    check(replace(healthy, work=replace(WORK, **changed)), wanted)


def held(kind: str, seconds: float | None) -> dict[str, Any]:
    return {"holders": (Holder(kind, "7", 100, seconds),)}


def table(*, live: int = 0, dead: int = 0, size: int = 0, wanted: int = 0) -> dict[str, Any]:
    return {"tables": (TableHealth("sendonce_events", live, dead, size, wanted, True),)}


SERVERS: dict[str, tuple[dict[str, Any], Said]] = {
    "full_page_writes": ({"has_full_page_writes": False}, ("durability", Level.PROBLEM)),
    "local commits": ({"synchronous_commit": "local"}, ("commits", Level.PROBLEM)),
    "commits that wait for a standby": ({"synchronous_commit": "remote_apply"}, None),
    "autovacuum": ({"has_autovacuum": False}, ("autovacuum", Level.PROBLEM)),
    "a transaction of minutes": (held("transaction", 299), None),
    "a transaction of five": (held("transaction", 300), ("vacuum", Level.WARNING)),
    "a transaction of an hour": (held("transaction", 3600), ("vacuum", Level.PROBLEM)),
    "a prepared transaction of minutes": (held("prepared transaction", 299), None),
    "a prepared transaction of five": (held("prepared transaction", 300), ("vacuum", Level.PROBLEM)),
    "a replication slot in use": (held("replication slot", None), None),
    "a replication slot": (held("unused replication slot", None), ("vacuum", Level.PROBLEM)),
    "some dead rows": (table(live=10, dead=10_000), None),
    "dead rows": (table(live=10, dead=10_001), ("bloat", Level.WARNING)),
    "dead rows among many": (table(live=40_004, dead=10_001), None),
    "a small table": (table(size=64 * MEGABYTE, wanted=1), None),
    "a large table": (table(size=66 * MEGABYTE, wanted=22 * MEGABYTE), None),
    "an empty table": (table(size=67 * MEGABYTE, wanted=22 * MEGABYTE), ("bloat", Level.WARNING)),
    "connections for one more worker": ({"used_connections": 89}, None),
    "connections for none": ({"used_connections": 90}, ("connections", Level.WARNING)),
    "as many workers as fit": ({"work": replace(WORK, workers=(WORKER,) * 12)}, None),
    "more workers than fit": ({"work": replace(WORK, workers=(WORKER,) * 13)}, ("connections", Level.PROBLEM)),
}


@pytest.mark.parametrize("case", SERVERS)
def test_server(case: str) -> None:
    changed, wanted = SERVERS[case]

    check(replace(POSTGRES, **changed), wanted)


def test_role_that_does_not_see_all_sessions_is_told_so() -> None:
    for sees_everybody in (True, False):
        diagnosed = doctor.diagnose_postgres(replace(POSTGRES, sees_everybody=sees_everybody), LIMITS)

        [vacuum] = [each for each in diagnosed if each.name == "vacuum"]
        assert ("pg_read_all_stats" in vacuum.sentence) is not sees_everybody


FILES: dict[str, tuple[dict[str, Any], Said]] = {
    "a log as large as may be": ({"wal_size": 100 * MEGABYTE}, None),
    "a large log": ({"wal_size": 101 * MEGABYTE}, ("journal", Level.WARNING)),
    "a large log of a larger file": ({"wal_size": 101 * MEGABYTE, "size": 102 * MEGABYTE}, None),
    "a disk with room": ({"free_space": 1024 * MEGABYTE}, None),
    "a disk with little room": ({"free_space": 1024 * MEGABYTE - 1}, ("space", Level.WARNING)),
    "a full disk": ({"free_space": 100 * MEGABYTE - 1}, ("space", Level.PROBLEM)),
    "not writable": ({"is_writable": False}, ("file", Level.PROBLEM)),
    "one host": ({"work": replace(WORK, workers=(WORKER, replace(WORKER, name="one:2")))}, None),
    "two hosts": ({"work": replace(WORK, workers=(WORKER, replace(WORKER, name="two:1")))}, ("hosts", Level.PROBLEM)),
}


@pytest.mark.parametrize("case", FILES)
def test_file(case: str) -> None:
    changed, wanted = FILES[case]

    check(replace(SQLITE, **changed), wanted)


@pytest.mark.parametrize("healthy", [POSTGRES, SQLITE], ids=["postgres", "sqlite"])
def test_channel_that_no_live_worker_serves_is_reported(healthy: ExaminedPostgres | ExaminedSqlite) -> None:
    rows = tuple(UnservedRow(name=name, waiting=6, since=NOW) for name in ("sms", "https://runner.example/jobs/"))

    [found] = said(replace(healthy, work=replace(WORK, unserved=rows)))

    assert (found.name, found.level) == ("channels", Level.WARNING)
    assert "12 deliveries wait for sms: and https://runner.example/jobs/, which no live worker serves" in found.sentence
