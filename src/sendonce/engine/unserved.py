"""What no live worker serves: it waits by its channel's name, spends nothing, and ends by its own deadline alone."""

from collections.abc import Sequence

from sendonce.domain.serving import Served
from sendonce.engine.orchestrator import Orchestrator
from sendonce.observability.facts import Emit, NotServed
from sendonce.store.records import Room

STEP = 1000


class Unserved:
    """Tends one room at each look, in turn, with a bounded step: whoever looks does not pay for how much waits."""

    def __init__(self, orchestrator: Orchestrator, emit: Emit) -> None:
        self._orchestrator = orchestrator
        self._emit = emit
        self._after: dict[str, int] = {}

    async def tend(self, rooms: Sequence[Room], served: Served) -> None:
        """Take the next step in one of these rooms."""
        if not rooms:
            self._after.clear()
            return
        # Those tended last are at the end.
        turns = {name: turn for turn, name in enumerate(self._after)}
        room = min((each.name for each in rooms), key=lambda name: turns.get(name, -1))
        after = self._after.pop(room, 0)
        kind, _, name = room.partition(":")
        if kind != "channel":
            self._after[room] = 0
            await self._orchestrator.park_unserved(room, served)
            return
        given_up, last = await self._orchestrator.give_up_unserved(name, after, STEP)
        self._after[room] = last or 0
        if given_up:
            self._emit(NotServed(channel=name, expired=given_up))
