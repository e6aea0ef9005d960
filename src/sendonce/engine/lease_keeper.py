"""The leases a worker holds, and the keeper that renews them, releases them and closes what others let expire."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from sendonce.checkpoints import checkpoint
from sendonce.domain.attempts import Report, Result
from sendonce.engine.background import Outage
from sendonce.engine.health import Health
from sendonce.engine.memory import Memory
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Adopted, Emit, Expired, LeasesLost, LossOver
from sendonce.store.ports import LeaseStore


def lease_time() -> float:
    """Seconds by a clock of this machine that never goes back, and goes on while it is suspended, as the database's."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class HeldLease:
    """One claim's lease by `lease_time`: what a sender looks at before it writes to the wire."""

    __slots__ = ("good_until", "id", "open_attempts")

    def __init__(self, id: int, good_until: float, open_attempts: int) -> None:
        self.id = id
        self.good_until = good_until
        self.open_attempts = open_attempts

    def seconds_left(self) -> float:
        return self.good_until - lease_time()


class HeldLeases:
    """The leases this worker holds. Every method may be called from either thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, HeldLease] = {}
        self._done: list[int] = []
        self._settled = 0

    def enter(self, id: int, good_until: float, attempts: int) -> HeldLease:
        """Add a new lease, valid until this moment unless it is renewed."""
        lease = HeldLease(id, good_until, attempts)
        with self._lock:
            self._held[id] = lease
        return lease

    def settled(self, lease_ids: list[int]) -> None:
        """Note that one attempt of each of these leases is settled; a lease with no open attempt is done."""
        with self._lock:
            self._settled += len(lease_ids)
            for id in lease_ids:
                lease = self._held.get(id)
                if lease is not None:
                    lease.open_attempts -= 1
                    if lease.open_attempts <= 0:
                        del self._held[id]
                        self._done.append(id)

    def held(self) -> list[int]:
        """Return the leases to renew. A lost lease stays lost."""
        with self._lock:
            return [id for id, lease in self._held.items() if lease.good_until > 0]

    def renewed(self, asked: list[int], granted: set[int], good_until: float) -> int:
        """Note the result of a renewal: leases that were not granted are lost, and no longer valid."""
        lost = 0
        with self._lock:
            for id in asked:
                lease = self._held.get(id)
                if lease is None:
                    continue
                if id in granted:
                    lease.good_until = good_until
                else:
                    lease.good_until = 0.0
                    lost += 1
        return lost

    def take_done(self) -> list[int]:
        """Return the leases to release, each of them once."""
        with self._lock:
            done, self._done = self._done, []
        return done

    def give_back_done(self, ids: list[int]) -> None:
        """Put back leases whose release failed."""
        with self._lock:
            self._done += ids

    def take_progress(self) -> bool:
        """True when something was settled since the last time."""
        with self._lock:
            settled, self._settled = self._settled, 0
        return settled > 0


PART = "lease keeper"
EXPIRE_LIMIT = 20
BEAT_SECONDS = 2.0
ROLL_UP_SECONDS = 60.0
END_LOSS_SECONDS = 2.0
ADOPT_SECONDS = 30.0
ADOPT_STEP = 20_000


class LeaseKeeper:
    """Runs in a thread with a connection of its own, so that it is on time even when the sender's loop is busy."""

    def __init__(
        self, store: LeaseStore, held_leases: HeldLeases, decide: Callable[[Sequence[Report]], Sequence[Result]],
        *, worker_id: int, hold: timedelta, emit: Emit, health: Health | None = None,
        on_expired: Callable[[Sequence[Result]], None] | None = None, memory: Memory | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._held_leases = held_leases
        self._decide = decide
        self._worker_id = worker_id
        self._hold = hold
        self._emit = emit
        self._on_expired = on_expired
        self._health = health or Health()
        self._memory = memory or Memory()
        now = time.monotonic()
        self._next = {"renew": 0.0, "beat": 0.0, "roll_up": now + ROLL_UP_SECONDS, "end_loss": 0.0, "adopt": now}
        self._adopted_to = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Renew leases until stopped; then release those that are done."""
        pause = min(0.25, self._hold.total_seconds() / 8)
        outage = Outage(PART, self._emit)
        while not stop.is_set():
            self._health.turn(PART)
            try:
                await self.tick()
                self._health.heard()
                outage.over()
            except StoreBusy as error:
                outage.met(error)
            try:
                async with asyncio.timeout(pause):
                    await stop.wait()
            except TimeoutError:
                continue
        self._health.rest(PART)
        await self.leave()

    async def tick(self) -> None:
        """Do what is due: renewals first."""
        await self._renew()
        await self._release()
        await self._expire()
        now = time.monotonic()
        if now >= self._next["beat"]:
            self._next["beat"] = now + BEAT_SECONDS
            await self._beat()
        if now >= self._next["end_loss"]:
            self._next["end_loss"] = now + END_LOSS_SECONDS
            await self._end_loss()
        if now >= self._next["adopt"]:
            self._next["adopt"] = now + ADOPT_SECONDS
            await self._adopt()
        if now >= self._next["roll_up"]:
            self._next["roll_up"] = now + ROLL_UP_SECONDS
            while await self._store.roll_up_counters():
                await self._renew()  # there are more, but our own leases come first

    async def _beat(self) -> None:
        """Record that this worker is alive, and learn the newest claim of all workers."""
        progressed, witness = self._held_leases.take_progress(), self._memory.witness
        self._memory.hear(await self._store.beat(self._worker_id, progressed=progressed, witness=witness))

    async def _renew(self) -> None:
        now = time.monotonic()
        if now < self._next["renew"]:
            return
        self._next["renew"] = now + self._hold.total_seconds() / 4
        asked = self._held_leases.held()
        if not asked:
            return
        checkpoint("keeper.before_renew")
        begun = lease_time()
        try:
            granted = await self._store.renew(asked, self._hold)
        except StoreBusy:
            self._next["renew"] = 0.0
            raise
        lost = self._held_leases.renewed(asked, granted, begun + self._hold.total_seconds())
        if lost:
            self._emit(LeasesLost(leases=lost))

    async def _release(self) -> None:
        done = self._held_leases.take_done()
        if not done:
            return
        try:
            await self._store.release(done)
        except StoreBusy:
            self._held_leases.give_back_done(done)
            raise

    async def _expire(self) -> None:
        checkpoint("keeper.before_expire")
        while results := await self._store.expire(EXPIRE_LIMIT, self._decide):
            checkpoint("keeper.after_expire")
            self._emit(Expired.of(results))
            if self._on_expired is not None:
                self._on_expired(results)
            self._health.turn(PART)
            await self._renew()  # a long row of expired leases must not cost us our own

    async def _end_loss(self) -> None:
        loss = await self._store.end_loss()
        if loss is not None and loss.ended_at is not None:
            self._emit(LossOver(doubted=loss.doubted, after=loss.ended_at - loss.noticed_at))

    async def _adopt(self) -> None:
        """Search the next part of all deliveries for attempts whose lease is gone."""
        results, last = await self._store.adopt(self._adopted_to, ADOPT_STEP, self._decide)
        self._adopted_to = last or 0
        if results:
            self._emit(Adopted(attempts=len(results)))

    async def leave(self) -> None:
        """Release finished leases, and record that this worker has ended."""
        try:
            await self._release()
            await self._store.leave(self._worker_id)
        except StoreBusy:
            return  # the worker's row says when it was last seen, and its leases expire
