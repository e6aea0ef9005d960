"""A value that SQLite cannot keep costs its own texts, and nothing else of the batch."""

import pytest

from sendonce.domain.attempts import Verdict
from sendonce.domain.outcomes import Delivered, Failed
from sendonce.store.sqlite import settle
from sendonce.store.sqlite.store import SqliteStore
from tests.given import given_due_deliveries, given_lease, result
from tests.store.databases import SqliteDatabase


@pytest.fixture
def unclean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts go to the database as they came."""
    monkeypatch.setattr(settle, "clean", lambda text, limit: text)


@pytest.mark.usefixtures("unclean")
@pytest.mark.parametrize("bad", ["half \ud800 a character", {"not": "text"}])
async def test_text_that_cannot_be_kept_is_dropped_alone(
    database: SqliteDatabase, store: SqliteStore, bad: str
) -> None:
    ids = given_due_deliveries(database, 20)
    lease = await given_lease(store, limit=20)
    results = [result(lease, Delivered(f"n-{place}"), of=place) for place in range(20)]
    results[7] = result(lease, Failed("503", bad), of=7)
    results[8] = result(lease, Delivered(bad), of=8)

    verdicts = await store.settle(results)

    assert verdicts == [Verdict.APPLIED] * 20
    [failed] = await store.attempts_of(ids[7])
    [delivered] = await store.attempts_of(ids[8])
    assert (failed.outcome, failed.error_code, failed.error_message) == ("Failed", "unreadable", None)
    assert (delivered.outcome, delivered.error_code, delivered.notification_id) == ("Delivered", None, None)
    kept = database.execute("select notification_id from sendonce_deliveries where status = 'Completed' order by id")
    assert kept == [(None,) if place == 8 else (f"n-{place}",) for place in range(20) if place != 7]


@pytest.mark.parametrize("other", [-1, 1000])
async def test_results_of_one_attempt_under_two_leases_are_told_apart(
    database: SqliteDatabase, store: SqliteStore, other: int
) -> None:
    given_due_deliveries(database, 1)
    lease = await given_lease(store)
    stranger = lease._replace(id=lease.id + other)

    alone = await store.settle([result(stranger, Failed("503"))])
    untouched = database.execute("select status from sendonce_attempts")
    both = await store.settle([result(stranger, Failed("503")), result(lease, Delivered("n"))])

    assert (alone, untouched) == ([Verdict.LATE], [("Leased",)])
    assert both == [Verdict.LATE, Verdict.APPLIED]
    assert database.execute("select status, notification_id from sendonce_deliveries") == [("Completed", "n")]


async def test_texts_of_operators_and_workers_are_cleaned(database: SqliteDatabase, store: SqliteStore) -> None:
    worker_id = await store.register("host \udcff", "1", 10)
    await store.stop("all", "", operator="ada \udcff", reason="why\0not")

    [worker] = (await store.status()).workers
    [stop] = (await store.status()).stops
    assert (worker.id, worker.name) == (worker_id, "host ?")
    assert (stop.operator, stop.reason) == ("ada ?", "why\N{REPLACEMENT CHARACTER}not")
