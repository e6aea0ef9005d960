"""Walk through a live database and say what is not as it must be. Reads only, in bounded steps.

Each step sees one moment, so that what changes meanwhile is never half seen; and what a step finds is looked at again
after a while before it is believed.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from sendonce.admin.advice import Advice
from sendonce.admin.checks import CHECKS, COUNTERS, FOUND, RULES, Check
from sendonce.admin.text import counted, missing_tables
from sendonce.errors import StoreError
from sendonce.store.verifying import Inspected, Tally, Times, VerifyFacts, VerifyStore, Walk

STEP = 5_000
# The part of the time in which it is at work; the rest are pauses, for the database to do what it is there for.
SHARE = 0.5
SHORTEST_PAUSE = 0.001
AGAIN_AFTER = timedelta(seconds=1)
KEPT_IDS = 1000
# No transaction of ours takes longer; and clocks are read a moment before what they are to be the time of.
SURELY = timedelta(minutes=2)
A_MOMENT = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a walk has come: the last id looked at. A run can go on from here."""

    walk: Walk
    last_id: int = 0

    def __str__(self) -> str:
        return f"{self.walk}:{self.last_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPlan:
    """What to look for, from where on, and at no more rows a second than this."""

    checks: Sequence[Check] = CHECKS
    since: Cursor = Cursor(Walk.EVENTS)
    rate: float | None = None
    step: int = STEP
    again_after: timedelta = AGAIN_AFTER

    @property
    def rows(self) -> int:
        """How many a step looks at: no more than a second's worth."""
        return self.step if self.rate is None else max(1, min(self.step, int(self.rate)))

    @property
    def is_whole(self) -> bool:
        return self.since == Cursor(Walk.EVENTS)

    @property
    def walks(self) -> list[Walk]:
        """What is walked through, from where it begins."""
        every = list(Walk)
        return every[every.index(self.since.walk) :]


@dataclass(slots=True)
class Finding:
    """What one check has found: the first ids, or names, and how many there are. `is_more`: at least so many.

    `mends`: what is to be done about each, where that can be said.
    """

    check: Check
    found: list[int | str] = field(default_factory=list)
    amount: int = 0
    is_more: bool = False

    mends: list[str] = field(default_factory=list)

    @property
    def to_do(self) -> str:
        return "; ".join([*self.mends, *([self.check.to_do] if self.check.to_do else [])])

    @property
    def advice(self) -> tuple[Advice, ...]:
        return tuple(
            replace(each, id=self.found[0], of=self.check.of) if each.id == FOUND else each
            for each in self.check.advice
        )


@dataclass(slots=True)
class Verified:
    """What a run has come to so far. `notes` are no faults: what could not be looked at, and why."""

    place: Cursor
    looked: dict[Walk, int] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unrouted: int = 0
    longest_step: float = 0.0
    is_done: bool = False

    def add(self, check: Check, found: Sequence[int | str], *, is_more: bool = False) -> None:
        finding = self.findings.setdefault(check.name, Finding(check))
        finding.amount += len(found)
        finding.found += found[: KEPT_IDS - len(finding.found)]
        finding.is_more = finding.is_more or is_more


async def verify(store: VerifyStore, plan: VerifyPlan) -> AsyncGenerator[Verified, None]:
    """Look at everything once; the same report after every step, a little further."""
    report = Verified(plan.since)
    await _require_tables(store)
    before = await store.verify_facts()
    if RULES in plan.checks and plan.is_whole:
        await _rules(store, plan, report)
        yield report
    counts = COUNTERS in plan.checks and plan.is_whole
    tally = Tally()
    for walk in plan.walks:
        checks = {check.name: check for check in plan.checks if check.walk is walk}
        tallies = counts and walk is Walk.DELIVERIES
        if not checks and not tallies:
            continue
        after = plan.since.last_id if walk is plan.since.walk else 0
        async for step in _steps(store, plan, walk, checks, after, _times(before) if tallies else None):
            report.looked[walk] = report.looked.get(walk, 0) + step.inspected.looked
            report.longest_step = max(report.longest_step, step.seconds)
            report.place = Cursor(walk, step.inspected.upto)
            for name, ids in step.believed.items():
                is_more = len(step.inspected.found[name]) > len(ids) or len(ids) >= KEPT_IDS
                report.add(checks[name], ids, is_more=is_more)
            tally += step.inspected.tally
            report.unrouted += step.inspected.unrouted
            yield report
    if counts:
        _count(report, before, await store.verify_facts(), tally)
    _note(plan, report, before)
    report.is_done = True
    yield report


@dataclass(frozen=True, slots=True)
class _Step:
    inspected: Inspected
    believed: Mapping[str, Sequence[int]]
    seconds: float


async def _steps(
    store: VerifyStore, plan: VerifyPlan, walk: Walk, checks: Mapping[str, Check], after: int, ended: Times | None
) -> AsyncGenerator[_Step, None]:
    has_more = True
    while has_more:
        begun = time.monotonic()
        inspected = await store.inspect(walk, list(checks), after, limit=plan.rows, ended=ended)
        seconds = time.monotonic() - begun
        believed = await _believed(store, plan, inspected.found, after, inspected.upto)
        yield _Step(inspected, believed, seconds)
        after, has_more = inspected.upto, inspected.has_more
        if has_more:
            await asyncio.sleep(_pause(plan, inspected.looked, seconds))


async def _believed(
    store: VerifyStore, plan: VerifyPlan, found: Mapping[str, Sequence[int]], after: int, upto: int
) -> Mapping[str, Sequence[int]]:
    """Return the findings that persist at a second look."""
    if not found:
        return {}
    await asyncio.sleep(plan.again_after.total_seconds())
    again = await store.inspect_again(list(found), after, upto)
    both = {name: sorted(set(each) & set(again.get(name, ()))) for name, each in found.items()}
    return {name: each for name, each in both.items() if each}


def _pause(plan: VerifyPlan, looked: int, seconds: float) -> float:
    wanted = 0.0 if plan.rate is None else looked / plan.rate - seconds
    return max(SHORTEST_PAUSE, seconds * (1 / SHARE - 1), wanted)


async def _require_tables(store: VerifyStore) -> None:
    """StoreError when there is nothing to walk through."""
    if gone := [each.name for each in await store.broken_rules() if each.kind == "table"]:
        raise StoreError(missing_tables(gone))


async def _rules(store: VerifyStore, plan: VerifyPlan, report: Verified) -> None:
    broken = await store.broken_rules()
    if broken:
        await asyncio.sleep(plan.again_after.total_seconds())
        if still := sorted(set(broken) & set(await store.broken_rules())):
            report.add(RULES, [str(each) for each in still])
            report.findings[RULES.name].mends += [each.to_do for each in still]


def _times(facts: VerifyFacts) -> Times:
    return Times(surely=facts.now - SURELY, until=facts.now + A_MOMENT)


def _count(report: Verified, before: VerifyFacts, after: VerifyFacts, tally: Tally) -> None:
    """Whatever was counted when we began had ended by then, and is still there or was removed since; whatever surely
    had ended by then was counted. Where something was removed uncounted, by a version that did not, more may be counted
    than there are."""
    found: list[int | str] = []
    for name, had, gone_before, gone_after, ended, surely in (
        ("completed", before.completed, before.removed_completed, after.removed_completed, tally.completed,
         tally.completed_surely),
        ("dead_lettered", before.dead_lettered, before.removed_dead_lettered, after.removed_dead_lettered,
         tally.dead_lettered, tally.dead_lettered_surely),
    ):  # fmt: skip
        too_many = before.counts_removals and had > ended + gone_after
        if surely + gone_before > had or too_many:
            found.append(f"{name} ({had:,} counted, {ended:,} there, {gone_after:,} removed)")
    if found:
        report.add(COUNTERS, found)


def _note(plan: VerifyPlan, report: Verified, facts: VerifyFacts) -> None:
    if report.unrouted:
        report.notes.append(
            f"{counted(report.unrouted, 'event')} cannot be compared with"
            f" {'its' if report.unrouted == 1 else 'their'} deliveries yet: an older version recorded"
            f" {'it' if report.unrouted == 1 else 'them'}; count with: sendonce migrate"
        )
    if not plan.is_whole:
        report.notes.append("the rules and the counters are looked at by a whole run only, without --since")
    if facts.expired_leases and not facts.workers:
        report.notes.append(
            "no worker is alive: what had been leased when the last one ended is taken over when one is started"
        )
