"""The alarm: looks now and then at what needs people, and tells them once, whatever the number of workers."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from sendonce.domain.attempts import Result
from sendonce.engine.alert_transports import AlertTransport, Notice
from sendonce.engine.alerts import AlertSettings, Change, Raise, judge
from sendonce.engine.background import Troubles
from sendonce.engine.own_faults import OwnFaults
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Alerted, AlertFailed, Emit
from sendonce.store.ports import AlertStore

TRIES = 5
MOST_UNTOLD = 100


class _Owed(NamedTuple):
    sink: AlertTransport
    notice: Notice
    tries: int


class Alerter:
    """One for each worker. The database says which of them tells; nothing here can stop the worker."""

    def __init__(self, store: AlertStore, settings: AlertSettings, sinks: Sequence[AlertTransport], emit: Emit) -> None:
        self._store = store
        self._settings = settings
        self._sinks = sinks
        self._emit = emit
        self._faults = OwnFaults()
        self._owed: deque[_Owed] = deque(maxlen=MOST_UNTOLD)
        self._troubles = Troubles(lambda trouble: emit(AlertFailed(way="database", reason=trouble)))

    def note(self, results: Sequence[Result]) -> None:
        """Look for faults on our side, and for what ends them."""
        self._faults.note(results)

    async def run(self) -> None:
        """Look for ever, first after one interval: a worker that has just begun knows nothing."""
        while True:
            await asyncio.sleep(self._settings.every.total_seconds())
            await self.look()

    async def look(self) -> None:
        """Look once, and tell what is to be told by this worker; then try again what did not get through before."""
        await self._troubles.survive(self._look)
        await self._pay()

    async def _look(self) -> None:
        readings = await self._store.readings(self._settings.repeat)
        known = {row.name: row for row in await self._store.alerts()}
        met = self._faults.take()
        try:
            for change in judge(self._settings, readings, known, met=met, over=self._faults.over):
                if await self._is_mine(change):
                    is_over = not isinstance(change, Raise)
                    self._tell(Notice(name=change.name, message=change.message, is_over=is_over, at=readings.now))
        except StoreBusy:
            self._faults.put_back(met)
            raise
        raised = {row.name: row.met_at for row in known.values() if row.is_raised and ":" in row.name}
        self._faults.know(raised | {name: each.met_at for name, each in met.items()})

    async def _is_mine(self, change: Change) -> bool:
        """True for the one worker that is to tell it."""
        if isinstance(change, Raise):
            return await self._store.raise_alert(
                change.name,
                change.message,
                seen=change.seen,
                repeat=self._settings.repeat,
                size=change.size,
                met_at=change.met_at,
            )
        return await self._store.clear_alert(change.name)

    def _tell(self, notice: Notice) -> None:
        if self._settings.log:
            self._emit(Alerted(name=notice.name, message=notice.message, is_over=notice.is_over))
        self._owed.extend(_Owed(sink, notice, 0) for sink in self._sinks)

    async def _pay(self) -> None:
        """Tell what is owed, each way by itself: one that does not answer holds up no other."""
        owed = list(self._owed)
        self._owed.clear()
        by_way = [[each for each in owed if each.sink is sink] for sink in self._sinks]
        await asyncio.gather(*(self._pay_in_order(mine) for mine in by_way if mine))

    async def _pay_in_order(self, owed: Sequence[_Owed]) -> None:
        for position, (sink, notice, tries) in enumerate(owed):
            failure = await sink.tell(notice, tries + 1)
            if failure is None:
                continue
            self._emit(AlertFailed(way=sink.way, reason=failure.reason))
            if not failure.for_good and tries + 1 < TRIES:
                self._owed.append(_Owed(sink, notice, tries + 1))
                self._owed.extend(owed[position + 1 :])
                return
