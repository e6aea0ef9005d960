"""The test outbox: the engine on the test's own connection, and all that a test wants to tell it or to know."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from sendonce.admin.api import Admin
from sendonce.admin.session import StoreSession
from sendonce.channels.registry import Channels
from sendonce.domain.policies import DEFAULT_POLICY, override
from sendonce.engine.config import check_timeout
from sendonce.errors import ConfigError
from sendonce.sealing import SecretBox
from sendonce.sql.drivers import AsyncConnection, SyncConnection, is_async
from sendonce.store.records import DeadLetterRow, DeliveryRow, SubscriptionRow
from sendonce.testing.clock import Clock
from sendonce.testing.connections import opened
from sendonce.testing.crashing import Crash, Crashed
from sendonce.testing.passing import CONFIG, Pass
from sendonce.testing.receiver import Receiver
from sendonce.testing.recorded import RecordedChannels
from sendonce.testing.sent import Sent

Answer = TypeVar("Answer")
MOST_TRIES = 100
MOST_ROWS = 1000


def outbox(
    connection: SyncConnection,
    *,
    channels: Channels | None = None,
    policy: Mapping[str, object] | None = None,
    can_be_asked: bool = False,
) -> "Box":
    """A box on this connection, in the transaction that it is in; the tables are made there if they are missing.

    What has no channel among `channels` is taken by `box.receiver`, so that nothing leaves the process. `policy` as in
    the settings: `{"max_attempts": 3, "jitter": 0}`. Raises ConfigError for a connection that the engine cannot run on.
    """
    box = Box(connection, channels=channels, policy=policy, can_be_asked=can_be_asked)
    box.deliveries(limit=1)
    return box


async def aoutbox(
    connection: AsyncConnection | SyncConnection,
    *,
    channels: Channels | None = None,
    policy: Mapping[str, object] | None = None,
    can_be_asked: bool = False,
) -> "Box":
    """`outbox` within an event loop, on an async connection or session or on any other."""
    box = Box(connection, channels=channels, policy=policy, can_be_asked=can_be_asked)
    await box.aadmin(lambda admin: admin.adeliveries(limit=1))
    return box


class Box:
    """See `outbox`. `sent` is all that was handed to channels until now, `clock` the engine's time."""

    def __init__(
        self, connection: Any, *, channels: Channels | None, policy: Mapping[str, object] | None, can_be_asked: bool
    ) -> None:
        self.clock = Clock()
        self.receiver = Receiver(can_be_asked=can_be_asked)
        self.sent: list[Sent] = []
        self._connection = connection
        self._policy = override(DEFAULT_POLICY, policy or {})
        check_timeout(CONFIG, self._policy)
        self._channels = RecordedChannels(self.receiver, self._hear, channels)
        self._crash: Crash | None = None
        self._pass: Pass | None = None
        self._tries: Counter[int] = Counter()
        self._leases: list[datetime] = []

    # The engine.

    def drain(self) -> list[Sent]:
        """Run the engine until nothing is left to do now; all that it handed to channels, in order.

        What waits for its retry, its time or an answer needs the clock moved. Nothing is committed here.
        """
        return self._run(self.adrain)

    async def adrain(self) -> list[Sent]:
        """`drain` within an event loop."""
        before = len(self.sent)
        self._tries.clear()
        async with opened(self._connection, self.clock) as found:
            ended = [each for each in self._leases if each <= found.now]
            self._leases = [each for each in self._leases if each > found.now]
            self._leases.append(found.now + CONFIG.lease)  # when it is over, if the pass does not come to its end
            self._pass = Pass(found, self._channels, self._policy)
            try:
                await self._end(asyncio.create_task(self._pass.run(ended)), found.lane.cut)
            finally:
                self._pass = None
                await found.lane.rest()
                await self._channels.close()
            self._leases.pop()
        looping = [each for each, tries in self._tries.items() if tries >= MOST_TRIES]
        if looping:
            raise AssertionError(
                f"delivery {looping[0]} was tried {MOST_TRIES} times in one drain: its channel wants it again at once"
            )
        return self.sent[before:]

    @contextmanager
    def crash(self, point: str) -> Iterator[None]:
        """Have the engine die at this point of the next drain in the block, which ends there.

        The point is one of `sendonce.checkpoints.POINTS`, without its beginning: before_send, after_send,
        before_settle … The next drain finds what a killed worker leaves: its lease, until the clock has moved past it.
        """
        if self._crash is not None:
            raise ConfigError(f"a crash at {self._crash.point} is to come already")
        crash = self._crash = Crash(point)
        try:
            yield
        except Crashed:
            if not crash.has_happened:
                raise
        finally:
            self._crash = None
        if not crash.has_happened:
            raise AssertionError(f"no drain came to {crash.point} in this block")

    # What there is to see and to do.

    def received(self, destination: str) -> int:
        """How many messages have arrived there, the same one again included."""
        return sum(each.arrived and each.destination == destination for each in self.sent)

    def deliveries(self, *, limit: int = MOST_ROWS) -> list[DeliveryRow]:
        """Newest first."""
        return list(self.admin(lambda admin: admin.adeliveries(limit=limit)))

    def dead_letters(self) -> list[DeadLetterRow]:
        """The open ones, newest first."""
        return list(self.admin(lambda admin: admin.adead_letters(limit=MOST_ROWS)))

    def explain(self, delivery_id: int) -> tuple[str, ...]:
        """Why a delivery is where it is and what happens next, in plain sentences."""
        return self.admin(lambda admin: admin.aexplain(delivery_id)).sentences

    def subscribe(self, types: Sequence[str], to: str, *, tenant: str = "") -> SubscriptionRow:
        """Enter a standing order."""
        return self.admin(lambda admin: admin.aadd_subscription(types=types, to=to, tenant=tenant)).subscription

    def admin(self, act: Callable[[Admin], Awaitable[Answer]]) -> Answer:
        """What an operator can see or do: `box.admin(lambda admin: admin.arequeue([1], reason="try again"))`."""
        return self._run(lambda: self.aadmin(act))

    async def aadmin(self, act: Callable[[Admin], Awaitable[Answer]]) -> Answer:
        """`admin` within an event loop."""
        async with opened(self._connection, self.clock) as found:
            return await act(Admin(StoreSession(found.store, SecretBox()), operator="test"))

    async def _end(self, task: "asyncio.Task[None]", cut: Callable[[], None]) -> None:
        """Wait for the pass, or for its crash."""
        crash = self._crash
        if crash is None:
            return await task
        crash.arm(task, cut)
        try:
            await task
        except asyncio.CancelledError:
            if not crash.has_happened:
                raise
            raise Crashed(crash.point) from None
        finally:
            crash.disarm()

    def _hear(self, sent: Sent) -> None:
        self.sent.append(sent)
        self._tries[sent.delivery_id] += 1
        if self._tries[sent.delivery_id] >= MOST_TRIES and self._pass is not None:
            self._pass.stop()

    def _run(self, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        if is_async(self._connection):
            raise ConfigError(
                "this connection is async: say `await testing.aoutbox(…)`, then `await box.adrain()` and `aadmin`"
            )
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            # With a factory the thread's own event loop, if it has one, stays as it is.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                return runner.run(work())
        raise ConfigError(
            "an event loop runs here: say `await testing.aoutbox(…)`, then `await box.adrain()` and `aadmin`"
        )
