"""The sender: slots, deadlines, cuts, and that every claim is reported exactly once."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from sendonce.domain.attempts import Report
from sendonce.domain.outcomes import Deferred, Delivered, Fault, Outcome, Unknown
from sendonce.domain.policies import Policy
from sendonce.engine import lease_keeper
from sendonce.engine import send_pool as sender_module
from sendonce.engine.attempt import AttemptRunner
from sendonce.engine.config import WorkerConfig
from sendonce.engine.lease_keeper import HeldLease
from sendonce.engine.orchestrator import Policies
from sendonce.engine.send_pool import SendPool
from tests.domain.values import a_claim
from tests.engine.rig import QUICK, Told, never, once, serving
from tests.processes import until_async


class Sending:
    """A sender and what it has reported."""

    def __init__(self, channel: Told, concurrency: int, policy: Policy, longest_send: float) -> None:
        self.reports: list[Report] = []
        self.sender = SendPool(
            AttemptRunner(serving(channel), "here"),
            Policies(policy),
            concurrency=concurrency,
            longest_send=longest_send,
            on_report=lambda report, _: self.reports.append(report),
        )
        self._numbers = 0

    def take(self, amount: int, *, lease_seconds: float = 300.0) -> HeldLease:
        first = self._numbers + 1
        self._numbers += amount
        ids = range(first, self._numbers + 1)
        claims = tuple(a_claim(delivery_id=id, destination="test:a", address="test:a") for id in ids)
        lease = HeldLease(first, lease_keeper.lease_time() + lease_seconds, amount)
        self.sender.take(lease, claims)
        return lease

    async def reported(self, amount: int) -> list[Outcome]:
        """The outcomes, in the order of the claims; each was reported once."""
        await until_async(lambda: len(self.reports) >= amount, f"{amount} reports")
        by_id = {report.claim.delivery_id: report.outcome for report in self.reports}
        assert len(by_id) == len(self.reports) == amount
        return [by_id[id] for id in sorted(by_id)]


@asynccontextmanager
async def sending(
    channel: Told, *, concurrency: int = 4, policy: Policy = QUICK, longest_send: float = 60.0
) -> AsyncIterator[Sending]:
    made = Sending(channel, concurrency, policy, longest_send)
    made.sender.open()
    yield made
    await asyncio.wait_for(made.sender.close(), 50)


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the leases."""
    now = lease_keeper.lease_time()
    monkeypatch.setattr(lease_keeper, "lease_time", lambda: now)


def timeout(seconds: float) -> Policy:
    return replace(QUICK, timeout=timedelta(seconds=seconds))


async def test_slots_all_send_at_once_and_never_more() -> None:
    gate = asyncio.Event()
    channel = Told(once(gate, Delivered()))
    async with sending(channel, concurrency=4, policy=timeout(60)) as made:
        made.take(3)
        made.take(1)
        await until_async(lambda: channel.sending == 4, "four sends at once")

        assert (made.sender.free, made.sender.busy) == (0, 4)
        gate.set()
        assert await made.reported(4) == [Delivered()] * 4
        assert made.sender.free == 4
    assert channel.most == 4


async def test_burst_of_sends_that_never_wait_is_reported_whole() -> None:
    async with sending(Told(Delivered()), concurrency=500) as made:
        made.take(500)

        assert await made.reported(500) == [Delivered()] * 500


async def test_send_that_is_slow_does_not_hold_up_the_others() -> None:
    channel = Told(never, Delivered())
    async with sending(channel, concurrency=3, policy=timeout(60)) as made:
        made.take(3)
        await until_async(lambda: len(made.reports) == 2, "the other two")
        made.take(2)

        await until_async(lambda: len(made.reports) == 4, "two more")
        assert made.sender.busy == 1


async def test_hanging_send_is_cut_off_at_its_timeout() -> None:
    channel = Told(never, Delivered())
    async with sending(channel, concurrency=1, policy=timeout(0.1)) as made:
        made.take(1)
        [outcome] = await made.reported(1)
        made.take(1)

        assert isinstance(outcome, Unknown)
        assert outcome.code == "timeout"
        assert (await made.reported(2))[1] == Delivered()
    assert channel.sending == 0


@pytest.mark.parametrize("error", [RuntimeError("user=ada password=x"), KeyError("x"), asyncio.CancelledError()])
async def test_channel_that_raises_may_have_sent(error: BaseException) -> None:
    async with sending(Told(error, error, Delivered()), concurrency=1) as made:
        made.take(1)
        await made.reported(1)
        made.take(1)
        await made.reported(2)
        made.take(1)
        outcomes = await made.reported(3)

    said = type(error).__name__ + ("" if isinstance(error, asyncio.CancelledError) else r" in \w+\.py, line \d+")
    assert outcomes[2] == Delivered()
    for outcome in outcomes[:2]:
        assert isinstance(outcome, Unknown)
        assert outcome.code == "channel_error"
        assert re.fullmatch(said, outcome.message or "")


async def test_channel_that_answers_when_it_is_cut_off_is_believed_and_its_slot_goes_on() -> None:
    async def stubborn() -> Outcome:
        try:
            await never()
        except asyncio.CancelledError:
            return Delivered("just in time")
        raise AssertionError("unreachable")

    channel = Told(stubborn, asyncio.CancelledError(), Delivered("next"))
    async with sending(channel, concurrency=1, policy=timeout(0.1)) as made:
        for count in (1, 2, 3):
            made.take(1)
            await made.reported(count)
        outcomes = await made.reported(3)

    assert outcomes == [
        Delivered("just in time"),
        Unknown("channel_error", "CancelledError", fault=Fault.CHANNEL),
        Delivered("next"),
    ]


async def test_lease_that_is_about_to_run_out_is_not_used() -> None:
    channel = Told(Delivered())
    async with sending(channel, policy=timeout(3)) as made:
        made.take(1, lease_seconds=1.1)
        made.take(1, lease_seconds=-5)
        outcomes = await made.reported(2)

    assert [type(outcome) for outcome in outcomes] == [Deferred, Deferred]
    assert channel.sent == []


@pytest.mark.usefixtures("no_time_passes")
async def test_shortest_lease_is_long_enough_to_send() -> None:
    shortest = WorkerConfig(lease=timedelta(seconds=1))
    longest = shortest.longest_send.total_seconds()
    channel = Told(Delivered())
    async with sending(channel, policy=timeout(longest), longest_send=longest) as made:
        made.take(1, lease_seconds=shortest.lease.total_seconds() - 0.1)  # claiming has taken a moment
        [outcome] = await made.reported(1)

    assert outcome == Delivered()


async def test_lease_that_is_lost_is_not_used() -> None:
    channel = Told(Delivered())
    async with sending(channel, concurrency=2) as made:
        lease = HeldLease(1, lease_keeper.lease_time() + 300, 1)
        lease.good_until = 0.0
        made.sender.take(lease, (a_claim(delivery_id=1, destination="test:a", address="test:a"),))
        [outcome] = await made.reported(1)

    assert isinstance(outcome, Deferred)
    assert channel.sent == []


@pytest.mark.usefixtures("no_time_passes")
@pytest.mark.parametrize(
    ("wanted", "lease_seconds", "granted"),
    [(2.0, 30.0, 2.0), (2.0, 1.5, 1.3), (9.0, 30.0, 4.0)],
    ids=["the policy's", "what the lease has left", "never longer than leases allow"],
)
async def test_send_gets_no_more_time_than_there_is(wanted: float, lease_seconds: float, granted: float) -> None:
    channel = Told(Delivered())
    async with sending(channel, policy=timeout(wanted), longest_send=4.0) as made:
        made.take(1, lease_seconds=lease_seconds)
        await made.reported(1)

    assert channel.timeouts == [pytest.approx(granted)]


async def test_claim_that_was_not_begun_is_handed_back() -> None:
    channel = Told(Delivered())
    async with sending(channel, concurrency=2) as made:
        made.take(2)
        made.sender.hand_back()

        outcomes = await made.reported(2)
    assert [type(outcome) for outcome in outcomes] == [Deferred, Deferred]
    assert channel.sent == []


async def test_send_that_is_cut_off_at_the_end_is_unknown() -> None:
    channel = Told(never)
    async with sending(channel, concurrency=2, policy=timeout(60)) as made:
        made.take(2)
        await until_async(lambda: channel.sending == 2, "two sends")
        made.sender.cut_off()

        outcomes = await made.reported(2)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, Unknown)] == ["stopped", "stopped"]


async def test_send_pool_reports_nothing_unknown_when_closed() -> None:
    channel = Told(never)
    async with sending(channel, policy=timeout(60)) as made:
        made.take(2)
        await until_async(lambda: channel.sending == 2, "two sends")

    assert made.reports == []
    assert channel.sending == 0


async def test_channel_that_will_not_be_cancelled_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "CLOSE_SECONDS", 0.2)
    free = asyncio.Event()

    async def deaf() -> Outcome:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return Delivered()

    channel = Told(deaf)
    try:
        async with sending(channel, concurrency=1, policy=timeout(0.1)) as made:
            made.take(1)
            await until_async(lambda: channel.sending == 1, "the send")
    finally:
        free.set()
    assert made.reports == []


def blocking(seconds: float) -> Callable[[], object]:
    """What a channel must not do, and some do: stand on the loop."""

    async def block() -> Outcome:
        time.sleep(seconds)  # noqa: ASYNC251
        return Delivered()

    return block


async def test_send_that_blocks_the_loop_is_reported_as_it_ended() -> None:
    async with sending(Told(blocking(0.3)), concurrency=2, policy=timeout(0.1)) as made:
        made.take(2)

        assert await made.reported(2) == [Delivered()] * 2
