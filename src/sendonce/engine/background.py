"""Loops beside the work, which no trouble stops, and waiting for a database that cannot answer now."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta

from sendonce.errors import SendonceError, ServerReadOnly, StoreBusy
from sendonce.observability.facts import DatabaseBack, DatabaseLost, Emit


@asynccontextmanager
async def background(*loops: Coroutine[object, object, object]) -> AsyncIterator[None]:
    """Run these coroutines beside the block, and cancel them at its end."""
    tasks = [asyncio.create_task(each) for each in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Troubles:
    """Keeps a loop going through errors, and reports each error once until another one follows."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._last = ""

    async def survive(self, look: Callable[[], Awaitable[None]]) -> None:
        """Run `look` and report what it raises, except StoreBusy: the worker says by itself that it waits."""
        try:
            await look()
        except StoreBusy:
            return
        except Exception as error:  # whatever it is, the next look comes
            trouble = str(error) if isinstance(error, SendonceError) else type(error).__name__
            if trouble != self._last:
                self._report(trouble)
            self._last = trouble
        else:
            self._last = ""


FIRST_SECONDS = 0.1
LONGEST_SECONDS = 3.0


class Outage:
    """What a part of a program says of its database: once that it is lost, once that it is there and only reads, and
    when it is back."""

    def __init__(self, part: str, emit: Emit) -> None:
        self._part = part
        self._emit = emit
        self._lost_at: float | None = None
        self._only_reads = False

    def met(self, error: StoreBusy) -> None:
        """Note that the database did not answer, or refused to write."""
        is_new = self._lost_at is None or (isinstance(error, ServerReadOnly) and not self._only_reads)
        self._lost_at = self._lost_at or time.monotonic()
        self._only_reads |= isinstance(error, ServerReadOnly)
        if is_new:
            self._emit(DatabaseLost(part=self._part, reason=str(error)))

    @property
    def is_on(self) -> bool:
        return self._lost_at is not None

    def over(self) -> None:
        """Note that the database has answered."""
        if self._lost_at is None:
            return
        self._emit(DatabaseBack(part=self._part, after=timedelta(seconds=time.monotonic() - self._lost_at)))
        self._lost_at, self._only_reads = None, False


class Backoff:
    """Pauses that grow while the database does not answer; parts of one program may share what they say of it."""

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._pause = FIRST_SECONDS

    async def wait(self, error: StoreBusy, stop: asyncio.Event | None) -> None:
        """Wait before the next try, or until `stop` is set."""
        self._outage.met(error)
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_SECONDS)
        try:
            async with asyncio.timeout(pause):
                await (stop or asyncio.Event()).wait()
        except TimeoutError:
            return

    @property
    def is_needed(self) -> bool:
        """True while the database has not answered again."""
        return self._outage.is_on

    def calm(self) -> None:
        """Note that the database has answered."""
        self._pause = FIRST_SECONDS
        self._outage.over()
