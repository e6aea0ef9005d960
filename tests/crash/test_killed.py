"""Workers killed in the middle of 2,000 deliveries, three times: nothing lost, and what was repeated is known."""

import signal

import pytest

from tests.crash.accounts import all_completed, completed, in_flight, publish, settle_accounts, url_of, worker
from tests.processes import until
from tests.receiver import Receiver
from tests.stores.databases import Database

AMOUNT = 2000
KILLS = 3


@pytest.mark.slow
def test_nothing_is_lost_and_only_what_was_in_flight_is_repeated(database: Database, receiver: Receiver) -> None:
    receiver.delay = 0.03
    publish(database, receiver, AMOUNT)
    lost: set[int] = set()

    for _ in range(KILLS):
        before = len(receiver.arrivals)
        with worker(database, "--concurrency", "50") as victim:
            until(lambda before=before: len(receiver.arrivals) >= before + 300, "300 more")  # type: ignore[misc]
            victim.kill()
        now = in_flight(database)
        assert 0 < len(now - lost) <= 50 + 200, "what is leased is in a slot, or sent and not settled yet"
        lost |= now
    with worker(database, "--concurrency", "50") as last:
        all_completed(database, AMOUNT)
        last.send(signal.SIGTERM)
        assert last.ended() == 0

    account = settle_accounts(database, receiver, AMOUNT, lost)
    print(f"\n{url_of(database).partition(':')[0]}, {KILLS} kills: {account}")
    assert account.expired
    assert sum(account.repeated.values()) < len(receiver.arrivals) - AMOUNT + 1
    assert database.one("select count(*) from sendonce_dead_letters") == 0
    assert completed(database) == AMOUNT
