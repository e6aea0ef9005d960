"""The lease keeper: renews this worker's leases, releases done ones, closes what others let expire."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from sendonce.checkpoints import checkpoint
from sendonce.domain.attempts import Report, Result
from sendonce.engine.backoff import Outage
from sendonce.engine.health import Health
from sendonce.engine.held_leases import HeldLeases, lease_time
from sendonce.engine.memory import Memory
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Adopted, Emit, Expired, LeasesLost, LossOver
from sendonce.store.ports import LeaseStore

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
        self, store: LeaseStore, book: HeldLeases, decide: Callable[[Sequence[Report]], Sequence[Result]],
        *, worker_id: int, hold: timedelta, emit: Emit, vitals: Health | None = None,
        on_expired: Callable[[Sequence[Result]], None] | None = None, memory: Memory | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._book = book
        self._decide = decide
        self._worker_id = worker_id
        self._hold = hold
        self._emit = emit
        self._on_expired = on_expired
        self._vitals = vitals or Health()
        self._memory = memory or Memory()
        now = time.monotonic()
        self._next = {"renew": 0.0, "beat": 0.0, "roll_up": now + ROLL_UP_SECONDS, "end_loss": 0.0, "adopt": now}
        self._adopted_to = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Keep until told to stop; then release what is done."""
        pause = min(0.25, self._hold.total_seconds() / 8)
        outage = Outage(PART, self._emit)
        while not stop.is_set():
            self._vitals.turn(PART)
            try:
                await self.tick()
                self._vitals.heard()
                outage.over()
            except StoreBusy as error:
                outage.met(error)
            try:
                async with asyncio.timeout(pause):
                    await stop.wait()
            except TimeoutError:
                continue
        self._vitals.rest(PART)
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
        """Say that we are alive; and everybody knows the newest claim of all, whoever of us is the next to claim."""
        progressed, witness = self._book.take_progress(), self._memory.witness
        self._memory.hear(await self._store.beat(self._worker_id, progressed=progressed, witness=witness))

    async def _renew(self) -> None:
        now = time.monotonic()
        if now < self._next["renew"]:
            return
        self._next["renew"] = now + self._hold.total_seconds() / 4
        asked = self._book.held()
        if not asked:
            return
        checkpoint("keeper.before_renew")
        begun = lease_time()
        try:
            granted = await self._store.renew(asked, self._hold)
        except StoreBusy:
            self._next["renew"] = 0.0
            raise
        lost = self._book.renewed(asked, granted, begun + self._hold.total_seconds())
        if lost:
            self._emit(LeasesLost(leases=lost))

    async def _release(self) -> None:
        done = self._book.take_done()
        if not done:
            return
        try:
            await self._store.release(done)
        except StoreBusy:
            self._book.give_back_done(done)
            raise

    async def _expire(self) -> None:
        checkpoint("keeper.before_expire")
        while results := await self._store.expire(EXPIRE_LIMIT, self._decide):
            checkpoint("keeper.after_expire")
            self._emit(Expired.of(results))
            if self._on_expired is not None:
                self._on_expired(results)
            self._vitals.turn(PART)
            await self._renew()  # a long row of expired leases must not cost us our own

    async def _end_loss(self) -> None:
        loss = await self._store.end_loss()
        if loss is not None and loss.ended_at is not None:
            self._emit(LossOver(doubted=loss.doubted, after=loss.ended_at - loss.noticed_at))

    async def _adopt(self) -> None:
        """Look through a part of all deliveries for what is being sent under a lease that is gone."""
        results, last = await self._store.adopt(self._adopted_to, ADOPT_STEP, self._decide)
        self._adopted_to = last or 0
        if results:
            self._emit(Adopted(attempts=len(results)))

    async def leave(self) -> None:
        """Release what is done, and say that this worker has ended."""
        try:
            await self._release()
            await self._store.leave(self._worker_id)
        except StoreBusy:
            return  # the worker's row says when it was last seen, and its leases expire
