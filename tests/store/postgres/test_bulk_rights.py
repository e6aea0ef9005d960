"""Operations by filter and corrections under the printed roles: each step needs the rights of its verb, and no more."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Refused
from sendonce.errors import StoreError
from sendonce.store.bulk import CANCEL, REPLAY, REQUEUE
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from tests.given import given_due_deliveries, given_due_delivery, given_lease, settle_with
from tests.servers.postgres import Server
from tests.store.bulkwork import begun, finish, step
from tests.store.databases import PostgresDatabase
from tests.store.postgres.roles import Roles, granted_roles

LETTER = Email("ada@exmaple.com", subject="Hello", text="Dear Ada")


@pytest.fixture(scope="module")
def roles(postgres_server: Server, postgres_template: str) -> Iterator[Roles]:
    with granted_roles(postgres_server, postgres_template) as roles:
        yield roles


@pytest.fixture
def database(roles: Roles) -> Iterator[PostgresDatabase]:
    with roles.database() as database:
        yield database


@pytest_asyncio.fixture
async def stores(roles: Roles, database: PostgresDatabase) -> AsyncIterator[dict[str, Store]]:
    """The test's database as each of these roles sees it."""
    seen = {role: roles.under(database.url, role) for role in ("operator", "orchestrator", "reader")}
    yield {role: await each.open() for role, each in seen.items()}
    for each in seen.values():
        await each.close()


async def test_M10_operator_requeues_and_replays_by_filter_and_never_cancels(
    database: PostgresDatabase, stores: dict[str, Store]
) -> None:
    given_due_deliveries(database, 2)
    await settle_with(stores["orchestrator"], await given_lease(stores["orchestrator"]), Refused("410"))
    operator = stores["operator"]

    requeued = await finish(operator, await begun(operator, REQUEUE), most=1)
    replayed = await finish(operator, await begun(operator, REPLAY, Filter(even_if_sent=True)))

    assert (requeued.affected, replayed.affected) == (2, 0)
    cancelling = await begun(operator, CANCEL)
    with pytest.raises(StoreError, match="may not do that"):
        await step(operator, cancelling)
    paused = await operator.set_operation_state(cancelling.id, "paused", operator="ada", reason=None)
    assert (paused.state, paused.last_id) == ("paused", cancelling.first_id)


async def test_W6_only_the_orchestrator_cancels_by_filter_and_it_opens_nothing(
    database: PostgresDatabase, stores: dict[str, Store]
) -> None:
    orchestrator = stores["orchestrator"]
    given_due_delivery(database)
    await settle_with(orchestrator, await given_lease(orchestrator), Refused("410"))
    given_due_deliveries(database, 3)

    done = await finish(orchestrator, await begun(orchestrator, CANCEL), most=2)

    assert (done.affected, done.state) == (3, "done")
    with pytest.raises(StoreError, match="may not do that"):
        await step(orchestrator, await begun(orchestrator, REQUEUE))
    assert database.one("select count(*) from sendonce_deliveries where generation = 1") == 0


async def test_M10_operator_corrects_and_the_reader_sees_it_without_the_content(
    database: PostgresDatabase, stores: dict[str, Store]
) -> None:
    mail, other = given_due_delivery(database, to=LETTER), given_due_delivery(database)
    await settle_with(stores["orchestrator"], await given_lease(stores["orchestrator"]), Refused("550"))
    operator, reader = stores["operator"], stores["reader"]

    [moved] = (await operator.correct(mail, content=None, destination="null:b", operator="ada", reason="typo")).ids
    await operator.correct(other, content="{}", destination=None, operator="ada", reason="wrong")

    assert [row.delivery_id for row in await reader.corrections_of(mail)] == [moved]
    assert len(await reader.operations(before=100, state=None, limit=10)) == 2
    with pytest.raises(StoreError, match="may not do that"):
        await reader.content(moved)
    with pytest.raises(StoreError, match="may not do that"):
        await reader.correct(moved, content="{}", destination=None, operator="eve", reason="r")
