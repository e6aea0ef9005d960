"""The sender: a fixed number of slots that send what was claimed. One watcher for all deadlines, no timer per send."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from sendonce.channels.protocol import named
from sendonce.domain.answers import CHANNEL_ERROR, CUT_OFF, HANDED_BACK, TIMED_OUT
from sendonce.domain.attempts import Claim, Report
from sendonce.domain.policies import Policy
from sendonce.engine.attempt import AttemptRunner
from sendonce.engine.lease_keeper import HeldLease
from sendonce.engine.orchestrator import Policies

WATCH_SECONDS = 0.1
MARGIN_SECONDS = 0.2
CLOSE_SECONDS = 5.0


class _Slot:
    """One send at a time, with the moment at which it is cut off."""

    __slots__ = ("deadline", "late", "lease", "longest", "task")

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self.deadline = 0.0
        self.late = False
        self.lease: HeldLease | None = None
        self.task: asyncio.Task[None] | None = None

    def seconds(self, policy: Policy) -> float:
        """Set the deadline of the next write to the wire: the policy's timeout, or less when the lease has less."""
        left = 0.0 if self.lease is None else self.lease.seconds_left() - MARGIN_SECONDS
        wanted = min(policy.timeout.total_seconds(), self.longest)
        if left < min(wanted, 1.0, self.longest / 2):
            return 0.0
        granted = min(wanted, left)
        self.deadline = time.monotonic() + granted + WATCH_SECONDS
        return granted


class SendPool:
    """Takes claims, hands back reports: `on_report` is called for each, and with how long it took, when its slot is
    free again."""

    def __init__(
        self, runner: AttemptRunner, policies: Policies, *, concurrency: int, longest_send: float,
        on_report: Callable[[Report, float], None], on_raise: Callable[[Claim, BaseException], None] | None = None,
    ) -> None:  # fmt: skip
        self._on_raise = on_raise
        self._runner = runner
        self._policies = policies
        self._on_report = on_report
        self._slots = [_Slot(longest_send) for _ in range(concurrency)]
        self._waiting: deque[tuple[Claim, HeldLease]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._is_waking = False
        self._busy = 0
        self._watcher: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def free(self) -> int:
        """How many more claims can be sent at once."""
        return len(self._slots) - self._busy

    @property
    def busy(self) -> int:
        return self._busy

    def open(self) -> None:
        """Start the slots."""
        for slot in self._slots:
            slot.task = asyncio.create_task(self._run(slot))
        self._watcher = asyncio.create_task(self._watch())

    def take(self, lease: HeldLease, claims: tuple[Claim, ...]) -> None:
        """Send these claims. There must not be more than `free`."""
        self._busy += len(claims)
        self._waiting.extend([(claim, lease) for claim in claims])
        self._wake()

    def hand_back(self) -> None:
        """Report the claims whose sending has not begun as not tried."""
        while self._waiting:
            claim, lease = self._waiting.popleft()
            self._report(Report(claim, lease.id, HANDED_BACK), 0.0)

    def cut_off(self) -> None:
        """Cancel what is still being sent; each is reported as Unknown."""
        for slot in self._slots:
            if slot.deadline and slot.task is not None:
                self._stopped = True
                slot.late = True
                slot.task.cancel()

    async def close(self) -> None:
        """End the slots. What is being sent then is not reported: its lease expires."""
        tasks = [slot.task for slot in self._slots if slot.task is not None]
        if self._watcher is not None:
            tasks.append(self._watcher)
        for slot in self._slots:
            slot.late = False
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)  # a channel that will not be cancelled must not hold us

    async def _run(self, slot: _Slot) -> None:
        waiting, idle = self._waiting, self._idle
        loop = asyncio.get_running_loop()
        while True:
            if not waiting:
                future = loop.create_future()
                idle.append(future)
                await future
                self._is_waking = False
                continue
            claim, lease = waiting.popleft()
            if waiting:
                self._wake()
            begun = time.monotonic()
            report = await self._send(slot, claim, lease)
            self._report(report, time.monotonic() - begun)

    def _wake(self) -> None:
        """Wake one idle slot; it wakes the next if there is more. Sends that never wait keep one slot busy only."""
        if self._idle and not self._is_waking:
            self._is_waking = True
            future = self._idle.pop()
            if future.cancelled():
                self._is_waking = False
            else:
                future.set_result(None)

    async def _send(self, slot: _Slot, claim: Claim, lease: HeldLease) -> Report:
        slot.lease = lease
        task = slot.task
        try:
            return await self._runner.attempt(claim, lease.id, self._policies.of(claim), slot.seconds)
        except asyncio.CancelledError:
            if slot.late:
                return Report(claim, lease.id, CUT_OFF if self._stopped else TIMED_OUT)
            if task is None or task.cancelling():
                raise
            # Raised by the channel itself.
            return Report(claim, lease.id, replace(CHANNEL_ERROR, message="CancelledError"))
        except Exception as error:  # a channel's own fault: it may have sent, and its text may hold what is secret
            if self._on_raise is not None:
                self._on_raise(claim, error)
            return Report(claim, lease.id, replace(CHANNEL_ERROR, message=named(error)))
        finally:
            # Also when the channel has swallowed it: a count left behind would end the slot at a later exception.
            while slot.late and task is not None and task.cancelling():
                task.uncancel()
            slot.deadline = 0.0
            slot.late = False

    def _report(self, report: Report, seconds: float) -> None:
        self._busy -= 1
        self._on_report(report, seconds)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = time.monotonic()
            for slot in self._slots:
                if slot.deadline and slot.deadline < now and not slot.late and slot.task is not None:
                    slot.late = True
                    slot.task.cancel()
