"""Work that nobody breaks off: half a statement on somebody else's connection would fail all that is theirs."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


async def unbroken(work: Coroutine[Any, Any, Answer]) -> Answer:
    """What the work comes to. Who is cancelled in the meantime is so when it is done."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not tell of it
    raise cancelled
