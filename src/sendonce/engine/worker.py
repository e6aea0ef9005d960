"""The worker: claims what it has free slots for, sends, and settles in groups, until it is told to stop."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from sendonce.channels.registry import Channels
from sendonce.checkpoints import checkpoint
from sendonce.domain.attempts import Claim, Refusal, Report, Result, Verdict
from sendonce.domain.breakers import Pauses
from sendonce.domain.serving import Served
from sendonce.engine.attempt import AttemptRunner, CredentialStore
from sendonce.engine.background import LONGEST_SECONDS, Backoff, Outage
from sendonce.engine.breakers import Breakers
from sendonce.engine.config import WorkerConfig
from sendonce.engine.fairness import SPARE_SECONDS, Fairness, Fleet
from sendonce.engine.health import Health
from sendonce.engine.lease_keeper import HeldLeases, lease_time
from sendonce.engine.memory import Memory
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.engine.parking import Parking, Unserved
from sendonce.engine.send_pool import SendPool
from sendonce.errors import StoreBusy
from sendonce.observability.facts import CommitsLost, Emit, OtherInstance, ServerChanged, Settled, Stopped, Stopping
from sendonce.store.ports import LeaseStore, Notifier, RoomStore, Started
from sendonce.store.records import Room

CLAIMS, RESULTS = "worker", "results"
SETTLE_LIMIT = 1000
QUICKEST_POLL = 0.01
GATHER_SECONDS = 0.02
GATHER_RESULTS_SECONDS = 0.01
AFTER_CUT_SECONDS = 5.0
TURN_SECONDS = 5.0
# Everybody who waits for the database looks again within this time.
STAND_BACK_SECONDS = LONGEST_SECONDS + 0.5


class Worker:
    """Claims, sends and settles: a send pool, a claiming loop and a settling loop. The lease keeper runs beside it."""

    def __init__(
        self, orchestrator: Orchestrator, leases: LeaseStore, channels: Channels, policies: Policies,
        held_leases: HeldLeases, config: WorkerConfig, *, worker_id: int, namespace: str, emit: Emit,
        notifier: Notifier | None = None, rooms: RoomStore, credentials: CredentialStore | None = None,
        on_settled: Sequence[Callable[[Sequence[Result]], None]] = (),
        on_raise: Callable[[Claim, BaseException], None] | None = None, health: Health | None = None,
        is_counted: bool = False, memory: Memory | None = None, name: str = "",
    ) -> None:  # fmt: skip
        self._orchestrator = orchestrator
        self._leases = leases
        self._held_leases = held_leases
        self._config = config
        self._worker_id = worker_id
        self._name = name
        self._memory = memory or Memory(instance=config.instance)
        self._is_anew = False
        self._is_other_told = False
        self._emit = emit
        self._notifier = notifier
        self._health = health or Health()
        self._is_counted = is_counted
        self._reports: list[Report] = []
        self._seconds: list[float] = []
        self._reported = asyncio.Event()
        self._slot_free = asyncio.Event()
        self._stop = asyncio.Event()
        self._settling = 0
        self._is_rooms_turn = False
        self._finished = 0
        self._in_doubt = 0
        self._on_settled = on_settled
        self._fairness = Fairness(config.concurrency, per_destination=config.per_destination, per_place=config.per_host)
        pauses = Pauses(first=config.breaker_pause, longest=config.breaker_longest)
        self._breakers = Breakers(rooms, after=config.breaker_after, pauses=pauses, emit=emit)
        # One that ends when nothing is left to do does not wait for others to do it.
        self._fleet = Fleet(leases, channels, worker_id, spare=0.0 if config.until_idle else SPARE_SECONDS)
        self._unserved = Unserved(orchestrator, emit)
        self._waiting = Parking(rooms, self._fairness, self._breakers, hold=config.lease)
        self._sender = SendPool(
            AttemptRunner(channels, namespace, credentials),
            policies,
            concurrency=config.concurrency,
            longest_send=config.longest_send.total_seconds(),
            on_report=self._on_report,
            on_raise=on_raise,
        )

    def stop(self) -> None:
        """Claim no more; finish what is in flight."""
        self._health.is_stopping = True
        self._stop.set()
        self._slot_free.set()

    async def run(self) -> Stopped:
        """Work until stopped, or with `until_idle` until nothing is left to do now."""
        self._sender.open()
        settling = asyncio.create_task(self._settle_forever())
        settling.add_done_callback(lambda _: self.stop())
        try:
            try:
                await self._claim_until_stopped()
            except Exception:
                self._health.end(CLAIMS)
                await self._finish(settling)  # whatever ended the claiming, what was sent is still written down
                raise
            await self._finish(settling)
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)
            await self._sender.close()
        self._memory.close()
        stopped = Stopped(finished=self._finished, in_doubt=self._in_doubt + self.in_flight)
        self._emit(stopped)
        return stopped

    @property
    def in_flight(self) -> int:
        """Attempts whose results are not written yet."""
        return len(self._reports) + self._settling + self._sender.busy

    async def _claim_until_stopped(self) -> None:
        pause = QUICKEST_POLL
        backoff = Backoff(Outage(CLAIMS, self._emit))
        empty_turns = 0
        while not self._stop.is_set():
            self._health.turn(CLAIMS)
            await self._wait_for_slots()
            if self._stop.is_set():
                return
            wanted = self._sender.free
            try:
                if backoff.is_needed:
                    await self._come_back()
                    if self._stop.is_set():
                        return
                claimed = await self._claim(wanted)
                backoff.calm()
                empty_turns = 0 if claimed or self.in_flight else empty_turns + 1
                if claimed == 0 and self._config.until_idle and await self._is_idle(empty_turns):
                    return
            except StoreBusy as error:
                await backoff.wait(error, self._stop)
                continue
            if claimed:
                pause = QUICKEST_POLL
            if claimed < wanted:
                await self._rest(pause)
                pause = min(pause * 2, self._config.poll.total_seconds())

    async def _is_idle(self, empty_turns: int) -> bool:
        """Nothing is on its way, due, or waiting for its turn.

        Once: or what is there was not to be had in two turns, of which the second has looked everywhere.
        """
        if self.in_flight:
            return False
        is_empty = await self._waiting.is_empty(await self._fleet.served())
        return (is_empty and await self._leases.is_idle()) or (self._config.once and empty_turns > 1)

    async def _claim(self, wanted: int) -> int:
        """Lease and hand to the sender; how many rows were looked at, parked ones included.

        What waits in rooms gets up to half of the slots, and a single one in turn, so that it does not hold up what is
        due.
        """
        self._memory.learn()
        served = await self._fleet.served()
        unserved = await self._waiting.look(served)
        if unserved is not None:
            await self._tend(unserved, served)
        self._is_rooms_turn = not self._is_rooms_turn
        out = await self._claim_waiting(wanted // 2 or int(self._is_rooms_turn), served)
        if out >= wanted:
            return out
        begun = lease_time()
        limits, fence = self._fairness.limits(served), self._memory.fence
        started = await self._orchestrator.start(self._worker_id, wanted - out, self._config.lease, limits, fence)
        if started.refused is not None:
            await self._refused(started.refused)
            return out
        out += self._take(started, begun)
        if started.parked:
            self._waiting.look_soon()
            return wanted
        if not out and wanted == 1 and not self._is_rooms_turn:
            return await self._claim_waiting(1, served)
        return out

    async def _tend(self, rooms: list[Room], served: Served) -> None:
        """See `Unserved`. Where commits are lost, what has expired may have been sent: it is put in doubt first."""
        if not rooms or await self._orchestrator.refusal(self._memory.fence) is None:
            await self._unserved.tend(rooms, served)

    async def _claim_waiting(self, wanted: int, served: Served) -> int:
        """Claim up to `wanted` parked deliveries; return how many rows were looked at."""
        allotment = await self._waiting.allot(wanted)
        if not allotment.quotas:
            return 0
        begun = lease_time()
        limits = self._fairness.limits(served)
        started = await self._orchestrator.start_waiting(
            self._worker_id,
            allotment.quotas,
            self._config.lease,
            limits,
            self._memory.fence,
            probes=allotment.probes,
        )
        out = self._take(started, begun)
        await self._waiting.taken(allotment, started.lease.claims if started.lease else ())
        return out

    def _take(self, started: Started, begun: float) -> int:
        """Hand a lease's claims to the send pool; return how many there are."""
        if started.lease is None:
            return 0
        claims = started.lease.claims
        self._memory.note(started.lease)
        self._is_other_told = False
        good_until = begun + self._config.lease.total_seconds()
        held = self._held_leases.enter(started.lease.id, good_until, len(claims))
        self._fairness.begin(claims)
        checkpoint("worker.after_claim")
        self._sender.take(held, claims)
        return len(claims)

    async def _refused(self, refused: Refusal) -> None:
        """Nothing may be claimed from this database now: report why, and make it ready."""
        if refused is Refusal.OTHER_INSTANCE:
            if not self._is_other_told:
                self._emit(OtherInstance(instance=self._config.instance))
            self._is_other_told = True
            return
        witness = self._memory.witness
        if refused is Refusal.COMMITS_LOST and witness is not None:
            loss = await self._orchestrator.notice_loss(witness, noticed_by=self._name)
            if loss is not None:
                self._emit(CommitsLost(is_new=loss.noticed_by == self._name))
            self._memory.forget()
        while await self._orchestrator.mark_loss():
            self._health.turn(CLAIMS)

    async def _come_back(self) -> None:
        """Check after an outage that this is the same server, and that it has the newest claim we know of.

        A restarted server may have been restored from a backup. Then we wait until every worker has reconnected and
        checked: another worker may know of a newer claim.
        """
        is_other, is_anew = self._memory.see(await self._leases.server())
        if is_other:
            self._emit(ServerChanged())
        self._is_anew |= is_anew
        refused = await self._orchestrator.refusal(self._memory.fence)
        if refused is not None:
            await self._refused(refused)
        elif self._is_anew:
            await self._stand_back()
        self._is_anew = False

    async def _stand_back(self) -> None:
        try:
            async with asyncio.timeout(STAND_BACK_SECONDS):
                await self._stop.wait()
        except TimeoutError:
            return

    async def _wait_for_slots(self) -> None:
        """Wait for a free slot, then a moment more: one claim for several slots is cheaper than one for each."""
        while not self._stop.is_set() and not self._has_room(1):
            await self._until_slot_free(TURN_SECONDS)
            self._health.turn(CLAIMS)
        gathered = max(1, self._config.concurrency // 2)
        deadline = time.monotonic() + GATHER_SECONDS
        while not self._stop.is_set() and not self._has_room(gathered):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            await self._until_slot_free(left)

    def _has_room(self, slots: int) -> bool:
        return self._sender.free >= slots and len(self._reports) + self._settling <= 4 * self._config.concurrency

    async def _until_slot_free(self, seconds: float) -> None:
        self._slot_free.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._slot_free.wait()
        except TimeoutError:
            return

    async def _rest(self, seconds: float) -> None:
        """Wait until something may be due: for a pause, a notification, or the order to stop."""
        ring = self._notifier.wait(timedelta(seconds=seconds)) if self._notifier else asyncio.sleep(seconds)
        tasks = {asyncio.ensure_future(ring), asyncio.ensure_future(self._stop.wait())}
        if self._waiting.has_open:
            self._slot_free.clear()
            tasks.add(asyncio.ensure_future(self._slot_free.wait()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _on_report(self, report: Report, seconds: float) -> None:
        self._fairness.end(report.claim, report.outcome, seconds)
        self._breakers.note(report.claim, report.outcome, seconds)
        self._reports.append(report)
        if self._is_counted:
            self._seconds.append(seconds)
        self._reported.set()
        self._slot_free.set()

    async def _settle_forever(self) -> None:
        """Settle reports in groups: what arrives during one write makes the next group."""
        while True:
            await self._reported.wait()
            await asyncio.sleep(0)  # what has come in at the same moment is taken along
            if len(self._reports) < self._sender.busy // 2:
                await asyncio.sleep(GATHER_RESULTS_SECONDS)  # more are about to come in: one write for all of them
            batch, self._reports = self._reports[:SETTLE_LIMIT], self._reports[SETTLE_LIMIT:]
            seconds, self._seconds = self._seconds[:SETTLE_LIMIT], self._seconds[SETTLE_LIMIT:]
            if not self._reports:
                self._reported.clear()
            if batch:
                self._settling = len(batch)
                await self._settle(batch, seconds)
                self._settling = 0
                self._slot_free.set()

    async def _settle(self, batch: list[Report], seconds: list[float]) -> None:
        """Write a batch, retrying until it is written: no result is lost because the database was away."""
        results = self._orchestrator.decide(batch)
        backoff = Backoff(Outage(RESULTS, self._emit))
        verdicts: list[Verdict] = []
        while not verdicts:
            begun = time.monotonic()
            self._health.turn(RESULTS)
            try:
                checkpoint("worker.before_settle")
                verdicts = await self._orchestrator.settle(results)
            except StoreBusy as error:
                await backoff.wait(error, None)
                continue
            checkpoint("worker.after_settle")
            backoff.calm()
            self._health.rest(RESULTS)
            settled = Settled.of(results, verdicts, timedelta(seconds=time.monotonic() - begun), seconds)
            self._count(results, settled)

    def _count(self, results: list[Result], settled: Settled) -> None:
        self._held_leases.settled([result.report.lease_id for result in results])
        self._finished += len(results)
        self._in_doubt += settled.in_doubt
        self._emit(settled)
        for note in self._on_settled:
            note(results)

    async def _finish(self, settling: asyncio.Task[None]) -> None:
        """Let what is in flight end within the grace period, cut off the rest, and settle everything."""
        self._health.rest(CLAIMS)
        grace = self._config.grace.total_seconds()
        if self.in_flight and not self._config.until_idle:
            self._emit(Stopping(in_flight=self.in_flight, grace=self._config.grace))
        self._sender.hand_back()
        if not await self._drained(settling, grace):
            self._sender.cut_off()
            await self._drained(settling, max(AFTER_CUT_SECONDS, grace / 4))
        if settling.done():
            settling.result()

    async def _drained(self, settling: asyncio.Task[None], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.in_flight and not settling.done() and time.monotonic() < deadline:
            await asyncio.sleep(QUICKEST_POLL)
        return not self.in_flight
