"""What can be wrong wherever it is kept: each is really made wrong, and said once."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from sendonce.admin.doctor import Level, Limits
from sendonce.domain.outcomes import Delivered
from sendonce.store import examining
from sendonce.store.postgres.doctor import clock_ahead
from tests.doctor.conftest import examined
from tests.given import given_due_delivery, given_event, given_lease, settle_with
from tests.store.aging import backdate, begun_earlier, without_rules
from tests.store.databases import Database, PostgresDatabase


def hours(database: Database) -> str:
    return "interval '1 hour'" if isinstance(database, PostgresDatabase) else "3600000000"


async def sent(database: Database, *, seconds: int) -> None:
    """One more delivery, whose attempt took so long."""
    store = await database.open()
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), Delivered())
    await database.close()
    span = f"interval '{seconds} s'" if isinstance(database, PostgresDatabase) else str(seconds * 1_000_000)
    with without_rules(database) as connection:
        connection.execute(
            f"update sendonce_attempts set created_at = finished_at - {span}"
            " where delivery_id = (select max(id) from sendonce_deliveries)"
        )


def test_doctor_says_nothing_else_of_a_healthy_database(database: Database) -> None:
    assert examined(database) == {}


@pytest.mark.parametrize(("version", "level"), [("1", Level.PROBLEM), ("5", Level.WARNING), ("9", Level.PROBLEM)])
def test_schema_that_is_not_this_programs_is_said(database: Database, version: str, level: Level) -> None:
    database.execute("update sendonce_meta set value = ? where name = 'schema_version'", version)

    assert {name: each.level for name, each in examined(database).items()} == {"schema": level}


def test_index_and_trigger_that_are_missing_are_named(database: Database) -> None:
    on_table = " on sendonce_events" if isinstance(database, PostgresDatabase) else ""
    database.execute("drop index sendonce_deliveries_due")
    database.execute(f"drop trigger events_are_immutable{on_table}")

    found = examined(database)["rules"]

    assert found.level is Level.PROBLEM
    assert found.sentence == (
        "index sendonce_deliveries_due on sendonce_deliveries is missing and"
        " trigger events_are_immutable on sendonce_events is missing"
    )
    assert found.to_do.startswith("run its `create index sendonce_deliveries_due` as `sendonce migrate --sql` has it; ")


def test_table_that_is_missing_is_named(database: Database) -> None:
    database.execute("drop table sendonce_corrections")

    found = examined(database)["schema"]

    assert (found.level, found.sentence) == (Level.PROBLEM, "table sendonce_corrections is missing")
    assert found.to_do == "restore it from a backup"


def test_backfill_that_is_not_finished_is_reported(database: Database) -> None:
    database.execute("update sendonce_meta set value = '4000/120000' where name = 'backfill:0002_routed'")

    found = examined(database)["back-fill"]

    assert found.level is Level.WARNING
    assert "0002_routed has come to 4,000 of 120,000" in found.sentence


def test_due_work_without_a_live_worker_is_reported(database: Database) -> None:
    given_due_delivery(database)
    database.execute(f"update sendonce_deliveries set next_attempt_at = next_attempt_at - {hours(database)}")

    found = examined(database)["workers"]

    assert found.level is Level.PROBLEM
    assert "no worker is alive, and work has been due for 1h" in found.sentence


async def test_worker_that_was_not_seen_for_long_is_not_alive(database: Database) -> None:
    given_due_delivery(database)
    store = await database.open()
    await store.register("one:1", "1", 1)
    await database.close()
    database.execute(f"update sendonce_deliveries set next_attempt_at = next_attempt_at - {hours(database)}")
    database.execute(f"update sendonce_workers set seen_at = seen_at - {hours(database)}")

    found = await asyncio.to_thread(examined, database)

    assert found["workers"].level is Level.PROBLEM


async def test_due_work_that_a_worker_will_do_or_that_is_stopped_is_not_reported(database: Database) -> None:
    given_due_delivery(database)
    store = await database.open()
    await store.register("one:1", "1", 1)
    database.execute(f"update sendonce_deliveries set next_attempt_at = next_attempt_at - {hours(database)}")

    with_a_worker = await asyncio.to_thread(examined, database)
    database.execute("update sendonce_workers set stopped_at = seen_at")
    await store.stop("all", "", operator="ada", reason=None)
    stopped = await asyncio.to_thread(examined, database)

    await database.close()
    assert (with_a_worker, stopped) == ({}, {})


def test_retention_that_is_behind_is_said(database: Database) -> None:
    given_event(database)
    begun_earlier(database, timedelta(days=40))
    backdate(database, timedelta(days=32))

    found = examined(database)["retention"]

    assert found.level is Level.WARNING
    assert found.sentence == (
        "retention is behind: payloads should go after 30d, and some may have been due for that for 2d"
    )
    assert [each.verb for each in found.advice] == ["prune"]


def test_scheduled_work_is_not_reported(database: Database) -> None:
    given_due_delivery(database)
    database.execute(f"update sendonce_deliveries set next_attempt_at = next_attempt_at + {hours(database)}")

    assert examined(database) == {}


@pytest.mark.parametrize(("lease", "level"), [(30, None), (15, Level.WARNING), (5, Level.PROBLEM)])
async def test_lease_that_is_short_for_what_sends_take_is_said(
    database: Database, lease: int, level: Level | None
) -> None:
    await sent(database, seconds=10)
    limits = Limits(lease=timedelta(seconds=lease), timeout=timedelta(seconds=1))

    found = await asyncio.to_thread(examined, database, limits)

    assert (found["lease"].level if found else None) == level


@pytest.mark.parametrize(("seconds", "level"), [((10, 1), None), ((1, 10), Level.WARNING)])
async def test_newest_sends_say_what_sends_take(
    database: Database, monkeypatch: pytest.MonkeyPatch, seconds: tuple[int, ...], level: Level | None
) -> None:
    monkeypatch.setattr(examining, "SAMPLE", 1)
    for each in seconds:
        await sent(database, seconds=each)
    limits = Limits(lease=timedelta(seconds=15), timeout=timedelta(seconds=1))

    found = await asyncio.to_thread(examined, database, limits)

    assert (found["lease"].level if found else None) == level


async def test_leases_that_ran_out_are_said(database: Database) -> None:
    await sent(database, seconds=1)
    with without_rules(database) as connection:
        connection.execute("update sendonce_attempts set outcome = 'Unknown', error_code = 'lease_expired'")

    assert "1 lease ran out" in (await asyncio.to_thread(examined, database))["lease"].sentence


def test_clock_is_ahead_or_behind_by_what_cannot_be_the_way_there() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    now = noon.timestamp()

    assert clock_ahead(noon, now - 1, now + 1) == 0
    assert clock_ahead(noon, now - 9, now - 8) == 8
    assert clock_ahead(noon, now + 5, now + 6) == -5
