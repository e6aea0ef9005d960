"""Those who look see everything that is shown, and only the operator of them sees payloads."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from sendonce.admin.explain import explain
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.outcomes import Delivered, Refused
from sendonce.domain.texts import provider_token
from sendonce.errors import StoreError
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from tests.given import given_due_delivery, given_event, given_lease, settle_with
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.roles import Roles, granted_roles, subscribe

Under: TypeAlias = Callable[[str], PostgresDatabase]


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
    """The test's database as a role sees it."""
    seen = {role: roles.under(database.url, role) for role in ("reader", "operator")}
    yield seen.__getitem__
    for each in seen.values():
        await each.close()


async def every_read(store: Store, token: str) -> dict[str, Any]:
    """Every verb of ReadStore but the payload."""
    answers: dict[str, Any] = {
        "status": await store.status(),
        "namespace": await store.namespace(),
        "event": await store.event(1),
        "events": await store.events(Filter()),
        "events_by_key": await store.events_by_key("k-1"),
        "delivery": await store.delivery(1),
        "deliveries_of": await store.deliveries_of(1),
        "delivery_by_token": await store.delivery_by_token(token),
        "attempts_of": await store.attempts_of(1),
        "lease_of": await store.lease_of(2),
        "findings_of": await store.findings_of(1),
        "dead_letters": await store.dead_letters(Filter()),
        "dead_letter": await store.dead_letter(1),
        "dead_letter_of": await store.dead_letter_of(1),
        "subscriptions": await store.subscriptions(None),
        "subscription": await store.subscription(1),
        "kept_secrets": await store.kept_secrets(1),
        "waiting_in": await store.waiting_in(["subscription:1"]),
        "explain": await explain(store, "k-1"),
    }
    for status in (None, *DeliveryState):
        answers[f"deliveries {status}"] = await store.deliveries(Filter(status=status))
    return answers


@pytest.mark.parametrize("role", ["reader", "operator"])
async def test_M10_reader_and_operator_see_everything_that_is_shown(
    database: PostgresDatabase, under: Under, role: str
) -> None:
    database.execute(
        "insert into sendonce_subscription_secrets (subscription_id, secret) values (?, 'x')",
        subscribe(database, "other.*"),
    )
    owner = await database.open()
    await owner.register("host:1", "1.0", 10)
    given_due_delivery(database, key="k-1")
    refused = await given_lease(owner)
    await settle_with(owner, refused, Refused("410"))
    await settle_with(owner, refused, Delivered())
    given_due_delivery(database, key="k-2")
    await given_lease(owner)
    await owner.stop("tenant", "acme", operator="ada", reason=None)
    token = provider_token(await owner.namespace(), "", "memo.created", "k-1", "null:a", 0)
    every = every_read(await under(role).open(), token)

    answers = await every
    empty = {f"deliveries {state}" for state in ("Pending", "PendingRetry", "Completed")}

    assert {name for name, answer in answers.items() if not answer} == empty
    await database.close()


async def test_M10_only_the_operator_of_those_who_look_reads_payloads(database: PostgresDatabase, under: Under) -> None:
    event_id = given_event(database, payload={"card": "4111"})

    assert await (await under("operator").open()).payload(event_id) == '{"card":"4111"}'
    with pytest.raises(StoreError, match="this database role may not do that"):
        await (await under("reader").open()).payload(event_id)
