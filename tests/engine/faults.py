"""A store in front of a real one that notes, fails and loses answers as told."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

from sendonce.domain.attempts import NO_FENCE, Fence, Result, Verdict
from sendonce.domain.limits import NO_LIMITS, Limits
from sendonce.store.ports import Started, Store


class Faulty:
    """`before` is raised instead of doing the work, `after` when it is done: a commit whose answer was lost.

    Both are scripts by the name of the call: one entry per call, None for nothing; at their end all is well.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.before: dict[str, list[Exception | None]] = {}
        self.after: dict[str, list[Exception | None]] = {}
        self.calls: list[str] = []
        self.on_start: Callable[[int], None] = lambda limit: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def start(
        self, worker_id: int, limit: int, hold: timedelta, limits: Limits = NO_LIMITS, fence: Fence = NO_FENCE
    ) -> Started:
        self.on_start(limit)
        self._begin("start")
        started = await self._store.start(worker_id, limit, hold, limits, fence)
        self._end("start")
        return started

    async def settle(self, results: Sequence[Result]) -> list[Verdict]:
        self._begin("settle")
        verdicts = await self._store.settle(results)
        self._end("settle")
        return verdicts

    def _begin(self, name: str) -> None:
        self.calls.append(name)
        _raise_next(self.before.get(name))

    def _end(self, name: str) -> None:
        _raise_next(self.after.get(name))


def _raise_next(script: list[Exception | None] | None) -> None:
    if script and (error := script.pop(0)) is not None:
        raise error


def faulty(store: Store) -> tuple[Faulty, Store]:
    """The same thing twice: to tell it what to do, and to hand it to a worker."""
    made = Faulty(store)
    return made, cast(Store, made)
