"""A crash in a test: the engine ends at a checkpoint, and nothing that comes after it is written."""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from sendonce.checkpoints import POINTS, install
from sendonce.errors import ConfigError

# Renewals are for sends that take seconds, of which a test has none.
CRASH_POINTS = {name.partition(".")[2]: name for name in POINTS if name != "keeper.before_renew"}


class Crashed(BaseException):
    """The engine has died at this point, as a killed process. Not an Exception, so that only `crash` catches it."""


class Crash:
    """One crash that is to come."""

    def __init__(self, point: str) -> None:
        self.point = CRASH_POINTS.get(point, point)
        if self.point not in CRASH_POINTS.values():
            raise ConfigError(f"there is no point {point!r} to crash at; there are: {', '.join(CRASH_POINTS)}")
        self.has_happened = False
        self._cut: Callable[[], None] | None = None
        self._task: asyncio.Task[object] | None = None

    def arm(self, task: "asyncio.Task[object]", cut: Callable[[], None]) -> None:
        """Have this task die at the point; `cut` keeps whatever is left of it from the database."""
        self._task, self._cut = task, cut
        install(self._reach)

    def disarm(self) -> None:
        install(None)

    def _reach(self, point: str) -> None:
        if point == self.point or self.has_happened:
            self._die()

    def _die(self) -> NoReturn:
        self.has_happened = True
        if self._cut is not None:
            self._cut()
        # The task itself ends by what is raised here; cancelled as well, it could not take its own tasks along.
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        raise asyncio.CancelledError
