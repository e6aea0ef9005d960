"""Every member of every list that a store decides by, on both databases: states, scopes, kinds, reasons."""

from typing import Any

import pytest

from sendonce.admin.stops import SCOPES
from sendonce.domain.attempts import Result, Verdict
from sendonce.domain.decide import dead_letter
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Refused, Unknown
from sendonce.domain.policies import IfUnsure
from sendonce.store.bulk import REPLAY, REQUEUE
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from sendonce.store.records import VERBS
from tests.given import HOLD, WORKER, given_due_delivery, given_event, given_lease, later, report, settle_with
from tests.store.databases import Database

WHO: dict[str, Any] = {"operator": "ada", "reason": "because"}
VALUES = {"all": "", "channel": "null", "destination": "null:a", "tenant": "acme"}
KINDS = ("signing", "bearer", "headers", "certificate")


async def given_subscription(store: Store, **arguments: Any) -> int:
    return await store.add_subscription(
        tenant="", types=["memo.*"], destination="null:a", policy=None, description=None, operator="ada", **arguments
    )


async def given_up_as(database: Database, store: Store, reason: ReasonClass) -> int:
    """A delivery that was given up for this reason; its id."""
    delivery_id = given_due_delivery(database)
    if reason is ReasonClass.CANCELLED:
        await store.cancel([delivery_id], **WHO)
        return delivery_id
    lease = await given_lease(store)
    await store.settle([Result(report(lease, Refused("410")), dead_letter(reason, in_doubt=False))])
    return delivery_id


def test_lists_here_are_whole() -> None:
    assert set(VALUES) == set(SCOPES)
    assert set(VERBS) == {"active", "paused", "disabled", "removed"}


@pytest.mark.parametrize("scope", SCOPES)
async def test_scope_stops_what_is_due_what_waits_and_what_is_in_doubt(
    database: Database, store: Store, scope: str
) -> None:
    first = given_due_delivery(database, tenant="acme")
    await settle_with(store, await given_lease(store), Unknown("timeout"))
    await store.stop(scope, VALUES[scope], **WHO)
    given_due_delivery(database, tenant="acme")

    assert (await store.start(WORKER, 10, HOLD)).lease is None
    assert (await store.start_doubtful(WORKER, 10, HOLD, after=0)).lease is None
    await store.resume(scope, VALUES[scope], operator="ada")
    again = await given_lease(store)
    assert first not in [claim.delivery_id for claim in again.claims]
    assert len(again.claims) == 1


@pytest.mark.parametrize(
    ("state", "is_sent"), [("active", True), ("paused", False), ("disabled", False), ("removed", True)]
)
async def test_state_of_a_subscription_holds_back_or_lets_out(
    database: Database, store: Store, state: str, is_sent: bool
) -> None:
    """What belongs to a removed one is claimed, so that the sender gives it up with its reason."""
    added = await given_subscription(store)
    given_event(database)
    await store.set_subscription_state(added, state, **WHO)

    started = await store.start(WORKER, 10, HOLD)

    assert (started.lease is not None) is is_sent
    assert started.parked == (not is_sent)
    if is_sent and started.lease is not None:
        assert started.lease.claims[0].subscription_state == state


@pytest.mark.parametrize("state", ["paused", "disabled"])
@pytest.mark.parametrize("back", ["active", "removed"])
async def test_subscription_lets_go_what_it_held_when_active_or_gone(
    database: Database, store: Store, state: str, back: str
) -> None:
    added = await given_subscription(store)
    given_event(database)
    await store.set_subscription_state(added, state, **WHO)
    assert (await store.start(WORKER, 10, HOLD)).parked == 1

    await store.set_subscription_state(added, back, **WHO)

    assert len((await given_lease(store)).claims) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_kind_of_secret_is_kept_and_read(store: Store, kind: str) -> None:
    added = await given_subscription(store, secrets=lambda _: {kind: b"plain:x"})

    [found] = await store.secrets_of([added])
    assert [(row.kind, row.secret) for row in found.secrets] == [(kind, b"plain:x")]
    assert [row.kind for row in await store.kept_secrets(added)] == [kind]


@pytest.mark.parametrize("kind", KINDS)
async def test_secret_for_signing_ends_no_other_kind(database: Database, store: Store, kind: str) -> None:
    added = await given_subscription(store, secrets=lambda _: {kind: b"plain:old"})

    await store.rotate_secret(added, b"plain:new", overlap=HOLD * 0, **WHO)

    [found] = await store.secrets_of([added])
    left = [row.secret for row in found.secrets]
    assert (b"plain:old" in left) is (kind != "signing")


@pytest.mark.parametrize("kind", [REQUEUE, REPLAY])
@pytest.mark.parametrize("reason", ReasonClass)
async def test_dead_letter_is_found_by_its_reason_and_no_other(
    database: Database, store: Store, reason: ReasonClass, kind: str
) -> None:
    delivery_id = await given_up_as(database, store, reason)

    found = {}
    for each in ReasonClass:
        window = await store.match(kind, Filter(reason=each, even_if_sent=True), after=0, upper=100, window=10)
        found[each] = [one.delivery_id for one in window.found]
        assert [row.delivery_id for row in await store.dead_letters(Filter(reason=each))] == found[each]
        assert [row.id for row in await store.deliveries(Filter(reason=each))] == found[each]

    assert found == {each: [delivery_id] if each is reason else [] for each in ReasonClass}


@pytest.mark.parametrize("kind", [REQUEUE, REPLAY])
@pytest.mark.parametrize("reason", ReasonClass)
async def test_dead_letter_of_any_reason_can_be_requeued(
    database: Database, store: Store, reason: ReasonClass, kind: str
) -> None:
    delivery_id = await given_up_as(database, store, reason)

    [new_id] = (await store.open_generations([delivery_id], kind=kind, **WHO)).ids

    row = await store.delivery(new_id)
    letter = await store.dead_letter_of(delivery_id)
    assert row is not None
    assert (row.status, row.generation, row.attempt_count) == (DeliveryState.PENDING, 1, 0)
    assert letter is not None
    assert database.one("select closed_as from sendonce_dead_letters where id = ?", letter.id) == "requeued"


@pytest.mark.parametrize("closed_as", ["requeued", "discarded", "attested", "corrected"])
async def test_dead_letter_that_is_closed_in_any_way_is_not_closed_again(
    database: Database, store: Store, closed_as: str
) -> None:
    delivery_id = await given_up_as(database, store, ReasonClass.REFUSED)
    letter = database.one("select id from sendonce_dead_letters")
    verbs: dict[str, Any] = {
        "requeued": lambda: store.open_generations([delivery_id], kind=REQUEUE, **WHO),
        "discarded": lambda: store.discard([letter], **WHO),
        "attested": lambda: store.attest([letter], **WHO),
        "corrected": lambda: store.correct(delivery_id, content='{"n":2}', destination=None, **WHO),
    }

    await verbs[closed_as]()

    assert database.one("select closed_as from sendonce_dead_letters where id = ?", letter) == closed_as
    for name, again in verbs.items():
        if (closed_as, name) != ("discarded", "requeued"):
            with pytest.raises(Exception, match=r"dead letter|delivery|newer|corrected|closed|open"):
                await again()


@pytest.mark.parametrize("if_unsure", [None, *IfUnsure])
@pytest.mark.parametrize("outcome", [Unknown("timeout")])
async def test_claim_has_what_was_said_when_publishing(
    database: Database, store: Store, if_unsure: str | None, outcome: Unknown
) -> None:
    given_due_delivery(database, if_unsure=if_unsure, expires_at=later(database, HOLD))

    lease = await given_lease(store)

    assert lease.claims[0].if_unsure == if_unsure
    assert await settle_with(store, lease, outcome) == [Verdict.APPLIED]
