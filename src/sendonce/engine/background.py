"""Loops beside the work: run and ended together, and none of them can stop the worker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

from sendonce.errors import SendonceError, StoreBusy


@asynccontextmanager
async def background(*loops: Coroutine[object, object, object]) -> AsyncIterator[None]:
    """Run these beside what is within, and cancel them at its end."""
    tasks = [asyncio.create_task(each) for each in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Troubles:
    """Reports what goes wrong in a loop once, until something else does; the loop goes on."""

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
