"""While a backlog is worked off, claims begin where the last one ended; what comes in behind that is found too."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from sendonce.store.postgres import claims
from sendonce.store.postgres.store import PostgresStore
from tests.given import HOLD, WORKER, given_due_deliveries, given_due_delivery, later
from tests.store.databases import Database


class Clock:
    """The machine's own clock, which stands still but for what a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(claims, "time", SimpleNamespace(monotonic=lambda: self.now))


async def claimed(store: PostgresStore, limit: int) -> list[int]:
    lease = (await store.start(WORKER, limit, HOLD)).lease
    return [] if lease is None else sorted(claim.delivery_id for claim in lease.claims)


async def test_event_committed_behind_the_mark_is_found_by_the_next_full_look(
    database: Database, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    backlog = given_due_deliveries(database, 4)
    assert await claimed(store, 2) == backlog[:2]
    early = given_due_delivery(database, deliver_at=later(database, -timedelta(hours=1)))

    clock.now += claims.FULL_SCAN_SECONDS / 2
    before = await claimed(store, 1)
    clock.now += claims.FULL_SCAN_SECONDS / 2
    at = await claimed(store, 1)

    assert (before, at) == ([backlog[2]], [early])


async def test_claim_that_was_not_filled_ends_the_mark(
    database: Database, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch)
    backlog = given_due_deliveries(database, 3)
    assert await claimed(store, 2) == backlog[:2]
    assert await claimed(store, 2) == backlog[2:]
    early = given_due_delivery(database, deliver_at=later(database, -timedelta(hours=1)))

    assert await claimed(store, 2) == [early]


async def test_workers_with_their_own_marks_claim_everything_once(
    database: Database, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    other = await PostgresStore.connect(database.url)  # type: ignore[attr-defined]
    wanted = given_due_deliveries(database, 9)

    found: list[int] = []
    for turn in range(12):
        found += await claimed((store, other)[turn % 2], 2)
        clock.now += claims.FULL_SCAN_SECONDS / 3
    await other.close()

    assert sorted(found) == wanted
