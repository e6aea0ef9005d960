"""SIGKILL of a consumer at every named point; another one finishes, and each message has its effect exactly once."""

import signal
from pathlib import Path

import nats
import pytest
import pytest_asyncio

from sendonce.checkpoints import CONSUMING
from tests.consumer.brokers import NatsPlace
from tests.consumer.consuming import consuming, paid, patient_for_a_second, settings
from tests.consumer.working import Bank, new_bank
from tests.crash import killing
from tests.processes import until

AMOUNT = 6
FIRST_TRY = tuple(point for point in CONSUMING if point != "consumer.after_begin")


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Bank:
    made = new_bank(request.param, tmp_path, request)
    await made.make()
    return made


@pytest_asyncio.fixture
async def stream(nats_url: str) -> NatsPlace:
    place = NatsPlace(nats_url)
    await place.make()
    await patient_for_a_second(place)
    return place


def dies_at(bank: Bank, config: Path, point: str, nth: int = 1) -> None:
    """A consumer runs until it is killed there."""
    environment = {killing.POINT: point, killing.PASS: str(nth)}
    with consuming(bank, config, environment=environment) as victim:
        assert victim.ended() == -signal.SIGKILL, victim.said


async def finish(bank: Bank, config: Path, stream: NatsPlace) -> None:
    """A consumer that nobody kills runs until the broker has nothing left to give."""
    client = await nats.connect(stream.address)

    async def left() -> int:
        info = await client.jetstream().consumer_info(stream.name, "wallet")
        return (info.num_pending or 0) + (info.num_ack_pending or 0)

    with consuming(bank, config) as heir:
        while await left():
            assert heir.is_running, heir.said
        until(lambda: all(status == "Completed" for (status,) in bank.rows("status")), "the end of what was kept")
        heir.send(signal.SIGTERM)
        assert heir.ended() == 0
    await client.close()


def end_claims(bank: Bank) -> None:
    """Let the time be over for which a dead process had what is in our own tables."""
    now = "0" if bank.url.startswith("sqlite") else "now()"
    bank.ask(f"update sendonce_messages set next_attempt_at = {now} where status = 'InProgress'")


@pytest.mark.slow
@pytest.mark.parametrize("point", FIRST_TRY)
async def test_consumer_that_dies_here_leaves_one_effect_for_each_message(
    bank: Bank, stream: NatsPlace, tmp_path: Path, point: str
) -> None:
    config = settings(tmp_path, stream)
    await stream.put(*[(f"m-{number}", paid()) for number in range(AMOUNT)])

    dies_at(bank, config, point, nth=3)
    before = bank.deducted
    await finish(bank, config, stream)

    assert len(before) < AMOUNT
    assert bank.deducted == [f"m-{number}" for number in range(AMOUNT)]


@pytest.mark.slow
async def test_consumer_that_dies_when_a_repeated_try_is_counted_leaves_one_effect(
    bank: Bank, stream: NatsPlace, tmp_path: Path
) -> None:
    config = settings(tmp_path, stream)
    await stream.put(("m-1", paid()))

    dies_at(bank, config, "consumer.before_handle")
    dies_at(bank, config, "consumer.after_begin")
    assert (bank.deducted, bank.rows("status, begun, finished")) == ([], [("InProgress", 1, 0)])
    await finish(bank, config, stream)

    assert bank.deducted == ["m-1"]
    assert bank.rows("status, begun, finished") == [("Completed", 2, 1)]


@pytest.mark.slow
async def test_consumer_that_dies_with_what_was_due_again_leaves_one_effect(
    bank: Bank, stream: NatsPlace, tmp_path: Path
) -> None:
    config, needed = settings(tmp_path, stream), tmp_path / "needed"
    await stream.put(("m-1", paid(needs=str(needed))))

    dies_at(bank, config, "consumer.after_begin")
    assert (bank.deducted, bank.rows("status, begun, finished")) == ([], [("InProgress", 2, 1)])
    needed.touch()
    end_claims(bank)
    await finish(bank, config, stream)

    assert bank.deducted == ["m-1"]
    assert bank.rows("status, begun, finished") == [("Completed", 3, 2)]
