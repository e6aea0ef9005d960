"""The clock moves all that the engine does by time, the same on both databases."""

import sqlite3
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Self

import pytest

from sendonce import ConfigError, Failed, Unknown, testing
from tests.testing.recording import HOOK, publish


def test_delivery_for_later_waits_for_its_time(connection: Any) -> None:
    box = testing.outbox(connection)
    publish(connection, deliver_at=datetime.now(UTC) + timedelta(hours=1))

    drained = [len(box.drain())]
    box.clock.advance(minutes=59)
    drained.append(len(box.drain()))
    box.clock.advance(minutes=1)
    drained.append(len(box.drain()))

    assert drained == [0, 0, 1]


def test_times_that_are_reckoned_from_the_moved_clock_fit_it(connection: Any) -> None:
    box = testing.outbox(connection)
    box.clock.advance(days=2)
    publish(connection, "soon", deliver_at=box.clock.now() + timedelta(minutes=5))
    publish(connection, "late", expires_at=box.clock.now() - timedelta(minutes=5))

    first = box.drain()
    box.clock.advance(minutes=5)
    second = box.drain()

    assert (first, [each.key for each in second]) == ([], ["soon"])
    assert [(each.key, each.reason) for each in box.dead_letters()] == [("late", "expired")]


def test_deadline_passes(connection: Any) -> None:
    box = testing.outbox(connection)
    publish(connection, expires_at=datetime.now(UTC) + timedelta(hours=1))

    box.clock.advance(timedelta(hours=1))

    assert box.drain() == []
    assert [each.reason for each in box.dead_letters()] == ["expired"]


def test_breaker_is_probed_when_its_pause_is_over(connection: Any) -> None:
    box = testing.outbox(connection, policy={"max_attempts": 50, "jitter": 0})
    box.receiver.answer(Failed("down"), times=10)
    for n in range(12):
        publish(connection, str(n))

    tried = len(box.drain())
    box.clock.advance(hours=2)
    later = len(box.drain())

    assert tried >= 10
    assert later >= 1
    assert box.received(HOOK) == tried - 10 + later


def test_doubt_waits_before_it_is_asked(connection: Any) -> None:
    box = testing.outbox(connection, can_be_asked=True, policy={"doubt_wait": "5m"})
    box.receiver.answer(Unknown("timeout"))
    publish(connection)
    box.drain()

    box.clock.advance(minutes=4)
    box.drain()
    early = box.receiver.asked
    box.clock.advance(minutes=1)
    box.drain()

    assert (early, box.receiver.asked, box.received(HOOK)) == (0, 1, 1)
    assert [each.status for each in box.deliveries()] == ["Completed"]


def test_channel_is_given_the_moved_time(connection: Any) -> None:
    box = testing.outbox(connection)
    publish(connection)

    box.clock.advance(days=3)

    assert "(3d ago)" in box.explain(1)[0]


def test_machine_whose_clock_is_behind_the_databases_sends_all_the_same(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Behind(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) - timedelta(seconds=5)

    box = testing.outbox(connection)
    publish(connection, deliver_at=datetime.now(UTC))
    if not isinstance(connection, sqlite3.Connection):  # there it is the same clock
        monkeypatch.setattr("sendonce.testing.box.datetime", Behind)

    assert len(box.drain()) == 1


def test_clock_cannot_be_moved_back_or_by_what_is_no_time() -> None:
    clock = testing.Clock()

    with pytest.raises(ConfigError, match="cannot be moved back"):
        clock.advance(minutes=-1)
    with pytest.raises(ConfigError, match=r"like advance\(minutes=2, seconds=30\)"):
        clock.advance(fortnights=1)
