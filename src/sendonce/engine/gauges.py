"""Gauges of the database: read and served by one of all workers, so that a sum over them counts nothing twice."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from sendonce.engine.background import Troubles
from sendonce.observability import metrics
from sendonce.observability.facts import Emit, MetricsFailed
from sendonce.observability.metrics import CAUSES, OTHER, Measured, alone
from sendonce.store.ports import AlertStore, LeaseStore
from sendonce.store.readers import ReadStore
from sendonce.store.records import ChannelRow, Status
from sendonce.store.upkeep import Reached, Stage

CHECK_SECONDS = 1.0
READ_SECONDS = 15.0
# Below the time after which the others take a worker for dead: then one of them serves these.
CONFIRMED_SECONDS = 10.0
STALE_SECONDS = 45.0
NOTHING_GOES: Mapping[Stage, timedelta] = {}


class GaugeStore(LeaseStore, ReadStore, AlertStore, Protocol):
    """What gauges are read from."""


class _Reading(NamedTuple):
    at: float
    status: Status
    channels: Sequence[ChannelRow]
    retention: Sequence[Reached]


class Gauges:
    """Asks every second whether this worker is the eldest that serves metrics; if so, reads now and then.

    `schemes`: those that this worker has a channel for; `kept`: for how long each part of retention keeps things.
    """

    def __init__(
        self,
        store: GaugeStore,
        worker_id: int,
        emit: Emit,
        schemes: Collection[str] = (),
        kept: Mapping[Stage, timedelta] = NOTHING_GOES,
    ) -> None:
        self._schemes = frozenset(schemes)
        self._kept = {stage.value: age for stage, age in kept.items()}
        self._store = store
        self._worker_id = worker_id
        self._emit = emit
        self._confirmed_at = float("-inf")
        self._reading: _Reading | None = None
        self._troubles = Troubles(lambda trouble: emit(MetricsFailed(reason=trouble)))

    async def run(self) -> None:
        """Look until cancelled. Nothing here can stop the worker."""
        while True:
            await self._troubles.survive(self.look)
            await asyncio.sleep(CHECK_SECONDS)

    async def look(self) -> None:
        """Look once."""
        begun = time.monotonic()
        if not await self._store.is_eldest(self._worker_id):
            self._reading = None
            return
        self._confirmed_at = begun
        if self._reading is None or begun - self._reading.at >= READ_SECONDS:
            self._reading = _Reading(
                begun,
                await self._store.status(),
                await self._store.open_channels(),
                await self._store.retention_reached(),
            )

    def measured(self) -> list[Measured]:
        """What was read; nothing when it is not for this worker to say, or too old."""
        now = time.monotonic()
        if self._reading is None or now - self._confirmed_at > CONFIRMED_SECONDS:
            return []
        if now - self._reading.at > STALE_SECONDS:
            return []
        return [*_measured(self._reading.status), *self._by_channel(self._reading), self._behind(self._reading)]

    def _by_channel(self, reading: _Reading) -> list[Measured]:
        ages: dict[tuple[str, ...], float] = {(scheme,): 0.0 for scheme in (*self._schemes, OTHER)}
        breakers = dict.fromkeys(ages, 0.0)
        for row in reading.channels:
            label = (row.scheme if row.scheme in self._schemes else OTHER,)
            ages[label] = max(ages[label], _age(reading.status, row.oldest_open_at).total_seconds())
            breakers[label] += row.breakers
        return [(metrics.OLDEST_OPEN, ages), (metrics.BREAKERS, breakers)]

    def _behind(self, reading: _Reading) -> Measured:
        """What nobody wants to go is not behind."""
        return metrics.RETENTION_BEHIND, {
            (each.part,): each.behind(reading.status.now, self._kept[each.part]).total_seconds()
            for each in reading.retention
            if each.part in self._kept
        }


def _measured(status: Status) -> list[Measured]:
    values = {
        metrics.OLDEST_DUE: _age(status, status.oldest_due_at).total_seconds(),
        metrics.DUE: status.due,
        metrics.SCHEDULED: status.scheduled,
        metrics.RETRYING: status.retrying,
        metrics.BEING_SENT: status.in_flight,
        metrics.IN_DOUBT: status.in_doubt,
        # Without names: others choose schemes. The alert, `status` and `doctor` have them.
        metrics.NOT_SERVED: sum(room.waiting for room in status.rooms if not room.is_served),
        metrics.DEAD_LETTERS: status.dead_letters,
        metrics.WORKERS: len(status.workers),
        metrics.STOPS: len(status.stops),
        metrics.ALERTS: len(status.alerts),
        metrics.SCHEMA: status.schema_version,
    }
    parked: dict[tuple[str, ...], float] = {(cause,): 0 for cause in CAUSES}
    parked |= {(cause,): count for cause, count in status.parked_by}
    return [
        (metrics.PARKED, parked),
        *((metric, alone(value)) for metric, value in values.items()),
    ]


def _age(status: Status, since: datetime | None) -> timedelta:
    """A stop of everything lets work grow old on purpose; what else people hold back is not read."""
    if since is None or any(stop.scope == "all" for stop in status.stops):
        return timedelta(0)
    return max(status.now - since, timedelta(0))
