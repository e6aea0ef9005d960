"""Run a command's work on an open store, and close it whatever happens."""

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from sendonce.cli.settings import database_of

if TYPE_CHECKING:
    from sendonce.store.ports import Store

Answer = TypeVar("Answer")


def with_store(args: argparse.Namespace, work: "Callable[[Store], Awaitable[Answer]]") -> Answer:
    """What `work` answers about the database that the options or the environment name."""
    import asyncio

    return asyncio.run(_opened(database_of(args), work))


async def _opened(url: str, work: "Callable[[Store], Awaitable[Answer]]") -> Answer:
    from sendonce.compose import open_store

    store = await open_store(url)
    try:
        return await work(store)
    finally:
        await store.close()
