"""Retention on PostgreSQL: beside people who open generations, and under the roles with the least rights."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import TypeAlias

import psycopg
import pytest
import pytest_asyncio

from sendonce.admin.erase import erase
from sendonce.admin.prune import PrunePlan, prune
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Delivered
from sendonce.engine.retention import Retention, RetentionSettings
from sendonce.errors import StoreError
from sendonce.observability.facts import Fact, Pruned, PruningFailed
from sendonce.store.ports import Store
from sendonce.store.postgres.store import PostgresStore
from sendonce.store.upkeep import Person, Stage
from tests.given import given_event, given_lease, settle_with
from tests.processes import SECONDS
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.roles import Roles, granted_roles

Under: TypeAlias = Callable[[str], PostgresDatabase]
NOW = timedelta(0)
ADA = Email("ada@example.com", subject="Hello", text="Dear Ada")
NEXT = (
    "insert into sendonce_deliveries (event_id, destination, destination_hash, generation)"
    " select event_id, destination, destination_hash, 1 from sendonce_deliveries where id = %s"
)


@pytest.fixture(scope="module")
def roles(postgres_server: Server, postgres_template: str) -> Iterator[Roles]:
    with granted_roles(postgres_server, postgres_template) as roles:
        yield roles


@pytest.fixture
def database(roles: Roles) -> Iterator[PostgresDatabase]:
    with roles.database() as database:
        yield database


@pytest_asyncio.fixture
async def under(roles: Roles, database: PostgresDatabase) -> AsyncIterator[Under]:
    seen: dict[str, PostgresDatabase] = {}

    def as_role(role: str) -> PostgresDatabase:
        return seen.setdefault(role, roles.under(database.url, role))

    yield as_role
    for each in seen.values():
        await each.close()


async def given_sent(database: PostgresDatabase, store: Store) -> int:
    given_event(database, to=ADA, subject="ada")
    await settle_with(store, await given_lease(store), Delivered("n", response="thanks"))
    newest = database.one("select max(id) from sendonce_deliveries")
    assert isinstance(newest, int)
    return newest


@pytest.mark.parametrize("stage", Stage)
async def test_M13_whoever_opens_a_generation_is_not_waited_for_and_loses_nothing(
    database: PostgresDatabase, stage: Stage
) -> None:
    store = await PostgresStore.connect(database.url)
    delivery_id = await given_sent(database, store)

    with psycopg.connect(database.url) as person:
        person.execute("select id from sendonce_deliveries where id = %s for update", (delivery_id,))
        person.execute(NEXT, (delivery_id,))
        step = await asyncio.wait_for(store.retain(stage, 0, limit=10, age=NOW), SECONDS)
    again = await store.retain(stage, 0, limit=10, age=NOW)

    await store.close()
    assert (step.events, again.events) == (0, 0)
    assert database.one("select payload from sendonce_events") is not None
    assert [row["generation"] for row in database.rows("deliveries")] == [0, 1]


@pytest.mark.parametrize("stage", [Stage.HISTORY, Stage.KEYS])
async def test_M13_what_somebody_holds_is_left_for_another_time(database: PostgresDatabase, stage: Stage) -> None:
    """They are about to open what comes after it, and will wait for the event: who waited here would wait for ever."""
    store = await PostgresStore.connect(database.url)
    delivery_id = await given_sent(database, store)

    with psycopg.connect(database.url) as person:
        person.execute("select id from sendonce_deliveries where id = %s for update", (delivery_id,))
        step = await asyncio.wait_for(store.retain(stage, 0, limit=10, age=NOW), SECONDS)

    await store.close()
    assert step.events == 0
    assert len(database.rows("deliveries")) == 1


async def test_M13_generation_is_not_opened_of_what_is_just_going(database: PostgresDatabase) -> None:
    store = await PostgresStore.connect(database.url)
    delivery_id = await given_sent(database, store)

    def open_another(documents: object) -> None:
        """While the step is under way: it waits for the end of the step, and then there is nothing to open."""
        with psycopg.connect(database.url) as person:
            person.execute("set lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                person.execute(NEXT, (delivery_id,))

    for stage in (Stage.PAYLOADS, Stage.HISTORY):
        assert (await store.retain(stage, 0, limit=10, age=NOW, archive=open_another)).events == 1
    await store.close()
    assert database.rows("deliveries") == []


async def test_M10_janitor_prunes_with_the_real_code(database: PostgresDatabase, under: Under) -> None:
    await given_sent(database, await under("orchestrator").open())
    janitor = await under("janitor").open()
    facts: list[Fact] = []
    everything = RetentionSettings(payloads=NOW, history=NOW, keys=timedelta(days=1), workers=NOW, operations=NOW)

    await Retention(janitor, everything, facts.append, worker_id=1).look()
    plan = PrunePlan(about="everything", ages={Stage.KEYS: NOW}, workers=NOW, operations=NOW)
    done = [each async for each in prune(janitor, plan, operator="ada", reason="test", archive=lambda documents: None)]

    assert facts == [Pruned(contents=1, deliveries=1, events=0, rest=0)]
    assert done[-1].events == 1
    assert database.rows("events") == []
    assert [row["kind"] for row in database.rows("operations")] == ["prune"]


async def test_M10_janitor_erases_what_has_ended_and_cancels_nothing(database: PostgresDatabase, under: Under) -> None:
    await given_sent(database, await under("orchestrator").open())
    janitor = await under("janitor").open()
    person = Person(destination="mailto:ada@example.com")

    done = [each async for each in erase(janitor, person, shared=False, operator="ada", reason="test")]
    assert (done[-1].erased.payloads, done[-1].erased.contents) == (1, 1)
    assert database.one("select response from sendonce_attempts") is None

    given_event(database, to=ADA)
    with pytest.raises(StoreError, match="this database role may not do that"):
        [each async for each in erase(janitor, person, shared=False, operator="ada", reason="test")]


async def test_M10_worker_without_the_right_says_so_and_works_on(database: PostgresDatabase, under: Under) -> None:
    keeper = await under("keeper").open()
    facts: list[Fact] = []

    retention = Retention(keeper, RetentionSettings(), facts.append, worker_id=1)
    for _ in range(2):
        await retention.look()

    [said] = facts
    assert isinstance(said, PruningFailed)
    assert "sendonce grants" in said.reason
