"""The admin: every verb does what the command line does, on both databases; a tenant's admin is that tenant's only."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

import sendonce
from sendonce import Admin, Email, NotAllowed, NotFound, Outbox, TenantAdmin
from sendonce.admin.explain.sentences import tell
from sendonce.admin.explain.snapshot import Snapshot
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Deferred, Delivered, Outcome, Refused, Unknown
from sendonce.errors import BadDestination, BadEvent, ConfigError
from sendonce.signing import new_secret
from sendonce.store.ports import Store
from sendonce.store.records import Room, StopRow
from tests.crash.accounts import url_of
from tests.given import POLICY, given_event, given_lease, settle_with
from tests.store.conftest import database, postgres_template, sqlite_template, store
from tests.store.databases import Database

__all__ = ["database", "postgres_template", "sqlite_template", "store"]

HOUR = timedelta(hours=1)


@pytest_asyncio.fixture
async def admin(database: Database) -> AsyncIterator[Admin]:
    async with sendonce.Admin.aopen(url_of(database), operator="ada") as admin:
        yield admin


@pytest_asyncio.fixture
async def acme(admin: Admin) -> TenantAdmin:
    return admin.for_tenant("acme")


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


async def test_admin_shows_events_deliveries_attempts_and_why(
    database: Database, store: Store, acme: TenantAdmin
) -> None:
    delivery_id = await given(database, store, Delivered("n-1"))
    waiting = await given(database, store)
    delivery = await acme.adelivery(delivery_id)

    assert [row.id for row in await acme.aevents(type="memo.created")] == [
        (await acme.adelivery(waiting)).event_id,
        delivery.event_id,
    ]
    assert (await acme.aevent(delivery.event_id)).tenant == "acme"
    assert list(await acme.adeliveries(status=DeliveryState.COMPLETED, destination="null:a")) == [delivery]
    assert list(await acme.adeliveries_of(delivery.event_id)) == [delivery]
    assert [row.notification_id for row in await acme.aattempts_of(delivery_id)] == ["n-1"]
    assert any("its id is n-1; nothing more happens" in each for each in (await acme.aexplain(delivery_id)).sentences)
    assert [row.id for row in await acme.aundelivered(limit=10)] == [waiting]
    assert len(await acme.aundelivered(before=waiting)) == 0


async def test_dead_letter_is_listed_and_requeued(database: Database, store: Store, acme: TenantAdmin) -> None:
    delivery_id = await given(database, store, Refused("410"))
    [letter] = await acme.adead_letters(type="memo.created", reason=ReasonClass.REFUSED)
    [group] = await acme.adead_letter_summary(type="memo.created")
    assert (group.reason, group.type, group.host, group.count) == (ReasonClass.REFUSED, "memo.created", "null", 1)

    [reopened] = await acme.as_operator("bob").arequeue([letter.id], reason="it is back")

    assert (letter.delivery_id, reopened.old_delivery_id) == (delivery_id, delivery_id)
    assert (await acme.adelivery(reopened.delivery_id)).generation == 1
    assert (await acme.adead_letter(letter.id)).closed_as == "requeued"
    assert len(await acme.adead_letters()) == len(await acme.adead_letter_summary()) == 0
    [row] = [row for row in database.rows("operations") if row["kind"] == "requeue"]
    assert (row["operator"], row["reason"]) == ("bob", "it is back")


async def test_delivery_in_doubt_is_sent_again_only_on_purpose(
    database: Database, store: Store, acme: TenantAdmin
) -> None:
    held = replace(POLICY, if_unsure=sendonce.IfUnsure.HOLD)
    delivery_id = await given(database, store)
    await settle_with(store, await given_lease(store), Unknown("timeout"), held)
    letter_id = await letter_of(store, delivery_id)

    with pytest.raises(NotAllowed, match="may have been sent already"):
        await acme.arequeue([letter_id], reason="again")
    [reopened] = await acme.arequeue([letter_id], reason="again", even_if_sent=True)

    assert reopened.may_repeat


async def test_delivery_is_replayed_cancelled_discarded_and_attested(
    database: Database, store: Store, acme: TenantAdmin
) -> None:
    sent = await given(database, store, Delivered("n-1"))
    discarded, attested = [await given(database, store, Refused("410")) for _ in range(2)]
    with pytest.raises(NotAllowed, match="was sent"):
        await acme.areplay([sent], reason="again")

    [replayed] = await acme.areplay([sent], reason="again", even_if_sent=True)
    [cancelled] = await acme.acancel([replayed.delivery_id], reason="not wanted")
    acted = await acme.adiscard([await letter_of(store, discarded)], reason="old")
    [known] = await acme.aattest([await letter_of(store, attested)], reason="they called", notification_id="n-2")

    assert cancelled.done
    assert len(acted.ids) == 1
    assert (await acme.adelivery(known.delivery_id)).notification_id == "n-2"
    kinds = {row["kind"]: row["operator"] for row in database.rows("operations")}
    assert {"replay", "cancel", "discard", "attest"} <= kinds.keys()
    assert set(kinds.values()) == {"ada"}


async def test_dead_letter_is_corrected(database: Database, store: Store, acme: TenantAdmin) -> None:
    to = Email("nobody@example.com", subject="Hello", text="Dear Ada")
    event_id = given_event(database, tenant="acme", to=to)
    await settle_with(store, await given_lease(store), Refused("550"))
    [old] = await acme.adeliveries_of(event_id)

    right = Email("ada@example.com", subject="Hello", text="Dear Ada")
    corrected = await acme.acorrect(old.id, to=right, reason="a typo")

    new = await acme.adelivery(corrected.delivery_id)
    assert (new.destination, new.event_id, new.status) == ("mailto:ada@example.com", event_id, DeliveryState.PENDING)
    assert (await acme.adelivery(old.id)).status is DeliveryState.DEAD_LETTERED


async def test_request_is_shown_and_waited_for(database: Database, store: Store, acme: TenantAdmin) -> None:
    with database.connection() as connection:
        made = Outbox().request(
            connection, "review.done", {}, key="r-1", subject="CL-1", version=1, required="null:a", tenant="acme"
        )
    early = await acme.await_for_request(made.request_id, timedelta(milliseconds=20))
    await settle_with(store, await given_lease(store), Delivered("n-1"))

    late = await acme.await_for_request(made.request_id, timedelta(seconds=50))

    assert (early.status, late.status) == ("in_progress", "succeeded")
    assert await acme.arequest(made.request_id) == late


async def test_subscription_is_added_with_a_secret_paused_resumed_and_removed(
    database: Database, store: Store, acme: TenantAdmin
) -> None:
    added = await acme.aadd_subscription(
        types=["order.*"], to="https://hook.example/x", policy={"max_attempts": 5}, rate="10/s", description="orders"
    )
    plain = await acme.aadd_subscription(types=["*"], to="null:a")
    own = new_secret()
    brought = await acme.aadd_subscription(types=["*"], to="https://hook.example/y", secret=own)
    subscription_id = added.subscription.id

    assert (added.secret or "").startswith("whsec_")
    assert str(added.secret) not in repr(added)
    assert (plain.secret, brought.secret) == (None, own)
    assert added.subscription.tenant == "acme"
    assert json.loads(added.subscription.policy or "") == {"max_attempts": 5}
    assert await acme.asubscription(subscription_id) == added.subscription
    assert [row.id for row in await acme.asubscriptions(before=brought.subscription.id, limit=1)] == [
        plain.subscription.id
    ]
    paused = await acme.apause_subscription(subscription_id, reason="holiday")
    assert (paused.state, paused.state_reason) == ("paused", None)
    assert (await acme.aresume_subscription(subscription_id)).state == "active"
    assert (await acme.aremove_subscription(subscription_id)).state == "removed"
    with pytest.raises(NotAllowed, match="was removed, which is for good; add a new one"):
        await acme.aresume_subscription(subscription_id)


async def test_subscription_is_changed_tested_and_gets_a_new_secret(
    database: Database, store: Store, acme: TenantAdmin
) -> None:
    added = await acme.aadd_subscription(types=["order.*"], to="https://hook.example/x", policy={"max_attempts": 5})
    subscription_id = added.subscription.id

    changed = await acme.achange_subscription(subscription_id, types=["memo.*"], policy={"max_attempts": 3})
    same = await acme.achange_subscription(subscription_id)
    default = await acme.achange_subscription(subscription_id, policy={})
    delivery = await acme.atest_subscription(subscription_id)
    rotated = await acme.arotate_secret(subscription_id, overlap=HOUR, reason="leaked")

    assert (changed.types, changed.policy) == (("memo.*",), '{"max_attempts": 3}')
    assert same == changed
    assert (default.types, default.policy) == (("memo.*",), None)
    assert (delivery.subscription_id, delivery.type, delivery.tenant) == (subscription_id, "sendonce.test", "acme")
    assert rotated.is_replacement
    assert rotated.secret != added.secret
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
async def test_subscription_that_is_invalid_is_refused_and_nothing_is_written(
    database: Database, acme: TenantAdmin, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await acme.aadd_subscription(**arguments)

    assert database.rows("subscriptions") == []


async def test_change_that_is_half_wrong_changes_nothing(database: Database, acme: TenantAdmin) -> None:
    added = await acme.aadd_subscription(types=["order.*"], to="null:a")

    with pytest.raises(ConfigError):
        await acme.achange_subscription(added.subscription.id, types=["memo.*"], policy={"max_attempts": 0})

    assert await acme.asubscription(added.subscription.id) == added.subscription


async def test_row_of_another_tenant_spoils_the_whole_call(database: Database, store: Store, admin: Admin) -> None:
    mine = await letter_of(store, await given(database, store, Refused("410")))
    theirs = await letter_of(store, await given(database, store, Refused("410"), tenant="globex"))

    with pytest.raises(NotFound):
        await admin.for_tenant("acme").arequeue([mine, theirs], reason="both")

    assert len(await admin.adead_letters()) == 2


async def test_tenant_is_told_nothing_about_others_or_about_who_runs_the_service(
    database: Database, store: Store, admin: Admin, acme: TenantAdmin
) -> None:
    forbidden = "it leads to a network that is not open; an operator can open it with SENDONCE_ALLOW_NETWORKS"
    moved = await given(database, store, Refused("address_forbidden", forbidden))
    attested = await given(database, store, Refused("410"))
    held = await given(database, store, Deferred("our_account", "it does not let us send", response="account 4711"))
    corrected = await admin.acorrect(moved, to="null:b", reason="they moved in secret")
    [known] = await admin.aattest([await letter_of(store, attested)], reason="they called in secret")
    waiting = await given(database, store)

    for delivery_id in (moved, corrected.delivery_id, attested, known.delivery_id, held, waiting):
        told, to_us = await acme.aexplain(delivery_id), (await admin.aexplain(delivery_id)).sentences
        assert len(told.sentences) <= len(to_us)
        to_them = (*told.sentences, str(told.advice))
        for words in ("ada", "secret", "SENDONCE", "sendonce ", "4711", "worker"):
            assert words not in " ".join(to_them), to_them
    assert any("it leads to a network that is not open)" in each for each in (await acme.aexplain(moved)).sentences)
    assert any("as attested by a person" in each for each in (await acme.aexplain(known.delivery_id)).sentences)
    [attempt] = await acme.aattempts_of(moved)
    assert attempt.error_message == "it leads to a network that is not open"
    assert (await admin.aattempts_of(moved))[0].error_message == forbidden


async def test_tenant_is_not_told_how_many_others_wait(database: Database, store: Store, admin: Admin) -> None:
    delivery = replace(await admin.adelivery(await given(database, store)), next_attempt_at=None, parked_on="place:a")
    known = Snapshot(
        now=database.now(), delivery=delivery, token="", address="a", room=Room(name="place:a", waiting=42)
    )

    assert "it waits with 41 others for a" in tell(known).whereabouts[-1]
    assert "it waits for a" in tell(known.for_tenant()).whereabouts[-1]
    stopped = replace(known, stop=StopRow(scope="all", value="", operator="ada", reason="x", created_at=known.now))
    assert tell(stopped.for_tenant()).whereabouts[-1] == "it is held back for now, and sent later"
    unnamed = replace(known, room=None)
    assert tell(unnamed.for_tenant()).whereabouts[-1] == "it waits for its turn"


async def test_admin_without_a_tenant_sees_them_all(database: Database, store: Store, admin: Admin) -> None:
    for tenant in ("acme", "globex", ""):
        await given(database, store, tenant=tenant)

    assert {row.tenant for row in await admin.adeliveries()} == {"acme", "globex", ""}
    for nobody in ("", None):
        with pytest.raises(ConfigError, match="a tenant has a name"):
            admin.for_tenant(nobody)  # type: ignore[arg-type]


async def test_database_that_is_not_there_is_said_before_the_block(tmp_path: Any) -> None:
    with pytest.raises(sendonce.StoreError, match="run: sendonce migrate"):
        async with sendonce.Admin.aopen(f"sqlite:///{tmp_path / 'none.db'}", operator="ada"):
            pytest.fail("it was opened")
