"""The whole way of a delivery on every PostgreSQL we name."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest
import pytest_asyncio

from sendonce.domain.attempts import Verdict
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused
from sendonce.store.filters import Filter
from sendonce.store.migrations import available
from sendonce.store.postgres import migrate as postgres_migrate
from tests.given import HOLD, WORKER, expire, given_due_deliveries, given_due_delivery, given_lease, result, settle_with
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase


@pytest_asyncio.fixture(params=[15, 16, 18])
async def database(
    request: pytest.FixtureRequest, server_of: Callable[[int], Server]
) -> AsyncIterator[PostgresDatabase]:
    """An empty database on a server of this version."""
    server = server_of(request.param)
    name = server.create_database()
    database = PostgresDatabase(server.dsn(name))
    yield database
    await database.close()
    server.drop_database(name)


async def test_delivery_goes_its_whole_way(database: PostgresDatabase) -> None:
    assert await postgres_migrate.migrate(database.url) == [each.name for each in available(postgres_migrate.PACKAGE)]
    assert await postgres_migrate.migrate(database.url) == []
    store = await database.open()
    subscription_id = await store.add_subscription(
        tenant="", types=["memo.*"], destination="null:hook", policy=None, description=None, operator="ada"
    )
    await store.set_subscription_state(subscription_id, "paused", operator="ada", reason=None)
    given_due_delivery(database, to=[Email("ada@example.com", subject="Hello", text="Dear Ada")], type="letter.sent")
    given_due_deliveries(database, 3, to="null:a", type="plain.one")
    database.publish("memo.created", {"memo": 1}, key="memo-1", to=None)

    first = await store.start(WORKER, 10, HOLD)
    assert first.lease is not None
    assert (len(first.lease.claims), first.parked) == (4, 1)
    outcomes: list[Outcome] = [Delivered("n-1"), Failed("503"), Refused("410")]
    verdicts = await store.settle([result(first.lease, outcome, of=place) for place, outcome in enumerate(outcomes)])
    database.advance(HOLD + timedelta(seconds=1))
    closed = await expire(store)
    late = await settle_with(store, first.lease, Delivered("late"))
    [letter] = await store.dead_letters(Filter())
    reopened = await store.open_generations([letter.delivery_id], kind="requeue", operator="ada", reason="fixed")
    await store.set_subscription_state(subscription_id, "active", operator="ada", reason=None)
    second = await given_lease(store)
    await settle_with(store, second, Delivered())

    assert verdicts == [Verdict.APPLIED] * 3
    assert [each.report.claim.delivery_id for each in closed] == [first.lease.claims[3].delivery_id]
    assert late == [Verdict.LATE] * 4
    assert set(reopened.ids) < {claim.delivery_id for claim in second.claims}
    status = await store.status()
    assert (status.due, status.in_flight, status.dead_letters, status.completed) == (0, 0, 0, 1 + len(second.claims))
    assert await store.is_idle()


async def test_events_are_recorded_many_at_once(database: PostgresDatabase) -> None:
    await postgres_migrate.migrate(database.url)

    database.publish_many(1200)

    assert database.one("select count(*) from sendonce_deliveries") == 1200
