"""The desk: every verb does what the command line does, on both databases; a tenant's desk is that tenant's only."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

import sendonce
from sendonce import Desk, Email, NotAllowed, NotFound, Outbox
from sendonce.admin.explain.snapshot import Known
from sendonce.admin.explain.story import tell
from sendonce.admin.tenants import for_tenant
from sendonce.channels.signing import new_secret
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Deferred, Delivered, Outcome, Refused, Unknown
from sendonce.errors import BadDestination, BadEvent, ConfigError
from sendonce.store.ports import Store
from sendonce.store.records import Room, StopRow
from tests.crash.accounts import url_of
from tests.given import POLICY, given_event, given_lease, settle_with
from tests.store.conftest import database, postgres_template, sqlite_template, store
from tests.store.databases import Database

__all__ = ["database", "postgres_template", "sqlite_template", "store"]

HOUR = timedelta(hours=1)


@pytest_asyncio.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    async with sendonce.open_desk(url_of(database), operator="ada") as desk:
        yield desk


@pytest_asyncio.fixture
async def acme(desk: Desk) -> Desk:
    return desk.of("acme")


async def given(database: Database, store: Store, outcome: Outcome | None = None, *, tenant: str = "acme") -> int:
    """A delivery of this tenant that has come to this, with nothing else due; its id."""
    event_id = given_event(database, tenant=tenant, to="null:a")
    delivery_id: int = database.one("select id from sendonce_deliveries where event_id = ?", event_id)
    if outcome is not None:
        lease = await given_lease(store)
        await settle_with(store, lease, outcome)
        await store.release([lease.id])
    return delivery_id


async def letter_of(store: Store, delivery_id: int) -> int:
    letter = await store.dead_letter_of(delivery_id)
    assert letter is not None
    return letter.id


async def test_it_shows_events_deliveries_attempts_and_why(database: Database, store: Store, acme: Desk) -> None:
    delivery_id = await given(database, store, Delivered("n-1"))
    waiting = await given(database, store)
    delivery = await acme.delivery(delivery_id)

    assert [row.id for row in await acme.events(type="memo.created")] == [
        (await acme.delivery(waiting)).event_id,
        delivery.event_id,
    ]
    assert (await acme.event(delivery.event_id)).tenant == "acme"
    assert await acme.deliveries(status=DeliveryState.COMPLETED, destination="null:a") == [delivery]
    assert await acme.deliveries_of(delivery.event_id) == [delivery]
    assert [row.notification_id for row in await acme.attempts_of(delivery_id)] == ["n-1"]
    assert any("its id is n-1; nothing more happens" in each for each in await acme.explain(delivery_id))
    assert [row.id for row in await acme.undelivered(limit=10)] == [waiting]
    assert await acme.undelivered(before=waiting) == []
    assert (await acme.status()).due == 1


async def test_a_dead_letter_is_listed_and_requeued(database: Database, store: Store, acme: Desk) -> None:
    delivery_id = await given(database, store, Refused("410"))
    [letter] = await acme.dead_letters(type="memo.created", reason=ReasonClass.REFUSED)

    [reopened] = await acme.signed("bob").requeue([letter.id], reason="it is back")

    assert (letter.delivery_id, reopened.old_delivery_id) == (delivery_id, delivery_id)
    assert (await acme.delivery(reopened.delivery_id)).generation == 1
    assert (await acme.dead_letter(letter.id)).closed_as == "requeued"
    assert await acme.dead_letters() == []
    [row] = [row for row in database.rows("operations") if row["kind"] == "requeue"]
    assert (row["operator"], row["reason"]) == ("bob", "it is back")


async def test_what_may_have_arrived_is_sent_again_only_on_purpose(
    database: Database, store: Store, acme: Desk
) -> None:
    held = replace(POLICY, if_unsure=sendonce.IfUnsure.HOLD)
    delivery_id = await given(database, store)
    await settle_with(store, await given_lease(store), Unknown("timeout"), held)
    letter_id = await letter_of(store, delivery_id)

    with pytest.raises(NotAllowed, match="may have been sent already"):
        await acme.requeue([letter_id], reason="again")
    [reopened] = await acme.requeue([letter_id], reason="again", even_if_sent=True)

    assert reopened.may_repeat


async def test_a_delivery_is_replayed_cancelled_discarded_and_attested(
    database: Database, store: Store, acme: Desk
) -> None:
    sent = await given(database, store, Delivered("n-1"))
    discarded, attested = [await given(database, store, Refused("410")) for _ in range(2)]
    with pytest.raises(NotAllowed, match="was sent"):
        await acme.replay([sent], reason="again")

    [replayed] = await acme.replay([sent], reason="again", even_if_sent=True)
    [cancelled] = await acme.cancel([replayed.delivery_id], reason="not wanted")
    acted = await acme.discard([await letter_of(store, discarded)], reason="old")
    [known] = await acme.attest([await letter_of(store, attested)], reason="they called", notification_id="n-2")

    assert cancelled.done
    assert len(acted.ids) == 1
    assert (await acme.delivery(known.delivery_id)).notification_id == "n-2"
    kinds = {row["kind"]: row["operator"] for row in database.rows("operations")}
    assert {"replay", "cancel", "discard", "attest"} <= kinds.keys()
    assert set(kinds.values()) == {"ada"}


async def test_what_failed_is_corrected(database: Database, store: Store, acme: Desk) -> None:
    to = Email("nobody@example.com", subject="Hello", text="Dear Ada")
    event_id = given_event(database, tenant="acme", to=to)
    await settle_with(store, await given_lease(store), Refused("550"))
    [old] = await acme.deliveries_of(event_id)

    right = Email("ada@example.com", subject="Hello", text="Dear Ada")
    corrected = await acme.correct(old.id, to=right, reason="a typo")

    new = await acme.delivery(corrected.delivery_id)
    assert (new.destination, new.event_id, new.status) == ("mailto:ada@example.com", event_id, DeliveryState.PENDING)
    assert (await acme.delivery(old.id)).status is DeliveryState.DEAD_LETTERED


async def test_a_request_is_shown_and_waited_for(database: Database, store: Store, acme: Desk) -> None:
    with database.connection() as connection:
        made = Outbox().request(
            connection, "review.done", {}, key="r-1", subject="CL-1", version=1, required="null:a", tenant="acme"
        )
    early = await acme.wait_for_request(made.request_id, timedelta(milliseconds=20))
    await settle_with(store, await given_lease(store), Delivered("n-1"))

    late = await acme.wait_for_request(made.request_id, timedelta(seconds=50))

    assert (early.status, late.status) == ("in_progress", "succeeded")
    assert await acme.request(made.request_id) == late


async def test_a_subscription_is_added_with_a_secret_paused_resumed_and_removed(
    database: Database, store: Store, acme: Desk
) -> None:
    added = await acme.add_subscription(
        types=["order.*"], to="https://hook.example/x", policy={"max_attempts": 5}, rate="10/s", description="orders"
    )
    plain = await acme.add_subscription(types=["*"], to="null:a")
    own = new_secret()
    brought = await acme.add_subscription(types=["*"], to="https://hook.example/y", secret=own)
    subscription_id = added.subscription.id

    assert (added.secret or "").startswith("whsec_")
    assert str(added.secret) not in repr(added)
    assert (plain.secret, brought.secret) == (None, own)
    assert added.subscription.tenant == "acme"
    assert json.loads(added.subscription.policy or "") == {"max_attempts": 5}
    assert await acme.subscription(subscription_id) == added.subscription
    assert [row.id for row in await acme.subscriptions(after=subscription_id, limit=1)] == [plain.subscription.id]
    paused = await acme.pause_subscription(subscription_id, reason="holiday")
    assert (paused.state, paused.state_reason) == ("paused", "holiday")
    assert (await acme.resume_subscription(subscription_id)).state == "active"
    assert (await acme.remove_subscription(subscription_id)).state == "removed"
    with pytest.raises(NotAllowed, match="was removed, which is for good; add a new one"):
        await acme.resume_subscription(subscription_id)


async def test_a_subscription_is_changed_tested_and_gets_a_new_secret(
    database: Database, store: Store, acme: Desk
) -> None:
    added = await acme.add_subscription(types=["order.*"], to="https://hook.example/x", policy={"max_attempts": 5})
    subscription_id = added.subscription.id

    changed = await acme.change_subscription(subscription_id, types=["memo.*"], policy={"max_attempts": 3})
    same = await acme.change_subscription(subscription_id)
    default = await acme.change_subscription(subscription_id, policy={})
    delivery = await acme.test_subscription(subscription_id)
    secret = await acme.rotate_secret(subscription_id, overlap=HOUR, reason="leaked")

    assert (changed.types, changed.policy) == (("memo.*",), '{"max_attempts": 3}')
    assert same == changed
    assert (default.types, default.policy) == (("memo.*",), None)
    assert (delivery.subscription_id, delivery.type, delivery.tenant) == (subscription_id, "sendonce.test", "acme")
    assert secret != added.secret
    [found] = await store.secrets_of([subscription_id])
    assert len(found.secrets) == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"types": [], "to": "null:a"}, ConfigError),
        ({"types": ["no type"], "to": "null:a"}, BadEvent),
        ({"types": ["*"], "to": "nowhere"}, BadDestination),
        ({"types": ["*"], "to": "null:a", "policy": {"max_attempts": 0}}, ConfigError),
        ({"types": ["*"], "to": "null:a", "policy": {"attempts": 1}}, ConfigError),
        ({"types": ["*"], "to": "null:a", "rate": "fast"}, ConfigError),
        ({"types": ["*"], "to": "https://hook.example/", "secret": "guess me"}, ConfigError),
    ],
)
async def test_a_wrong_subscription_is_refused_and_nothing_is_written(
    database: Database, acme: Desk, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await acme.add_subscription(**arguments)

    assert database.rows("subscriptions") == []


async def test_a_change_that_is_half_wrong_changes_nothing(database: Database, acme: Desk) -> None:
    added = await acme.add_subscription(types=["order.*"], to="null:a")

    with pytest.raises(ConfigError):
        await acme.change_subscription(added.subscription.id, types=["memo.*"], policy={"max_attempts": 0})

    assert await acme.subscription(added.subscription.id) == added.subscription


Touch = Callable[[Desk, int], Awaitable[object]]
WITH_A_DELIVERY: dict[str, Touch] = {
    "delivery": lambda desk, each: desk.delivery(each),
    "attempts_of": lambda desk, each: desk.attempts_of(each),
    "explain": lambda desk, each: desk.explain(each),
    "replay": lambda desk, each: desk.replay([each], reason="mine", even_if_sent=True),
    "cancel": lambda desk, each: desk.cancel([each], reason="mine"),
    "correct": lambda desk, each: desk.correct(each, to="null:b", reason="mine"),
}
WITH_A_DEAD_LETTER: dict[str, Touch] = {
    "dead_letter": lambda desk, each: desk.dead_letter(each),
    "requeue": lambda desk, each: desk.requeue([each], reason="mine"),
    "discard": lambda desk, each: desk.discard([each], reason="mine"),
    "attest": lambda desk, each: desk.attest([each], reason="mine"),
}
WITH_A_SUBSCRIPTION: dict[str, Touch] = {
    "subscription": lambda desk, each: desk.subscription(each),
    "pause": lambda desk, each: desk.pause_subscription(each),
    "resume": lambda desk, each: desk.resume_subscription(each),
    "remove": lambda desk, each: desk.remove_subscription(each),
    "change": lambda desk, each: desk.change_subscription(each, types=["*"], policy={}),
    "test": lambda desk, each: desk.test_subscription(each),
    "rotate_secret": lambda desk, each: desk.rotate_secret(each),
}
WITH_AN_EVENT: dict[str, Touch] = {
    "event": lambda desk, each: desk.event(each),
    "deliveries_of": lambda desk, each: desk.deliveries_of(each),
}
WITH_A_REQUEST: dict[str, Touch] = {
    "request": lambda desk, each: desk.request(each),
    "wait_for_request": lambda desk, each: desk.wait_for_request(each, timedelta(0)),
}


async def test_a_tenant_neither_sees_nor_touches_what_is_anothers(
    database: Database, store: Store, desk: Desk, acme: Desk
) -> None:
    delivery_id = await given(database, store, Refused("410"))
    letter_id = await letter_of(store, delivery_id)
    added = await acme.add_subscription(types=["*"], to="null:a")
    with database.connection() as connection:
        request = Outbox().request(
            connection, "review.done", {}, key="r-1", subject="CL-1", version=1, required="null:a", tenant="acme"
        )
    theirs: list[tuple[str, int, dict[str, Touch]]] = [
        ("delivery", delivery_id, WITH_A_DELIVERY),
        ("dead letter", letter_id, WITH_A_DEAD_LETTER),
        ("subscription", added.subscription.id, WITH_A_SUBSCRIPTION),
        ("event", (await acme.delivery(delivery_id)).event_id, WITH_AN_EVENT),
        ("request", request.request_id, WITH_A_REQUEST),
    ]
    other = desk.of("globex")
    before = {name: database.rows(name) for name in ("deliveries", "dead_letters", "subscriptions", "operations")}

    for noun, number, touches in theirs:
        for name, touch in touches.items():
            with pytest.raises(NotFound) as missing:
                await touch(other, number)
            assert str(missing.value) == f"there is no {noun} {number}", name
            with pytest.raises(NotFound) as nowhere:
                await touch(desk, 10**9)
            assert str(nowhere.value) == f"there is no {noun} {10**9}", name

    lists = [other.events(), other.deliveries(), other.dead_letters(), other.subscriptions(), other.undelivered()]
    assert [await each for each in lists] == [[]] * len(lists)
    assert {name: database.rows(name) for name in before} == before


async def test_one_that_is_anothers_spoils_the_whole_call(database: Database, store: Store, desk: Desk) -> None:
    mine = await letter_of(store, await given(database, store, Refused("410")))
    theirs = await letter_of(store, await given(database, store, Refused("410"), tenant="globex"))

    with pytest.raises(NotFound):
        await desk.of("acme").requeue([mine, theirs], reason="both")

    assert len(await desk.dead_letters()) == 2


async def test_a_tenant_is_told_nothing_about_others_or_about_who_runs_the_service(
    database: Database, store: Store, desk: Desk, acme: Desk
) -> None:
    forbidden = "it leads to a network that is not open; an operator can open it with SENDONCE_ALLOW_NETWORKS"
    moved = await given(database, store, Refused("address_forbidden", forbidden))
    attested = await given(database, store, Refused("410"))
    held = await given(database, store, Deferred("our_account", "it does not let us send", response="account 4711"))
    corrected = await desk.correct(moved, to="null:b", reason="they moved in secret")
    [known] = await desk.attest([await letter_of(store, attested)], reason="they called in secret")
    waiting = await given(database, store)

    for delivery_id in (moved, corrected.delivery_id, attested, known.delivery_id, held, waiting):
        to_us, to_them = await desk.explain(delivery_id), await acme.explain(delivery_id)
        assert len(to_them) <= len(to_us)
        for words in ("ada", "secret", "SENDONCE", "sendonce ", "4711", "worker"):
            assert words not in " ".join(to_them), to_them
    assert any("it leads to a network that is not open)" in each for each in await acme.explain(moved))
    assert any("as attested by a person" in each for each in await acme.explain(known.delivery_id))
    [attempt] = await acme.attempts_of(moved)
    assert attempt.error_message == "it leads to a network that is not open"
    assert (await desk.attempts_of(moved))[0].error_message == forbidden


async def test_a_tenant_is_not_told_how_many_others_wait(database: Database, store: Store, acme: Desk) -> None:
    delivery = replace(await acme.delivery(await given(database, store)), next_attempt_at=None, parked_on="place:a")
    known = Known(now=database.now(), delivery=delivery, token="", address="a", room=Room(name="place:a", waiting=42))

    assert "it waits with 41 others for a" in tell(known).whereabouts[-1]
    assert "it waits for a" in tell(for_tenant(known)).whereabouts[-1]
    stopped = replace(known, stop=StopRow(scope="all", value="", operator="ada", reason="x", created_at=known.now))
    assert tell(for_tenant(stopped)).whereabouts[-1] == "it is held back for now, and sent later"
    unnamed = replace(known, room=None)
    assert tell(for_tenant(unnamed)).whereabouts[-1] == "it waits for its turn"


async def test_a_desk_without_a_tenant_sees_them_all(database: Database, store: Store, desk: Desk) -> None:
    for tenant in ("acme", "globex", ""):
        await given(database, store, tenant=tenant)

    assert {row.tenant for row in await desk.deliveries()} == {"acme", "globex", ""}
    assert [row.tenant for row in await desk.of("").deliveries()] == [""]


async def test_a_database_that_is_not_there_is_said_before_the_block(tmp_path: Any) -> None:
    with pytest.raises(sendonce.StoreError, match="run: sendonce migrate"):
        async with sendonce.open_desk(f"sqlite:///{tmp_path / 'none.db'}", operator="ada"):
            pytest.fail("it was opened")
