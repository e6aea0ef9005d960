"""A message that ends the process of its handler, again and again: it is set aside, and what is behind it goes on."""

import json
from collections.abc import Callable

import pytest

from tests.consumer.brokers import KINDS, Place
from tests.consumer.working import Bank
from tests.processes import Process, until

MOST_LOST = 3


class Supervised:
    """A consumer that is started again whenever it has died."""

    def __init__(self, place: Place, bank: Bank) -> None:
        [kind] = [name for name, cls in KINDS.items() if type(place) is cls]
        self._arguments = ("-m", "tests.consumer.killed", kind, place.address, place.name, bank.url)
        self.deaths = 0

    def until(self, condition: Callable[[], bool], what: str) -> None:
        while True:
            with Process(*self._arguments) as process:
                until(lambda: not process.is_running or condition(), what)
                if process.is_running:
                    return
                self.deaths += 1


@pytest.mark.slow
@pytest.mark.parametrize("bank", ["sqlite", pytest.param("postgres", marks=pytest.mark.more)], indirect=True)
async def test_poison_is_set_aside_and_the_stream_goes_on(bank: Bank, stream: Place) -> None:
    ids = [f"m-{number}" for number in range(12)]
    bodies = [json.dumps({"amount": 5, "kills": id in ("m-3", "m-8")}).encode() for id in ids]
    await stream.put(*zip(ids, bodies, strict=True))
    good = [id for id in ids if id not in ("m-3", "m-8")]

    supervised = Supervised(stream, bank)
    supervised.until(lambda: len(bank.deducted) >= len(good) and len(bank.dead) >= 2, "all is done or set aside")

    assert bank.deducted == sorted(good)
    assert bank.dead == ["m-3", "m-8"]
    told = [row for row in bank.rows("status, reason, begun, error_message, body") if row[0] == "DeadLettered"]
    assert {row[:4] for row in told} == {("DeadLettered", "poison", MOST_LOST, "3 tries ended with their process")}
    assert all(json.loads(row[4])["kills"] for row in told), "it is kept, so that a person can look at it"
    # The first try of each is not counted, unless another had the process killed while it waited.
    assert 2 * MOST_LOST <= supervised.deaths <= 2 * (MOST_LOST + 1)
