"""Remove by hand, and at once, what retention would remove in its own time."""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from sendonce.store.upkeep import Archive, RetentionStore, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long after its end each thing goes, and how long workers and the operations log are remembered. `about` is
    that in words, for the operations log."""

    about: str
    ages: Mapping[Stage, timedelta]
    workers: timedelta | None = None
    operations: timedelta | None = None
    batch: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What has gone so far, and up to which event was looked in this stage. `events`: those deleted, key and all."""

    stage: Stage | None = None
    last_id: int = 0
    contents: int = 0
    deliveries: int = 0
    events: int = 0
    rest: int = 0


async def prune(
    store: RetentionStore, plan: Plan, *, operator: str, reason: str, archive: Archive | None = None
) -> AsyncGenerator[Progress, None]:
    """Remove what is old enough, in steps; how far it has come after each. Logged, also when interrupted."""
    done = Progress()
    try:
        async for done in _steps(store, plan, archive, acts=True):
            yield done
        while step := await store.drop_rest(limit=plan.batch, workers=plan.workers, operations=plan.operations):
            done = _with(done, rest=done.rest + step)
            yield done
    finally:
        counts = {"contents": done.contents, "deliveries": done.deliveries, "events": done.events, "rest": done.rest}
        await store.log_upkeep(
            "prune",
            operator=operator,
            reason=reason,
            subject=plan.about,
            affected=sum(counts.values()),
            details=json.dumps(counts),
        )


def count(store: RetentionStore, plan: Plan) -> AsyncGenerator[Progress, None]:
    """The same steps, and nothing is removed. What would lose its history and then its key is counted for both."""
    return _steps(store, plan, None, acts=False)


async def _steps(
    store: RetentionStore, plan: Plan, archive: Archive | None, *, acts: bool
) -> AsyncGenerator[Progress, None]:
    done = Progress()
    for stage, age in plan.ages.items():
        after: int | None = 0
        while after is not None:
            if acts:
                step = await store.retain(stage, after, limit=plan.batch, age=age, archive=archive)
            else:
                step = await store.count_old(stage, after, limit=plan.batch, age=age)
            after = step.last_id
            if after is None:
                break
            done = Progress(
                stage=stage,
                last_id=after,
                contents=done.contents + (step.events if stage is Stage.PAYLOADS else 0),
                deliveries=done.deliveries + step.deliveries,
                events=done.events + (step.events if stage is Stage.KEYS else 0),
            )
            yield done
        if acts and done.stage is stage:
            await store.pass_by(stage, done.last_id)


def _with(done: Progress, *, rest: int) -> Progress:
    return Progress(contents=done.contents, deliveries=done.deliveries, events=done.events, rest=rest)
