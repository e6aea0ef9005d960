"""What was told to people: several workers tell it once, again after a while, and once when it is over."""

import asyncio
from datetime import timedelta

import pytest

from sendonce.domain.attempts import Witness
from sendonce.domain.outcomes import Refused, Unknown
from sendonce.store import alerts
from sendonce.store.ports import Store
from tests.alarms import given_finding, let_pass
from tests.given import given_due_deliveries, given_due_delivery, given_lease, settle_with
from tests.store.databases import Database

HOUR = timedelta(hours=1)


async def told(store: Store, name: str = "dead_letters", message: str = "3 wait", seen: int = 3) -> bool:
    return await store.raise_alert(name, message, seen=seen, repeat=HOUR)


async def test_alert_is_to_be_told_once(store: Store) -> None:
    assert await told(store)
    assert not await told(store)

    [alert] = await store.alerts()
    assert (alert.name, alert.message, alert.seen, alert.is_raised) == ("dead_letters", "3 wait", 3, True)
    assert alert.raised_at == alert.told_at


async def test_M12_of_many_workers_exactly_one_is_to_tell(database: Database, store: Store) -> None:
    stores = [store, *[await database.open() for _ in range(4)]]

    raised = await asyncio.gather(*(told(each) for each in stores * 3))
    cleared = await asyncio.gather(*(each.clear_alert("dead_letters") for each in stores * 3))

    assert raised.count(True) == 1
    assert cleared.count(True) == 1


async def test_alert_is_told_again_after_a_while_and_not_before(database: Database, store: Store) -> None:
    await told(store)
    let_pass(database, timedelta(minutes=59))
    assert not await told(store)

    let_pass(database, timedelta(minutes=2))

    assert await told(store)
    assert not await told(store)
    [alert] = await store.alerts()
    assert alert.told_at - alert.raised_at >= timedelta(minutes=61)


async def test_alert_is_kept_up_to_date_without_telling(store: Store) -> None:
    await told(store)

    assert not await told(store, message="9 wait", seen=9)

    [alert] = await store.alerts()
    assert (alert.message, alert.seen) == ("9 wait", 9)


async def test_alert_end_is_to_be_told_once_and_only_if_it_was_raised(store: Store) -> None:
    assert not await store.clear_alert("dead_letters")
    await told(store)

    assert await store.clear_alert("dead_letters")
    assert not await store.clear_alert("dead_letters")

    assert [alert.is_raised for alert in await store.alerts()] == [False]


async def test_alert_that_comes_back_is_to_be_told_at_once(database: Database, store: Store) -> None:
    await told(store)
    await store.clear_alert("dead_letters")
    let_pass(database, timedelta(minutes=1))

    assert await told(store)

    [alert] = await store.alerts()
    assert alert.is_raised
    assert alert.raised_at == alert.told_at


async def test_condition_has_its_own(store: Store) -> None:
    assert await told(store)
    assert await told(store, "in_doubt")
    assert await store.clear_alert("in_doubt")

    assert [(alert.name, alert.is_raised) for alert in await store.alerts()] == [
        ("dead_letters", True),
        ("in_doubt", False),
    ]


async def test_text_that_no_database_holds_is_made_safe(store: Store) -> None:
    assert await told(store, "our_x\0:" + "s" * 200, "m\0" * 1000)
    assert not await told(store, "our_x\0:" + "s" * 200, "m\0" * 1000)


async def test_status_shows_what_is_raised(store: Store) -> None:
    await told(store)
    await told(store, "in_doubt")
    await store.clear_alert("in_doubt")

    assert [alert.name for alert in (await store.status()).alerts] == ["dead_letters"]


async def test_readings_of_an_empty_database_are_empty(store: Store) -> None:
    readings = await store.readings(HOUR)

    counts = (readings.dead_letters, readings.in_doubt, readings.findings, readings.losses, readings.oldest_due_at)
    assert counts == (0, 0, 0, 0, None)
    assert not readings.is_stopped


async def test_readings_count_what_needs_people(database: Database, store: Store) -> None:
    given_due_deliveries(database, 3)
    lease = await given_lease(store)
    await settle_with(store, lease, Refused("http_404"))
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), Unknown("timeout"))
    given_due_delivery(database)
    let_pass(database, timedelta(minutes=7))

    readings = await store.readings(HOUR)

    assert (readings.dead_letters, readings.in_doubt) == (3, 1)
    [waiting] = given_due_deliveries(database, 1)
    await store.cancel([waiting], operator="ada", reason="decided")
    assert (await store.readings(HOUR)).dead_letters == 3, "what a person has cancelled waits for nobody"
    assert readings.oldest_due_at is not None
    assert readings.now - readings.oldest_due_at >= timedelta(minutes=6)


async def test_delivery_in_doubt_that_was_given_up_counts_as_a_dead_letter_only(
    database: Database, store: Store
) -> None:
    given_due_delivery(database, if_unsure="hold")
    await settle_with(store, await given_lease(store), Unknown("timeout"))

    readings = await store.readings(HOUR)

    assert (readings.dead_letters, readings.in_doubt) == (1, 0)


async def test_stop_of_everything_is_seen_and_another_is_not(store: Store) -> None:
    await store.stop("channel", "null", operator="ada", reason=None)
    assert not (await store.readings(HOUR)).is_stopped

    await store.stop("all", "", operator="ada", reason=None)

    assert (await store.readings(HOUR)).is_stopped


@pytest.mark.parametrize(
    ("kind", "outcome", "counts"),
    [
        ("no_evidence", None, True),
        ("no_provider_id", None, True),
        ("late_result", "Delivered", True),
        ("late_result", "Failed", False),
        ("other_id", None, False),
    ],
)
async def test_findings_count_that_break_send_then_mark(
    database: Database, store: Store, kind: str, outcome: str | None, counts: bool
) -> None:
    given_finding(database, kind, outcome)

    assert (await store.readings(HOUR)).findings == int(counts)


async def test_loss_of_commits_counts_until_it_is_settled_and_for_a_while_after(
    database: Database, store: Store
) -> None:
    witness = Witness(given_due_delivery(database), 1, 7, 1, database.now())
    await store.notice_loss(witness, wait=timedelta(0), noticed_by="host:1")
    database.advance(2 * HOUR)
    open_one = (await store.readings(HOUR)).losses

    await store.disprove_loss(operator="ada", reason="a test")

    assert open_one == 1
    assert (await store.readings(HOUR)).losses == 0
    assert (await store.readings(3 * HOUR)).losses == 1


async def test_findings_that_are_old_do_not_count(database: Database, store: Store) -> None:
    given_finding(database, "no_evidence")
    let_pass(database, timedelta(minutes=61))

    assert (await store.readings(HOUR)).findings == 0


@pytest.fixture
def only_one_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "READING_CAP", 1)


@pytest.mark.usefixtures("only_one_is_counted")
async def test_findings_beyond_the_bound_are_counted_newest_first(database: Database, store: Store) -> None:
    given_finding(database, "no_evidence")
    let_pass(database, timedelta(minutes=61))
    given_finding(database, "no_evidence")

    assert (await store.readings(HOUR)).findings == 1


@pytest.mark.usefixtures("only_one_is_counted")
async def test_doubts_beyond_the_bound_are_counted_newest_first(database: Database, store: Store) -> None:
    """Those before them have ended, and are in doubt for good."""
    ended, _ = given_due_deliveries(database, 2)
    await settle_with(store, await given_lease(store), Unknown("timeout"))
    await store.cancel([ended], operator="ada", reason="enough")

    assert (await store.readings(HOUR)).in_doubt == 1
