"""The audit: what is marked sent is asked about, and sent again only when a person says so."""

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace

import pytest

from sendonce.admin import audit as operations_audit
from sendonce.admin.audit import AuditReport, Check, Means, Repair, audit
from sendonce.channels.protocol import Message
from sendonce.channels.registry import Channels
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.outcomes import (
    CannotTell,
    Delivered,
    Found,
    LookUp,
    NoAnswer,
    NotThere,
    Refused,
)
from sendonce.domain.policies import Policy
from sendonce.engine.orchestrator import Policies
from sendonce.store.ports import Store
from tests.engine import rig
from tests.engine.reconciling import AT_ONCE, LATER, NO_TRIGGERS, given_completed, row_of
from tests.engine.rig import serving, working
from tests.given import given_due_delivery, given_event, given_lease, settle_with
from tests.store.databases import Database, SqliteDatabase
from tests.store.test_parked_queues import a_subscription

JOBS = "https://runner.example/jobs/"


async def audited(
    database: Database,
    store: Store,
    channels: Channels,
    *,
    policy: Policy = AT_ONCE,
    destination: str | None = None,
    repair: Repair | None = None,
) -> AuditReport:
    means = Means(channels=channels, namespace="here", policy_at=Policies(policy, channels.settings()).at)
    report = AuditReport()
    since = database.now() - timedelta(days=2)
    async for report in audit(store, means, since=since, destination=destination, repair=repair):
        assert report.looked_at
    return report


def kinds(rows: Sequence[dict[str, object]]) -> list[tuple[object, object]]:
    return [(row["delivery_id"], row["kind"]) for row in rows]


async def test_R17_what_the_provider_has_no_record_of_is_a_finding_once(database: Database, store: Store) -> None:
    there, gone = await given_completed(database, store, "n-1"), await given_completed(database, store, "n-2")
    channel = rig.Asked(Delivered("n"), answers=[Found("n-1"), NotThere(), Found("n-1"), NotThere()])

    first = await audited(database, store, serving(channel))
    again = await audited(database, store, serving(channel))

    assert first.counts == {Check.CONFIRMED: 1, Check.NO_EVIDENCE: 1}
    assert [(each.delivery.id, each.is_new) for each in first.found] == [(gone, True)]
    assert [(each.delivery.id, each.is_new) for each in again.found] == [(gone, False)]
    assert kinds(database.rows("findings")) == [(gone, "no_evidence")]
    assert (await row_of(store, there)).generation == 0
    assert len(database.rows("deliveries")) == 2
    assert channel.sent == []


async def test_R18_delivery_marked_sent_without_the_providers_id_or_under_another_one_is_a_finding(
    database: Database, store: Store
) -> None:
    without = await given_completed(database, store, None)
    other = await given_completed(database, store, "n-2")
    channel = rig.Asked(Delivered("n"), answers=[Found("p-1"), Found("p-2")])

    report = await audited(database, store, serving(channel))

    assert kinds(database.rows("findings")) == [(without, "no_provider_id"), (other, "other_id")]
    assert [row["notification_id"] for row in database.rows("findings")] == ["p-1", "p-2"]
    assert (report.findings, report.repairable) == (2, 0)


async def test_R17_repair_is_looked_up_once_more_and_then_sent_again(database: Database, store: Store) -> None:
    ids = [await given_completed(database, store, f"n-{number}") for number in range(3)]
    channel = rig.Asked(Delivered("new"), answers=[NotThere(), NotThere(), NotThere(), Found("n-0"), NotThere()])

    report = await audited(
        database, store, serving(channel), repair=Repair(operator="ada", reason="lost by the provider", cap=2)
    )

    assert (report.repairable, len(report.opened)) == (3, 2)
    opened = [await row_of(store, each) for each in report.opened]
    assert [(row.generation, row.in_doubt, row.notification_id) for row in opened] == [
        (1, True, "n-0"),
        (1, True, "n-1"),
    ]
    assert [row["kind"] for row in database.rows("operations")] == ["repair", "repair"]
    async with working(store, serving(channel), until_idle=True) as at_work:
        await at_work.ended()
    assert [message.delivery_id for message in channel.sent] == report.opened[1:]
    assert [(await row_of(store, each)).notification_id for each in report.opened] == ["n-0", "new"]
    assert [(await row_of(store, each)).status for each in ids] == [DeliveryState.COMPLETED] * 3


async def test_R17_cap_of_a_repair_is_on_all_that_an_audit_opens(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations_audit, "STEP", 2)
    for number in range(5):
        await given_completed(database, store, f"n-{number}")
    channel = rig.Asked(Delivered("new"), answers=[NotThere()])

    report = await audited(database, store, serving(channel), repair=Repair(operator="ada", reason="x", cap=3))

    assert (report.repairable, len(report.opened)) == (5, 3)
    assert len(database.rows("operations")) == 3


async def test_R17_one_that_somebody_else_has_opened_meanwhile_holds_up_no_other(
    database: Database, store: Store
) -> None:
    theirs = await given_completed(database, store, "n-1")
    await given_completed(database, store, "n-2")

    class Meanwhile(rig.Asked):
        async def look_up(self, message: Message, *, timeout: float) -> LookUp:
            if message.delivery_id == theirs:
                await store.open_generations([theirs], kind="repair", operator="bob", reason="lost")
            return await super().look_up(message, timeout=timeout)

    channel = Meanwhile(Delivered("new"), answers=[NotThere()])

    report = await audited(database, store, serving(channel), repair=Repair(operator="ada", reason="x", cap=9))

    assert report.repairable == 2
    [again] = [await row_of(store, each) for each in report.opened]
    assert (again.generation, again.notification_id) == (1, "n-2")


async def test_R17_nothing_is_asked_that_the_provider_may_have_forgotten(database: Database, store: Store) -> None:
    await given_completed(database, store, "n-1")
    await given_completed(database, store, None)
    channel = rig.Asked(Delivered("n"), answers=[NotThere()])
    channel.remembers = timedelta(hours=1)  # type: ignore[attr-defined]
    grow_old(database, timedelta(minutes=55))

    report = await audited(database, store, serving(channel), repair=Repair(operator="ada", reason="x", cap=9))

    assert report.counts == {Check.TOO_OLD: 1, Check.NO_PROVIDER_ID: 1}
    assert (channel.asked, report.opened) == ([], [])


def grow_old(database: Database, by: timedelta) -> None:
    """Let time pass for what is finished, which nothing but a test can change."""
    then = database.now() - by
    is_sqlite = isinstance(database, SqliteDatabase)
    guards = "drop trigger finished_deliveries_are_frozen" if is_sqlite else NO_TRIGGERS
    with database.connection() as connection:
        connection.execute(guards)
        value = int(then.timestamp() * 1_000_000) if is_sqlite else then
        connection.execute(database.spell("update sendonce_deliveries set notified_at = ?"), (value,))


async def test_R17_what_the_provider_forgets_while_an_audit_goes_on_is_not_asked_about(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await given_completed(database, store, "n-1")
    channel = rig.Asked(Delivered("n"), answers=[NotThere()])
    channel.remembers = timedelta(hours=1)  # type: ignore[attr-defined]
    grow_old(database, timedelta(minutes=10))
    begun = iter([0.0])  # and from then on it is three quarters of an hour later
    monkeypatch.setattr(operations_audit, "time", SimpleNamespace(monotonic=lambda: next(begun, 45 * 60.0)))

    report = await audited(database, store, serving(channel))

    assert report.counts == {Check.TOO_OLD: 1}
    assert channel.asked == []


async def test_R17_what_was_sent_a_moment_ago_is_not_missing_yet(database: Database, store: Store) -> None:
    await given_completed(database, store)
    channel = rig.Asked(Delivered("n"), answers=[NotThere()])

    report = await audited(database, store, serving(channel), policy=LATER)

    assert report.counts == {Check.TOO_FRESH: 1}


async def test_audit_says_what_it_could_not_check(database: Database, store: Store) -> None:
    await given_completed(database, store, to="plain:a")
    await given_completed(database, store)
    await given_completed(database, store)
    channels = serving(rig.Told(Delivered()), "plain")
    answers: list[object] = [NoAnswer("down"), CannotTell("too_old")]
    channels.add(rig.Asked(Delivered("n"), answers=answers), "test")

    report = await audited(database, store, channels)

    assert report.counts == {Check.CANNOT_BE_ASKED: 2, Check.NO_ANSWER: 1}
    assert (report.findings, report.unanswered) == (0, 1)


async def test_audit_asks_about_subscriptions_without_secrets_of_ours(database: Database, store: Store) -> None:
    """A profile that is not open to subscriptions neither sends for them nor asks."""
    await a_subscription(store, f"{JOBS}7")
    given_event(database)
    await settle_with(store, await given_lease(store), Delivered("n-1"))
    ours, plain = (rig.Asked(Delivered("n"), answers=[answer]) for answer in (NotThere(), Found("n-1")))
    channels = serving(ours, JOBS)
    channels.add(plain, "https")

    report = await audited(database, store, channels)

    assert report.counts == {Check.CONFIRMED: 1}
    assert (len(plain.asked), ours.asked) == (1, [])


async def test_audit_of_one_destination_looks_at_nothing_else(database: Database, store: Store) -> None:
    await given_completed(database, store, to="test:a")
    wanted = await given_completed(database, store, to="test:b")
    channel = rig.Asked(Delivered("n"), answers=[NotThere()])

    report = await audited(database, store, serving(channel), destination="test:b")

    assert [each.delivery.id for each in report.found] == [wanted]


async def test_audit_finds_what_a_person_attested_and_does_not_send_it_again(database: Database, store: Store) -> None:
    delivery_id = given_due_delivery(database, to="test:a")
    await settle_with(store, await given_lease(store), Refused("x"))
    letter = await store.dead_letter_of(delivery_id)
    assert letter is not None
    await store.attest([letter.id], operator="ada", reason="seen")
    channel = rig.Asked(Delivered("n"), answers=[NotThere()])

    report = await audited(database, store, serving(channel), repair=Repair(operator="ada", reason="x", cap=9))

    assert (report.counts, report.opened) == ({Check.NO_EVIDENCE: 1}, [])
