"""Retention: what has ended long ago loses its content, then its history, then its key.

Now and then one of the workers makes a pass, in small steps with pauses between them. A pass goes on where the last
one has ended, because what is behind it is done; once a day it begins at the first event again, for what was still open
when its turn had come.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

from sendonce.domain.durations import format_duration
from sendonce.engine.background import Troubles
from sendonce.errors import ConfigError
from sendonce.observability.facts import Emit, Pruned, PruningFailed, PruningLate
from sendonce.store.upkeep import REST, RetentionStore, Stage, Turn

# The part of the time in which it is at work during a pass; the rest are pauses. A pass that goes on has fallen behind:
# its part doubles with every minute, so that it keeps up with whatever workers can send.
SHARE = 0.04
LARGEST_SHARE = 0.5
DOUBLES_EVERY = 60.0
SHORTEST_PAUSE = 0.005
# A worker that has just begun has better things to do.
FIRST_LOOK = timedelta(seconds=5)
LOOK_EVERY = timedelta(minutes=5)
# What was still open when a pass went by is met by one that starts over: every so many, which is once a day.
WHOLE_EVERY = 24
HOLD = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSettings:
    """For how long after its last sight a message is known again. None keeps receipts for ever.

    `sender_keeps`: for how long a sender may repeat a message. What comes again later than `keep` is handled twice, so
    a shorter time is refused.
    """

    keep: timedelta | None = timedelta(days=90)
    sender_keeps: timedelta | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and self.keep <= timedelta(0):
            raise ConfigError("keep must be longer than nothing")
        if self.keep is not None and self.sender_keeps is not None and self.keep < self.sender_keeps:
            raise ConfigError(
                f"keep must be at least {format_duration(self.sender_keeps)} (sender_keeps), not"
                f" {format_duration(self.keep)}: what a sender repeats after that would be handled twice"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """How long things are kept after the last delivery of their event has ended. None keeps them for ever."""

    payloads: timedelta | None = timedelta(days=30)
    history: timedelta | None = timedelta(days=90)
    keys: timedelta | None = timedelta(days=90)
    operations: timedelta | None = timedelta(days=365)
    workers: timedelta | None = timedelta(days=30)
    every: timedelta = timedelta(hours=1)
    batch: int = 500
    inbox: InboxSettings = InboxSettings()

    def __post_init__(self) -> None:
        if self.keys is not None and (self.history is None or self.keys < self.history):
            raise ConfigError("keys must be kept at least as long as history")
        if not 1 <= self.batch <= 10_000:
            raise ConfigError("batch must be a number of events between 1 and 10000")
        if self.every <= timedelta(0):
            raise ConfigError("every must be longer than nothing")

    @property
    def stages(self) -> dict[Stage, timedelta]:
        """What goes, and how long after its end. Where the key goes at the same time, the history goes with it."""
        ages = {Stage.PAYLOADS: self.payloads, Stage.HISTORY: self.history, Stage.KEYS: self.keys}
        if self.keys == self.history:
            del ages[Stage.HISTORY]
        return {stage: age for stage, age in ages.items() if age is not None}


class Retention:
    """The retention of one worker. Whose turn it is stands in the database, so that several workers do it once."""

    def __init__(self, store: RetentionStore, settings: RetentionSettings, emit: Emit, *, worker_id: int) -> None:
        self._store = store
        self._settings = settings
        self._emit = emit
        self._turn = Turn(worker_id, HOLD)
        self._troubles = Troubles(lambda trouble: emit(PruningFailed(reason=trouble)))

    async def run(self) -> None:
        """Check at intervals whether a pass is due."""
        await asyncio.sleep(min(FIRST_LOOK, self._settings.every).total_seconds())
        while True:
            await self.look()
            await asyncio.sleep(min(LOOK_EVERY, self._settings.every).total_seconds())

    async def look(self) -> None:
        """Run the passes that are due, unless another worker runs them."""
        await self._troubles.survive(self._look)

    async def _look(self) -> None:
        gone = dict.fromkeys(Stage, 0)
        deliveries = 0
        for stage, age in self._settings.stages.items():
            events, of_them = await self._pass(stage, age)
            gone[stage] += events
            deliveries += of_them
        rest = await self._drop_rest()
        if any(gone.values()) or rest:
            events = gone[Stage.KEYS]
            self._emit(Pruned(contents=gone[Stage.PAYLOADS], deliveries=deliveries, events=events, rest=rest))

    async def _pass(self, stage: Stage, age: timedelta) -> tuple[int, int]:
        """From where the last one has ended to what is too young; how many events and deliveries it concerned."""
        events = deliveries = 0
        after = await self._store.take_turn(stage, self._turn, whole=self._settings.every * WHOLE_EVERY)
        if after is None:
            return 0, 0
        first, is_told = time.monotonic(), False
        while after is not None:
            begun = time.monotonic()
            if not is_told and begun - first > self._settings.every.total_seconds():
                is_told = True
                self._emit(PruningLate(part=stage.value, every=self._settings.every))
            step = await self._store.retain(stage, after, limit=self._settings.batch, age=age, turn=self._turn)
            events, deliveries, after = events + step.events, deliveries + step.deliveries, step.last_id
            await _pause(begun, share_of(begun - first))
        await self._store.end_turn(stage, self._turn, wait=self._settings.every)
        return events, deliveries

    async def _drop_rest(self) -> int:
        dropped, first = 0, time.monotonic()
        if await self._store.take_turn(REST, self._turn, whole=self._settings.every * WHOLE_EVERY) is None:
            return 0
        while True:
            begun = time.monotonic()
            step = await self._store.drop_rest(
                limit=self._settings.batch, workers=self._settings.workers, operations=self._settings.operations
            )
            step += await self._store.drop_inbox(
                limit=self._settings.batch, keep=self._settings.inbox.keep, contents=self._settings.payloads
            )
            dropped += step
            if not step:
                break
            await _pause(begun, share_of(begun - first))
        await self._store.end_turn(REST, self._turn, wait=self._settings.every)
        return dropped


def share_of(seconds: float) -> float:
    """Return the share of time that a pass may work, after it has run for so long."""
    return min(max(LARGEST_SHARE, SHARE), SHARE * 2 ** min(seconds // DOUBLES_EVERY, 30))


async def _pause(begun: float, share: float) -> None:
    """Pause until the work is no more than its share of the time."""
    worked = time.monotonic() - begun
    await asyncio.sleep(max(SHORTEST_PAUSE, worked * (1 / share - 1)))
