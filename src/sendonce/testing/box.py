"""The test outbox: the engine on the test's own connection, with a clock of its own, and what a test can ask it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sendonce import __version__
from sendonce.admin.api import Admin
from sendonce.admin.session import StoreSession
from sendonce.channels.registry import Channels
from sendonce.domain.policies import DEFAULT_POLICY, Policy, override
from sendonce.engine.build import build_engine
from sendonce.engine.config import WorkerConfig, check_timeout
from sendonce.engine.lease_keeper import LeaseKeeper
from sendonce.engine.orchestrator import Policies
from sendonce.engine.worker import Worker
from sendonce.errors import ConfigError
from sendonce.observability import logs
from sendonce.sealing import SecretBox
from sendonce.sql.drivers import AsyncConnection, SyncConnection, is_async
from sendonce.store import callers
from sendonce.store.ports import Store
from sendonce.store.records import DeadLetterRow, DeliveryRow, SubscriptionRow
from sendonce.testing.crash import Crash, Crashed
from sendonce.testing.receiver import Receiver, RecordedChannels, Sent


class Clock:
    """What the engine takes for the time. Code that records takes the machine's own: move before you record, or reckon
    `deliver_at` and `expires_at` from `now()`."""

    def __init__(self) -> None:
        self._moved = timedelta(0)

    def now(self, *, at_least: datetime | None = None) -> datetime:
        """The machine's time, or what another clock says if that is later; and as much more as this was moved."""
        here = datetime.now(UTC)
        return max(here, at_least or here) + self._moved

    def advance(self, by: timedelta = timedelta(0), **parts: float) -> None:
        """Let time pass: `advance(minutes=2)`, or a timedelta. Leases end, waits are over, deadlines pass."""
        try:
            moved = by + timedelta(**parts)
        except TypeError:
            raise ConfigError("say how much time passes, like advance(minutes=2, seconds=30)") from None
        if moved < timedelta(0):
            raise ConfigError("time cannot be moved back; make another box")
        self._moved += moved


@dataclass(slots=True)
class Opened:
    """A store on somebody's connection. What it takes for the time is `now`, which stands still."""

    store: Store
    lane: callers.CallersConnection
    now: datetime


@asynccontextmanager
async def opened(connection: Any, clock: Clock) -> AsyncIterator[Opened]:
    """The store, with its tables made where they are missing; ConfigError for what the engine cannot run on."""
    lane = await callers.on(connection, clock=lambda: found.now)
    found = Opened(lane.store, lane, clock.now())
    found.now = clock.now(at_least=await lane.server_time())
    await lane.make_tables()
    yield found


CONFIG = WorkerConfig(until_idle=True, once=True)


class Pass:
    """A worker and its lease keeper, on one connection and in one event loop."""

    def __init__(self, opened: Opened, channels: Channels, policy: Policy) -> None:
        self._opened = opened
        self._channels = channels
        self._policies = Policies(policy, channels.settings(), channels.serving)
        self._worker: Worker | None = None

    def stop(self) -> None:
        """Claim no more."""
        if self._worker is not None:
            self._worker.stop()

    async def run(self, ended: Sequence[datetime]) -> None:
        """Work until nothing is left to do now. Leases that `ended` in between are closed as of then."""
        store = self._opened.store
        worker_id = await store.register("test", __version__, CONFIG.concurrency, serves=self._channels.names)
        engine = build_engine(
            store, self._channels, self._policies, CONFIG,
            worker_id=worker_id, namespace=await store.namespace(), emit=logs.write,
        )  # fmt: skip
        keeper, self._worker = engine.keeper_on(store), engine.worker
        await self._close_leases(keeper, ended)
        await self._worker.run()
        await engine.gone.apply()
        await keeper.leave()

    async def _close_leases(self, keeper: LeaseKeeper, ended: Sequence[datetime]) -> None:
        """Other workers would have looked all the time while the clock was moved."""
        for moment in (*ended, self._opened.now):
            self._opened.now = moment
            await keeper.tick()


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
            session = StoreSession(found.store, SecretBox(), is_async=is_async(self._connection))
            return await act(Admin(session, operator="test"))

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
