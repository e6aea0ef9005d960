"""Late evidence: it settles what waits or is held, once, and never what has ended."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sendonce.domain.attempts import Verdict
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.evidence import Effect, Evidence, Told
from sendonce.domain.outcomes import Accepted, Delivered, Unknown
from sendonce.domain.policies import IfUnsure
from sendonce.domain.texts import provider_token
from sendonce.store.late_evidence import PLACES
from sendonce.store.ports import Store
from tests.given import (
    HOLD,
    POLICY,
    expire,
    given_delivery_in,
    given_due_deliveries,
    given_due_delivery,
    given_lease,
    settle_with,
)
from tests.store.databases import Database

HOLDING = replace(POLICY, if_unsure=IfUnsure.HOLD)


def delivered(**changes: Any) -> Evidence:
    return Evidence(
        **{"source": "postmark", "outcome": Told.DELIVERED, "token": "t", "notification_id": "n-9", **changes}
    )


def refused(**changes: Any) -> Evidence:
    return Evidence(**{"source": "postmark", "outcome": Told.REFUSED, "token": "t", "error_code": "bounce", **changes})


async def held(database: Database, store: Store) -> int:
    """A delivery that may have been sent and waits for a person."""
    delivery_id = given_due_delivery(database, to="null:a")
    lease = await given_lease(store)
    database.advance(HOLD + timedelta(seconds=1))
    await expire(store, HOLDING)
    assert lease.claims[0].delivery_id == delivery_id
    return delivery_id


async def row_of(store: Store, delivery_id: int) -> Any:
    return await store.delivery(delivery_id)


@pytest.mark.parametrize("outcome", [Unknown("timeout"), Accepted("n-9")])
async def test_evidence_of_delivery_completes_what_waits_without_sending(
    database: Database, store: Store, outcome: Unknown | Accepted
) -> None:
    delivery_id = given_due_delivery(database)
    lease = await given_lease(store)
    assert await settle_with(store, lease, outcome, can_look_up=True) == [Verdict.APPLIED]
    await store.release([lease.id])

    weighed = await store.add_evidence(delivery_id, delivered(), operator="hooks")
    again = await store.add_evidence(delivery_id, delivered(), operator="hooks")
    [claim] = (await given_lease(store)).claims

    assert (weighed.effect, weighed.delivery_id, weighed.is_repeat) == (Effect.SETTLED, delivery_id, False)
    assert again.is_repeat
    assert (claim.is_proven, claim.notification_id) == (True, "n-9")
    assert [each.effect for each in await store.evidence_of(delivery_id)] == ["settled"]


async def test_evidence_of_refusal_gives_up_what_waits_and_keeps_its_doubt(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    await settle_with(store, await given_lease(store), Unknown("timeout"), can_look_up=True)

    weighed = await store.add_evidence(delivery_id, refused(), operator="hooks")

    row, letter = await row_of(store, delivery_id), await store.dead_letter_of(delivery_id)
    assert weighed.effect is Effect.SETTLED
    assert (row.status, row.in_doubt, row.final_error_code) == (DeliveryState.DEAD_LETTERED, True, "bounce")
    assert letter is not None
    assert (letter.reason, letter.error_message) == ("refused", "postmark says that it was refused (bounce)")


async def test_evidence_of_delivery_attests_what_is_held(database: Database, store: Store) -> None:
    delivery_id = await held(database, store)

    weighed = await store.add_evidence(delivery_id, delivered(), operator="hooks")
    again = await store.add_evidence(delivery_id, delivered(reference="other"), operator="hooks")

    assert weighed.effect is Effect.SETTLED
    assert weighed.delivery_id is not None
    row, letter = await row_of(store, weighed.delivery_id), await store.dead_letter_of(delivery_id)
    assert (row.status, row.generation, row.notification_id) == (DeliveryState.COMPLETED, 1, "n-9")
    assert letter is not None
    assert (letter.closed_as, letter.closed_by) == ("attested", "hooks")
    assert (again.effect, again.delivery_id) == (Effect.KNOWN, row.id)


async def test_evidence_of_refusal_of_what_is_held_is_a_finding_for_the_person(
    database: Database, store: Store
) -> None:
    delivery_id = await held(database, store)

    weighed = await store.add_evidence(delivery_id, refused(), operator="hooks")

    letter, [finding] = await store.dead_letter_of(delivery_id), await store.findings_of(delivery_id)
    assert weighed.effect is Effect.NOTED
    assert letter is not None
    assert letter.closed_at is None
    assert (finding.kind, finding.outcome, finding.error_code) == ("evidence", "Refused", "bounce")


async def test_evidence_of_a_bounce_of_a_completed_delivery_is_a_finding_and_changes_nothing(
    database: Database, store: Store
) -> None:
    delivery_id = await given_delivery_in(database, store, DeliveryState.COMPLETED)
    before = database.rows("deliveries"), database.rows("attempts"), database.rows("dead_letters")

    effects = [(await store.add_evidence(delivery_id, each, operator="hooks")).effect for each in (
        refused(), refused(), refused(reference="r-1"), refused(reference="r-1", error_code="other"),
        delivered(notification_id="n-1"), delivered(notification_id="n-2"))]  # fmt: skip

    assert effects == [Effect.CONTRADICTS] * 4 + [Effect.KNOWN, Effect.CONTRADICTS]
    assert (database.rows("deliveries"), database.rows("attempts"), database.rows("dead_letters")) == before
    findings = await store.findings_of(delivery_id)
    assert [(each.kind, each.outcome) for each in findings] == [
        ("contradiction", "Refused"), ("contradiction", "Delivered"),
    ]  # fmt: skip
    assert "postmark says that it was refused (bounce) when the delivery was Completed" in str(findings[0].details)
    assert len(await store.evidence_of(delivery_id)) == 4


async def test_evidence_about_what_is_being_sent_is_not_written(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database)
    lease = await given_lease(store)

    weighed = await store.add_evidence(delivery_id, delivered(), operator="hooks")
    await settle_with(store, lease, Delivered("n-9"))
    later = await store.add_evidence(delivery_id, delivered(), operator="hooks")

    assert (weighed.effect, later.effect) == (Effect.IN_FLIGHT, Effect.KNOWN)
    assert len(await store.evidence_of(delivery_id)) == 1


async def test_preview_writes_nothing(database: Database, store: Store) -> None:
    delivery_id = await held(database, store)
    before = {table: database.rows(table) for table in ("deliveries", "dead_letters", "evidence", "findings")}

    weighed = await store.preview_evidence(delivery_id, delivered())

    assert weighed.effect is Effect.SETTLED
    assert {table: database.rows(table) for table in before} == before


async def test_evidence_about_nothing_is_unmatched(store: Store) -> None:
    assert (await store.add_evidence(7, delivered(), operator="hooks")).effect is Effect.UNMATCHED
    assert (await store.preview_evidence(7, delivered())).effect is Effect.UNMATCHED


@pytest.mark.parametrize("place", PLACES)
async def test_delivery_is_found_by_its_token_and_by_the_other_sides_id(
    database: Database, store: Store, place: str
) -> None:
    ids = given_due_deliveries(database, 3, to="null:a")
    lease = await given_lease(store)
    await settle_with(store, lease, Accepted("n-9"), can_look_up=True)
    name = await store.namespace()
    tokens = [provider_token(name, e.tenant, e.type, e.key, e.destination, 0) for e in lease.claims]

    by_token = await store.seek_deliveries("token", [tokens[0], tokens[2], "0" * 40], place)
    below = await store.seek_deliveries("token", tokens, place, before=ids[1])
    by_id = await store.seek_deliveries("notification_id", ["n-9", "n-8"], place)

    assert by_token.found == {tokens[0]: ids[0], tokens[2]: ids[2]}
    assert below.found == {tokens[0]: ids[0]}
    assert by_id.found == {"n-9": ids[2]}
    assert by_token.before is None
