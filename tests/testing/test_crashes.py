"""A crash leaves what a killed worker leaves, at every point that a drain comes to and on every kind of connection."""

import asyncio
from typing import Any

import pytest

from sendonce import ConfigError, Delivered, Unknown, testing
from sendonce.channels import Channels, Message, Outcome
from sendonce.checkpoints import POINTS, checkpoint
from sendonce.testing.box import Box
from sendonce.testing.crash import Crash
from tests.outbox.callers import Caller
from tests.testing.recording import HOOK, MAIL, publish

IN_FLIGHT = ["after_claim", "before_send", "after_send", "before_settle"]


def states(box: Box) -> list[tuple[str, int]]:
    return [(each.status, each.attempt_count) for each in box.deliveries()]


@pytest.mark.parametrize("point", IN_FLIGHT)
def test_crash_leaves_a_lease_until_the_clock_has_moved(connection: Any, point: str) -> None:
    box = testing.outbox(connection)
    publish(connection)

    with box.crash(point):
        box.drain()
    arrived = box.received(HOOK)
    left = states(box)
    at_once = box.drain()
    box.clock.advance(minutes=2)
    later = box.drain()

    assert arrived == (0 if point in ("after_claim", "before_send") else 1)
    assert left == [("InProgress", 0)]
    assert at_once == []
    assert [(each.attempt, each.token) for each in later] == [(2, box.sent[-1].token)]
    assert (box.received(HOOK), len({each.token for each in box.sent})) == (arrived + 1, 1)
    assert states(box) == [("Completed", 2)]


def test_crash_keeps_what_was_settled_before(connection: Any) -> None:
    box = testing.outbox(connection)
    publish(connection)

    with box.crash("after_settle"):
        box.drain()
    box.clock.advance(minutes=2)

    assert states(box) == [("Completed", 1)]
    assert box.drain() == []
    assert box.received(HOOK) == 1


@pytest.mark.parametrize(("point", "asked"), [("before_look_up", 0), ("after_look_up", 1)])
def test_crash_at_a_look_up_is_followed_by_another_look_up(connection: Any, point: str, asked: int) -> None:
    box = testing.outbox(connection, can_be_asked=True)
    box.receiver.answer(Unknown("timeout"))
    publish(connection)
    box.drain()
    box.clock.advance(minutes=1)

    with box.crash(point):
        box.drain()
    first = box.receiver.asked
    box.clock.advance(minutes=5)
    box.drain()

    assert (first, box.receiver.asked, box.received(HOOK)) == (asked, asked + 1, 1)
    assert states(box)[0][0] == "Completed"


@pytest.mark.parametrize("point", ["before_expire", "after_expire"])
def test_crash_while_leases_are_closed_loses_nothing(connection: Any, point: str) -> None:
    box = testing.outbox(connection)
    publish(connection)
    with box.crash("before_send"):
        box.drain()
    box.clock.advance(minutes=2)

    with box.crash(point):
        box.drain()
    left = states(box)
    box.clock.advance(minutes=2)
    box.drain()

    assert left == [("InProgress", 0) if point == "before_expire" else ("PendingRetry", 1)]
    assert box.received(HOOK) == 1
    assert states(box) == [("Completed", 2)]


def test_point_that_a_drain_comes_to_is_covered_here() -> None:
    covered = {*IN_FLIGHT, "after_settle", "before_look_up", "after_look_up", "before_expire", "after_expire"}

    assert {name.partition(".")[2] for name in POINTS} - covered == {"before_renew"}


def test_crash_in_a_mail_is_held_for_a_person(connection: Any) -> None:
    box = testing.outbox(connection)
    publish(connection, to=MAIL)

    with box.crash("after_send"):
        box.drain()
    box.clock.advance(minutes=2)
    box.drain()

    assert box.received(MAIL) == 1
    assert [each.reason for each in box.dead_letters()] == ["in_doubt"]


def test_receiver_that_can_be_asked_is_asked_and_nothing_is_doubled(connection: Any) -> None:
    box = testing.outbox(connection, can_be_asked=True)
    publish(connection, to=[HOOK, MAIL])

    with box.crash("before_settle"):
        box.drain()
    box.clock.advance(minutes=2)

    assert box.drain() == []
    assert (box.receiver.asked, box.received(HOOK), box.received(MAIL)) == (2, 1, 1)
    assert {status for status, _ in states(box)} == {"Completed"}


def test_crash_repeats_only_what_was_begun(connection: Any) -> None:
    box = testing.outbox(connection)
    for n in range(5):
        publish(connection, str(n))

    with box.crash("after_send"):
        box.drain()
    first = len(box.sent)
    box.clock.advance(minutes=2)
    box.drain()

    assert first == 1
    assert sorted(each.key for each in box.sent) == ["0", "0", "1", "2", "3", "4"]
    assert {status for status, _ in states(box)} == {"Completed"}


def test_token_is_the_same_for_ones_own_handler_after_a_crash(connection: Any) -> None:
    channels, handled = Channels(), dict[str, str]()

    @channels.channel("sms")
    async def send(message: Message, *, timeout: float) -> Outcome:
        handled.setdefault(message.token, message.body)
        return Delivered(message.token)

    box = testing.outbox(connection, channels=channels)
    publish(connection, to="sms:1")

    with box.crash("after_send"):
        box.drain()
    box.clock.advance(minutes=2)
    box.drain()

    assert (len(handled), box.received("sms:1")) == (1, 2)


async def test_crash_is_the_same_on_every_kind_of_connection(caller: Caller) -> None:
    box = await testing.aoutbox(caller.connection)
    await box.aadmin(lambda admin: admin.aadd_subscription(types=["memo.created"], to=HOOK))
    for key in ("1", "2"):
        await caller.publish("memo.created", {}, key=key, to=HOOK)

    with box.crash("after_send"):
        await box.adrain()
    await caller.do("insert into memos (id, body) values (1, 'mine')")
    box.clock.advance(minutes=2)
    await box.adrain()

    rows = await box.aadmin(lambda admin: admin.adeliveries())
    assert [each.status for each in rows] == ["Completed"] * 4
    assert 4 <= box.received(HOOK) <= 8


def test_crash_can_follow_a_crash(connection: Any) -> None:
    box = testing.outbox(connection)
    publish(connection)

    for _ in range(3):
        with box.crash("before_send"):
            box.drain()
        box.clock.advance(minutes=5)
    box.drain()

    assert states(box) == [("Completed", 4)]
    assert box.received(HOOK) == 1


def test_point_that_is_not_there_is_an_error_that_names_all(connection: Any) -> None:
    box = testing.outbox(connection)

    named = "no point 'lunch' to crash at; there are: after_claim, before_look_up, "
    with pytest.raises(ConfigError, match=named), box.crash("lunch"):
        pass


@pytest.mark.parametrize("point", ["before_renew", "keeper.before_renew"])
def test_point_that_no_drain_comes_to_is_not_there(connection: Any, point: str) -> None:
    box = testing.outbox(connection)

    with pytest.raises(ConfigError, match=f"no point '{point}' to crash at"), box.crash(point):
        pass


async def test_crash_cuts_off_the_database_and_ends_the_engine() -> None:
    crash, cuts = Crash("after_send"), list[str]()
    engine: asyncio.Task[object] = asyncio.create_task(asyncio.Event().wait())
    crash.arm(engine, lambda: cuts.append("cut"))
    try:
        checkpoint("sender.before_send")
        with pytest.raises(asyncio.CancelledError):
            checkpoint("sender.after_send")
    finally:
        crash.disarm()

    await asyncio.wait([engine], timeout=50)
    assert (cuts, engine.cancelled(), crash.has_happened) == (["cut"], True, True)


async def test_drain_that_is_cancelled_has_not_crashed(connection: Any) -> None:
    channels, begun = Channels(), asyncio.Event()

    @channels.channel("sms")
    async def send(message: Message, *, timeout: float) -> Outcome:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    box = await testing.aoutbox(connection, channels=channels)
    publish(connection, to="sms:1")

    async def cancelled() -> None:
        with box.crash("after_send"):
            await box.adrain()

    drain = asyncio.create_task(cancelled())
    await asyncio.wait_for(begun.wait(), 50)
    drain.cancel()

    with pytest.raises(asyncio.CancelledError):
        await drain


def test_crash_of_the_tests_own_is_not_taken_for_ours(connection: Any) -> None:
    box = testing.outbox(connection)

    with pytest.raises(testing.Crashed, match="mine"), box.crash("after_send"):
        raise testing.Crashed("mine")


def test_point_that_was_not_reached_fails_the_test(connection: Any) -> None:
    box = testing.outbox(connection)

    with (
        pytest.raises(AssertionError, match=r"no drain came to sender\.after_send in this block"),
        box.crash("sender.after_send"),
    ):
        box.drain()


def test_crash_can_be_planned_only_once_at_a_time(connection: Any) -> None:
    box = testing.outbox(connection)
    publish(connection)

    with box.crash("after_send"):
        with (
            pytest.raises(ConfigError, match=r"a crash at sender\.after_send is to come already"),
            box.crash("before_send"),
        ):
            pass
        box.drain()


def test_error_of_the_test_within_the_block_is_its_own(connection: Any) -> None:
    box = testing.outbox(connection)

    with pytest.raises(KeyError), box.crash("after_send"):
        raise KeyError
    publish(connection)

    assert len(box.drain()) == 1
