"""The reconciler: asks now about everything that may have been sent, and settles what it is told. It never sends."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from sendonce.channels.registry import Channels
from sendonce.domain.answers import (
    HANDED_BACK,
    LEFT,
    NOT_FOUND,
)
from sendonce.domain.attempts import (
    Claim,
    Fence,
    Lease,
    Refusal,
    Report,
    Result,
    Verdict,
    error_of,
    notification_id_of,
)
from sendonce.domain.decide import Decision
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Deferred
from sendonce.engine.attempt import AttemptRunner, CredentialStore
from sendonce.engine.config import check_instance
from sendonce.engine.fairness import Fleet
from sendonce.engine.lease_keeper import lease_time
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.store.ports import LeaseStore
from sendonce.store.readers import ReadStore

CONCURRENCY = 50
LEASE = timedelta(seconds=60)
MARGIN_SECONDS = 2.0
INTERRUPTED_SECONDS = 5.0
INTERRUPTED = replace(HANDED_BACK, message="the reconciliation was interrupted before it was asked")


class Answer(StrEnum):
    """The result of asking about one delivery."""

    FOUND = "found"
    NOT_FOUND = "not_found"
    NO_ANSWER = "no_answer"
    HELD = "held"
    LEFT = "left"
    GIVEN_UP = "given_up"
    LATE = "late"


UNANSWERED = frozenset({Answer.NO_ANSWER, Answer.LATE})


class Asked(NamedTuple):
    """One delivery that was asked about; `detail` is the other side's id, or an error code."""

    delivery_id: int
    destination: str
    answer: Answer
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """How many came to what. Of those in doubt so many are left alone, until then at the latest."""

    asked: int
    answers: dict[Answer, int]
    left_alone: int = 0
    left_alone_until: datetime | None = None

    @property
    def unanswered(self) -> int:
        """About how many nothing is known yet that was not known before."""
        return sum(self.answers.get(answer, 0) for answer in UNANSWERED)


class ReconcilerStore(LeaseStore, ReadStore, Protocol):
    """What the reconciler needs beside the orchestrator."""


class Reconciler:
    """Leases a batch, asks about all of it at once within the lease, settles it, and goes on with higher ids."""

    def __init__(
        self, orchestrator: Orchestrator, store: ReconcilerStore, channels: Channels, policies: Policies,
        *, namespace: str, worker_id: int, credentials: CredentialStore | None = None, concurrency: int = CONCURRENCY,
        instance: str | None = None,
    ) -> None:  # fmt: skip
        self._orchestrator = orchestrator
        self._store = store
        self._policies = policies
        self._runner = AttemptRunner(channels, namespace, credentials)
        self._worker_id = worker_id
        self._concurrency = concurrency
        self._fence = Fence(instance)
        self._fleet = Fleet(store, channels, worker_id)

    async def run(self, on_asked: Callable[[Asked], None]) -> Reconciled:
        """Ask about each delivery in doubt once. Interrupted, what was not asked is handed back."""
        counts: Counter[Answer] = Counter()
        after = 0
        while True:
            good_until = lease_time() + LEASE.total_seconds() - MARGIN_SECONDS
            served, fence = await self._fleet.served(), self._fence
            started = await self._orchestrator.start_doubtful(
                self._worker_id, self._concurrency, LEASE, after=after, served=served, fence=fence
            )
            if started.refused is not None:
                await self._refused(started.refused)
                continue
            if started.lease is None:
                left_alone, until = await self._store.left_alone()
                return Reconciled(
                    asked=counts.total(), answers=dict(counts), left_alone=left_alone, left_alone_until=until
                )
            for asked in await self._ask_all(started.lease, good_until):
                counts[asked.answer] += 1
                on_asked(asked)
            after = max(claim.delivery_id for claim in started.lease.claims)
            await self._store.beat(self._worker_id, progressed=True)

    async def _refused(self, refused: Refusal) -> None:
        """Nothing may be asked about yet: make the database ready, or raise why this is not possible."""
        if refused is not Refusal.UNMARKED:
            await check_instance(self._store, self._fence.instance)
        while await self._orchestrator.mark_loss():
            continue

    async def _ask_all(self, lease: Lease, good_until: float) -> list[Asked]:
        asking = [asyncio.ensure_future(self._ask(claim, lease, good_until)) for claim in lease.claims]
        try:
            await asyncio.wait(asking)
        except asyncio.CancelledError:
            for each in asking:
                each.cancel()
            await asyncio.wait(asking, timeout=INTERRUPTED_SECONDS)
            await self._settle(lease, asking)
            raise
        return await self._settle(lease, asking)

    async def _settle(self, lease: Lease, asking: Sequence["asyncio.Future[Report]"]) -> list[Asked]:
        """Settle a whole lease, and release it."""
        reports = [
            each.result() if each.done() and not each.cancelled() else Report(claim, lease.id, INTERRUPTED)
            for claim, each in zip(lease.claims, asking, strict=True)
        ]
        results = self._orchestrator.decide(reports)
        verdicts = await self._orchestrator.settle(results)
        await self._store.release([lease.id])
        return [_asked(result, verdict) for result, verdict in zip(results, verdicts, strict=True)]

    async def _ask(self, claim: Claim, lease: Lease, good_until: float) -> Report:
        policy = self._policies.of(claim)
        known = await self._runner.ask(
            claim, policy, lambda each: min(each.timeout.total_seconds(), good_until - lease_time())
        )
        # Not at once, and not after a growing pause: who reconciles every minute must not keep it from being sent.
        unknown = NOT_FOUND if known.cleared else replace(LEFT, again_in=policy.first_delay)
        return known.report(claim, lease.id, known.outcome or unknown)


def _asked(result: Result, verdict: Verdict) -> Asked:
    claim, outcome = result.report.claim, result.report.outcome
    answer = Answer.LATE if verdict is Verdict.LATE else _answer(result.report, result.decision)
    detail = notification_id_of(outcome) or error_of(outcome)[0]
    return Asked(claim.delivery_id, claim.destination, answer, detail)


def _answer(report: Report, decision: Decision) -> Answer:
    outcome = report.outcome
    if decision.to is DeliveryState.COMPLETED:
        return Answer.FOUND
    if decision.to is DeliveryState.DEAD_LETTERED:
        return Answer.HELD if decision.reason is ReasonClass.IN_DOUBT else Answer.GIVEN_UP
    if report.cleared:
        return Answer.NOT_FOUND
    code = outcome.code if isinstance(outcome, Deferred) else None
    return Answer.LEFT if code == LEFT.code else Answer.NO_ANSWER
