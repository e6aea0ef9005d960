"""The held_leases of leases, shared by two threads."""

import sys
import threading
import time

import pytest

from sendonce.engine.lease_keeper import HeldLease, HeldLeases, lease_time


def test_lease_is_done_when_all_its_attempts_are_settled() -> None:
    held_leases = HeldLeases()
    held_leases.enter(7, lease_time() + 10, 3)

    held_leases.settled([7, 7])
    assert held_leases.take_done() == []
    held_leases.settled([7])

    assert held_leases.held() == []
    assert held_leases.take_done() == [7]
    assert held_leases.take_done() == []


def test_lease_that_could_not_be_released_is_given_out_again() -> None:
    held_leases = HeldLeases()
    held_leases.enter(7, lease_time() + 10, 1)
    held_leases.settled([7])

    held_leases.give_back_done(held_leases.take_done())

    assert held_leases.take_done() == [7]


def test_renewed_lease_is_good_for_longer() -> None:
    held_leases = HeldLeases()
    lease = held_leases.enter(7, lease_time() + 1, 1)

    lost = held_leases.renewed([7], {7}, lease_time() + 100)

    assert lost == 0
    assert lease.seconds_left() > 90


def test_lease_that_was_not_granted_is_lost_once_and_good_for_nothing() -> None:
    held_leases = HeldLeases()
    lease = held_leases.enter(7, lease_time() + 10, 1)

    lost = held_leases.renewed([7], set(), lease_time() + 100)

    assert lost == 1
    assert lease.seconds_left() < 0
    assert held_leases.held() == []
    held_leases.settled([7])
    assert held_leases.take_done() == [7]


def test_lease_that_ended_during_a_renewal_is_not_lost() -> None:
    held_leases = HeldLeases()
    held_leases.enter(7, lease_time() + 10, 1)
    asked = held_leases.held()
    held_leases.settled([7])

    assert held_leases.renewed(asked, set(), lease_time() + 100) == 0


def test_progress_is_told_once() -> None:
    held_leases = HeldLeases()
    held_leases.enter(7, lease_time() + 10, 2)
    held_leases.settled([7])

    assert held_leases.take_progress()
    assert not held_leases.take_progress()


def test_threads_lose_no_lease() -> None:
    held_leases = HeldLeases()
    done: list[int] = []
    over = threading.Event()

    def keep() -> None:
        while not over.is_set() or held_leases.held():
            held_leases.renewed(held_leases.held(), set(held_leases.held()), lease_time() + 10)
            done.extend(held_leases.take_done())
        done.extend(held_leases.take_done())

    keeping = threading.Thread(target=keep)
    keeping.start()
    for id in range(2000):
        held_leases.enter(id, lease_time() + 10, 2)
        held_leases.settled([id, id])
    over.set()
    keeping.join(timeout=20)

    assert sorted(done) == list(range(2000))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long it was suspended")
def test_lease_is_over_when_the_machine_was_suspended_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    lease, before = HeldLease(1, lease_time() + 30, 1), time.clock_gettime

    def resumed(clock: int) -> float:
        return before(clock) + (60 if clock == time.CLOCK_BOOTTIME else 0)

    assert lease.seconds_left() > 0
    monkeypatch.setattr(time, "clock_gettime", resumed)
    assert lease.seconds_left() < 0
