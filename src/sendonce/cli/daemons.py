"""What commands share that run until they are told to stop: their log and their event loop."""

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def log_to_stderr(format: str, *, verbose: bool) -> None:
    """Have facts logged to standard error."""
    import logging

    handler = logging.StreamHandler()
    # A line of JSON says by itself when and how bad.
    handler.setFormatter(
        logging.Formatter("%(message)s" if format == "json" else "%(asctime)s %(levelname)s %(message)s")
    )
    logger = logging.getLogger("sendonce")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)


def run_on_best_loop(work: "Coroutine[Any, Any, T]") -> T:
    """Run it to its end on the fastest event loop that is installed."""
    import asyncio
    import gc
    from importlib.util import find_spec

    # Claims come and go by the thousand and hold no cycles: looking for cycles among them at every turn costs a tenth.
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    if find_spec("uvloop") is None:
        return asyncio.run(work)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
