"""A receiver that says it is gone for good: its subscription is disabled, once, and says why."""

from sendonce.domain.attempts import Result
from sendonce.domain.outcomes import Outcome, Refused
from sendonce.engine.subscriptions import GONE_REASON, DisableGoneSubscriptions
from sendonce.observability.facts import Disabled, Fact
from sendonce.store.ports import Store
from tests.given import HOLD, given_event, given_lease, result
from tests.store.databases import Database

GONE = Refused("http_410", "gone")


async def settled(database: Database, store: Store, outcome: Outcome, *, amount: int = 1) -> list[Result]:
    for _ in range(amount):
        given_event(database)
    lease = await given_lease(store)
    results = [result(lease, outcome, of=place) for place in range(len(lease.claims))]
    await store.settle(results)
    return results


async def a_subscription(store: Store) -> int:
    return await store.add_subscription(
        tenant="", types=["*"], destination="null:hook", policy=None, description=None, operator="ada"
    )


async def state_of(store: Store, subscription_id: int) -> tuple[str, str | None]:
    row = await store.subscription(subscription_id)
    assert row is not None
    return row.state, row.state_reason


async def test_subscription_whose_receiver_is_gone_is_disabled_and_what_follows_waits(
    database: Database, store: Store
) -> None:
    id = await a_subscription(store)
    facts: list[Fact] = []
    gone = DisableGoneSubscriptions(store, facts.append)

    gone.note(await settled(database, store, GONE, amount=3))
    await gone.apply()

    assert await state_of(store, id) == ("disabled", GONE_REASON)
    assert facts == [Disabled(subscription_id=id, reason=GONE_REASON)]
    given_event(database)
    assert (await store.start(1, 10, HOLD)).lease is None
    assert (await store.status()).parked == 1


async def test_refusal_other_than_gone_disables_nothing(database: Database, store: Store) -> None:
    id = await a_subscription(store)
    gone = DisableGoneSubscriptions(store, lambda _: None)

    gone.note(await settled(database, store, Refused("http_404", "no")))
    await gone.apply()

    assert await state_of(store, id) == ("active", None)
