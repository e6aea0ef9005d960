"""One consumer at work: take from the source, handle, acknowledge; and what failed, again when it is due."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from zlib import crc32

from sendonce.checkpoints import checkpoint
from sendonce.consumer.handling import Handled, Handling, Result
from sendonce.consumer.incoming import Incoming, Taken, fault_of
from sendonce.consumer.jobs import Job, message_of, poison
from sendonce.consumer.registry import Consumer, Mode
from sendonce.consumer.sources.protocol import Source, SourceLost
from sendonce.consumer.tallies import Tallies
from sendonce.consumer.transactions import is_passing
from sendonce.domain.policies import next_delay, spread_of
from sendonce.engine.background import Backoff, Outage, background
from sendonce.engine.health import Health
from sendonce.errors import StoreBusy, StoreError
from sendonce.observability.facts import Consuming, Emit, SourceBack, SourceGone
from sendonce.store.tries import Arrived, Content, Failure, MessageStore, Standing, Waiting

T = TypeVar("T")
TAKE_SECONDS = 1.0
LOOK_SECONDS = 1.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# How long a message from our own tables is claimed for, and how often that and the broker's patience are renewed.
HOLD = timedelta(seconds=60)
EXTEND_SECONDS = 15.0


class Runner:
    """Runs one consumer until it is stopped; with `until_idle` until nothing is there and nothing is due.

    Those of one process share the `outage` of its database, and its `health`.
    """

    def __init__(
        self,
        consumer: Consumer,
        source: Source,
        store: MessageStore,
        slots: Sequence[Handling],
        emit: Emit,
        *,
        worker: str,
        grace: timedelta,
        outage: Outage,
        health: Health,
        until_idle: bool = False,
    ) -> None:
        self._consumer = consumer
        self._source = source
        self._store = store
        self._worker = worker
        self._slots = slots
        self._emit = emit
        self._grace = grace
        self._outage = outage
        self._health = health
        self._part = f"consumer {consumer.name}"
        self._until_idle = until_idle
        self._stop = asyncio.Event()
        self._abandoned = asyncio.Event()
        self._jobs: asyncio.Queue[Job] = asyncio.Queue()
        self._in_hand: dict[str, Job] = {}
        self._coming: list[Taken] = []
        self._freed = asyncio.Event()
        # Who hands out jobs holds it, so that a message that may end our process is alone.
        self._handing_out = asyncio.Lock()
        self._idle_takes = self._idle_looks = 0
        self._tallies = Tallies(consumer.name, emit)

    def stop(self) -> None:
        """Take no more; finish what is in hand."""
        self._stop.set()
        self._freed.set()

    def abandon(self) -> None:
        """Stop now: what is in hand is cut short, and comes again."""
        self.stop()
        self._abandoned.set()

    @property
    def name(self) -> str:
        return self._consumer.name

    @property
    def in_hand(self) -> int:
        """Messages that were taken and are not done with."""
        return len(self._in_hand)

    async def run(self) -> int:
        """Work until stopped; return how many messages were cut short. Raises what no waiting mends."""
        self._emit(Consuming(consumer=self.name, mode=self._consumer.mode))
        slots = [asyncio.create_task(self._work(each)) for each in self._slots]
        taking = [asyncio.create_task(self._take_forever()), asyncio.create_task(self._look_forever())]
        try:
            async with background(self._extend_forever(), self._hold_forever(), self._tallies.run()):
                # Each of them ends by an error alone, or when we are stopped.
                await asyncio.wait([*taking, *slots], return_when=asyncio.FIRST_COMPLETED)
                self.stop()
                await self._finish(taking, slots)
            for each in (*taking, *slots):
                if each.done():
                    each.result()
            return self.in_hand
        finally:
            for each in (*taking, *slots):
                each.cancel()
            await asyncio.gather(*taking, *slots, return_exceptions=True)
            await self._source.close()
            for slot in self._slots:
                await slot.close()
            self._tallies.tell()
            self._health.rest(self._part)
            self._emit(Consuming(consumer=self.name, mode=self._consumer.mode, is_over=True, cut=self.in_hand))
            if rows := [job.row_id for job in self._in_hand.values() if job.row_id is not None]:
                with suppress(StoreError):  # else they are due again when our claim ends
                    await self._store.return_messages(rows)

    async def _take_forever(self) -> None:
        """Take what comes, as much as there is room for; open the source again whenever it is lost."""
        pause, is_lost, is_open = FIRST_PAUSE, False, False
        while not self._stop.is_set():
            self._health.turn(self._part)
            try:
                if not is_open:
                    await self._source.open()
                    is_open = True
                if is_lost:
                    self._emit(SourceBack(consumer=self._consumer.name))
                    pause, is_lost = FIRST_PAUSE, False
                await self._take()
            except SourceLost as error:
                if not is_lost:
                    self._emit(SourceGone(consumer=self._consumer.name, reason=str(error)))
                is_lost, is_open = True, False
                await self._source.close()
                await self._rest(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _take(self) -> None:
        if self._free <= 0:
            self._freed.clear()
            self._health.rest(self._part)  # a handler may take as long as it likes
            await self._freed.wait()
            return
        taken = await self._source.take(self._free, TAKE_SECONDS)
        self._idle_takes = 0 if taken else self._idle_takes + 1
        self._health.rest(self._part)
        self._coming = list(taken)
        async with self._handing_out:
            while self._coming:
                await self._receive(self._named(self._coming[0]))
                del self._coming[0]
        self._stop_when_idle()

    @property
    def _free(self) -> int:
        return self._consumer.prefetch - len(self._in_hand)

    async def _receive(self, taken: Taken) -> None:
        """Have it handled; keep what nobody can handle; acknowledge what need not come again."""
        arrived = Arrived(
            consumer=self._consumer.name, id=taken.id, position=taken.position, source=self._consumer.source
        )
        if why := fault_of(taken, largest_body=self._consumer.largest_body):
            # Without its id, which may be what is wrong with it.
            nameless = replace(arrived, id=None)
            await self._give_up(nameless, None, self._kept(taken), Failure("malformed", why, reason="malformed"), 0)
            await self._acknowledge([taken])
        elif (job := self._in_hand.get(str(taken.id))) is not None:
            job.taken.append(taken)
        elif taken.is_again:
            await self._receive_again(taken, arrived)
        else:
            self._put(Job(message_of(taken, arrived, tries=1), arrived, self._kept(taken), taken=[taken]))

    async def _receive_again(self, taken: Taken, arrived: Arrived) -> None:
        """It was given before, and perhaps ended our process: nothing else is in hand while this one is tried."""
        await self._jobs.join()
        most_lost = self._consumer.most_lost
        begun = await self._patiently(
            lambda: self._store.begin_message(arrived, most_lost=most_lost, worker=self._worker)
        )
        checkpoint("consumer.after_begin")
        match begun.standing:
            case Standing.BEGUN:
                message = replace(message_of(taken, arrived, tries=begun.tries), first_seen_at=begun.first_seen_at)
                self._put(Job(message, arrived, self._kept(taken), begun.row_id, [taken]))
                await self._jobs.join()
            case Standing.KNOWN:
                self._tallies.count("duplicate")
                await self._acknowledge([taken])
            case Standing.POISON:
                await self._give_up(arrived, begun.row_id, self._kept(taken), poison(begun.tries), begun.tries)
                await self._acknowledge([taken])

    async def _look_forever(self) -> None:
        """Hand out what is due again from our own tables."""
        backoff = Backoff(self._outage)
        while not self._stop.is_set():
            try:
                found = await self._look() if self._free > 0 else 0
            except StoreBusy as error:
                await backoff.wait(error, self._stop)
                continue
            backoff.calm()
            self._idle_looks = 0 if found else self._idle_looks + 1
            if not found:
                self._stop_when_idle()
                await self._rest(LOOK_SECONDS)

    async def _look(self) -> int:
        name, free = self._consumer.name, max(self._free, 1)
        async with self._handing_out:
            due = await self._store.due_messages(name, free, hold=HOLD, worker=self._worker)
            self._health.heard()
            if due:
                checkpoint("consumer.after_begin")
            for each in due:
                await self._hand_out(each)
        return len(due)

    async def _hand_out(self, waiting: Waiting) -> None:
        content, arrived, tries = waiting.content, waiting.arrived, waiting.tries
        if content is None:
            gone = Failure("never_again", "its broker never gave it again", reason="expired")
            await self._give_up(arrived, waiting.row_id, None, gone, tries)
            return
        if waiting.lost >= self._consumer.most_lost:
            await self._give_up(arrived, waiting.row_id, content, poison(tries), tries)
            return
        if waiting.lost:
            await self._jobs.join()
        message = Incoming(
            id=str(arrived.id),
            body=content.body,
            headers=content.headers,
            subject=content.subject,
            source=arrived.source,
            tries=tries,
            first_seen_at=waiting.first_seen_at,
        )
        self._put(Job(message, arrived, content, waiting.row_id))
        if waiting.lost:
            await self._jobs.join()

    async def _give_up(
        self, arrived: Arrived, row_id: int | None, content: Content | None, failure: Failure, tries: int
    ) -> None:
        await self._patiently(lambda: self._store.fail_message(arrived, row_id, content, failure, worker=self._worker))
        self._tallies.dead(arrived.id or arrived.position, failure.code, tries)

    def _put(self, job: Job) -> None:
        self._in_hand[job.message.id] = job
        self._jobs.put_nowait(job)

    async def _work(self, slot: Handling) -> None:
        while True:
            job = await self._jobs.get()
            try:
                await self._handle(slot, job)
            finally:
                self._jobs.task_done()

    async def _handle(self, slot: Handling, job: Job) -> None:
        """Handle it, as often as the database is away; then it is done with, or kept for another time."""
        checkpoint("consumer.before_handle")
        result = await self._patiently(lambda: slot.handle(job.message))
        checkpoint("consumer.after_commit")
        await self._patiently(lambda: self._write(job, result))
        checkpoint("consumer.before_acknowledge")
        await self._acknowledge(job.taken)
        checkpoint("consumer.after_acknowledge")
        del self._in_hand[job.message.id]
        self._freed.set()

    async def _write(self, job: Job, result: Result) -> None:
        if result.handled in (Handled.FIRST, Handled.DUPLICATE):
            if job.row_id is not None:
                await self._store.complete_message(job.row_id)
            self._tallies.count("handled" if result.handled is Handled.FIRST else "duplicate")
            return
        failure = self._failure(job, result)
        failed = await self._store.fail_message(job.arrived, job.row_id, job.content, failure, worker=self._worker)
        if not failed:
            self._tallies.count("handled")  # the connection was lost while committing, and it was committed
        elif failure.again_in is None:
            self._tallies.dead(job.message.id, failure.code, job.message.tries)
        else:
            self._tallies.failed(job.message.id, failure.code, job.message.tries)

    def _failure(self, job: Job, result: Result) -> Failure:
        """Say whether it is tried again, and when."""
        policy, tries = self._consumer.policy, job.message.tries
        if result.handled is Handled.REFUSED:
            return Failure(result.code, result.message, reason="refused")
        if self._consumer.mode is Mode.ONCE:
            return Failure(result.code, result.message, reason="failed")
        if tries >= policy.max_attempts:
            return Failure(result.code, result.message, reason="exhausted")
        again_in = next_delay(policy, tries, spread_of(crc32(job.message.id.encode()), tries))
        return Failure(result.code, result.message, again_in=again_in)

    async def _acknowledge(self, taken: Sequence[Taken]) -> None:
        """A lost acknowledgement gives a duplicate, which is known by its receipt or its row."""
        for each in taken:
            with suppress(SourceLost):
                await self._source.acknowledge(each)

    async def _extend_forever(self) -> None:
        """Tell the broker in time what we still have."""
        while True:
            await asyncio.sleep(min(EXTEND_SECONDS, self._source.patience / 3))
            if taken := [each for job in self._in_hand.values() for each in job.taken] + self._coming:
                with suppress(SourceLost):
                    await self._source.extend(taken)

    async def _hold_forever(self) -> None:
        """Keep what came from our own tables."""
        while True:
            await asyncio.sleep(EXTEND_SECONDS)
            if rows := [job.row_id for job in self._in_hand.values() if job.row_id is not None]:
                with suppress(StoreBusy):
                    await self._store.hold_messages(rows, HOLD)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it, and again for as long as the database is away."""
        backoff = Backoff(self._outage)
        while True:
            try:
                answer = await work()
            except Exception as error:
                if not is_passing(error):
                    raise
                busy = StoreBusy(f"the database does not answer ({type(error).__name__})")
                await backoff.wait(error if isinstance(error, StoreBusy) else busy, None)
            else:
                backoff.calm()
                return answer

    async def _finish(self, taking: Sequence[asyncio.Task[None]], slots: Sequence[asyncio.Task[None]]) -> None:
        """Let what is in hand end within the grace period, unless a slot has died or nobody wants to wait."""
        ending = asyncio.create_task(self._in_hand_ends(taking))
        abandoned = asyncio.create_task(self._abandoned.wait())
        try:
            seconds = self._grace.total_seconds()
            await asyncio.wait([ending, abandoned, *slots], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            abandoned.cancel()
            await asyncio.gather(ending, abandoned, return_exceptions=True)

    async def _in_hand_ends(self, taking: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.wait(taking)
        await self._jobs.join()

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def _stop_when_idle(self) -> None:
        if self._until_idle and self._idle_takes > 0 and self._idle_looks > 0 and not self._in_hand:
            self.stop()

    def _named(self, taken: Taken) -> Taken:
        """With the id that the application finds in it, if it looks for one."""
        if self._consumer.id_of is None:
            return taken
        try:
            return replace(taken, id=self._consumer.id_of(taken))
        except Exception:  # the application's own; what it cannot find an id in has none
            return replace(taken, id=None)

    def _kept(self, taken: Taken) -> Content:
        return Content(body=taken.body[: self._consumer.largest_body], headers=taken.headers, subject=taken.subject)
