"""What an Admin works on, and how its verbs are carried out: awaited in the caller's event loop, or called by anybody.

Each verb is written once, as an async method `averb`; `verb = sync(averb)` is the same verb for callers without an
event loop.
"""

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from sendonce.errors import NotAllowed
from sendonce.sql.steps import run_sync

if TYPE_CHECKING:
    from sendonce.sealing import SecretBox
    from sendonce.store.ports import Store

T = TypeVar("T")
P = ParamSpec("P")


class Session(ABC):
    """An open database with the keys that secrets are encrypted with."""

    url: str | None = None
    config: Path | None = None
    # True on the caller's connection: everything is part of the caller's transaction.
    is_borrowed = False

    @abstractmethod
    async def store(self) -> "Store":
        """Return the store, connected if it was not."""

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out a verb for a caller without an event loop."""

    def secret_box(self) -> "SecretBox":
        """Return what encrypts secrets, with the keys of the settings file or the environment."""
        from sendonce.config.load import load_sealer

        return load_sealer(self.settings_file(), os.environ)

    def settings_file(self) -> Path | None:
        """Return the settings file: the one that was named, or the one that a worker started here would read."""
        from sendonce.config.load import find

        return find(None if self.config is None else str(self.config), os.environ)


class HasSession(Protocol):
    @property
    def session(self) -> Session: ...


A = TypeVar("A", bound=HasSession)
Awaited = Callable[Concatenate[A, P], Coroutine[Any, Any, T]]


def sync(verb: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[A, P], T]:
    """Return the same verb for callers without an event loop: `requeue = sync(arequeue)`."""

    @wraps(verb)
    def called(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.session.run(verb(self, *args, **kwargs))

    called.__name__ = verb.__name__.removeprefix("a")
    called.__qualname__ = f"{verb.__qualname__.rpartition('.')[0]}.{called.__name__}"
    return called


def address_verb(
    verb: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Mark a verb that needs transactions of its own or the network: refused on the caller's connection."""

    @wraps(verb)
    def checked(self: A, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        if self.session.is_borrowed:
            raise NotAllowed(
                f"{verb.__name__[1:]} needs transactions of its own, so it cannot be a part of yours; open"
                " an Admin on the database's address for it"
            )
        return verb(self, *args, **kwargs)

    return checked


class AddressSession(Session):
    """A database's address. Its connections belong to one event loop: the caller's, or that of a thread of its own."""

    def __init__(self, url: str, config: Path | str | None, thread: "LoopThread | None") -> None:
        self.url = url
        self.config = None if config is None else Path(config)
        self._thread = thread
        self._loop = thread.loop if thread else asyncio.get_running_loop()
        self._opening = asyncio.Lock()
        self._store: Store | None = None

    async def store(self) -> "Store":
        from sendonce.compose import open_store

        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "this Admin belongs to another event loop; with Admin.open call its verbs without an a, with"
                " Admin.aopen await them in the loop in which it was opened"
            )
        async with self._opening:
            if self._store is None:
                self._store = await open_store(str(self.url))
        return self._store

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise RuntimeError("this Admin was opened with Admin.aopen: await its verbs, whose names begin with an a")
        return self._thread.run(work)

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


class StoreSession(Session):
    """A store on the caller's connection: every verb is a part of the caller's transaction."""

    is_borrowed = True

    def __init__(
        self,
        store: "Store",
        secret_box: "SecretBox | None" = None,
        *,
        is_async: bool = False,
        config: Path | str | None = None,
    ) -> None:
        self._store = store
        self._secret_box = secret_box
        self._is_async = is_async
        self.config = None if config is None else Path(config)

    async def store(self) -> "Store":
        return self._store

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._is_async:
            work.close()
            raise RuntimeError("this Admin is on an async connection: await its verbs, whose names begin with an a")
        return run_sync(work)

    def secret_box(self) -> "SecretBox":
        return self._secret_box or super().secret_box()


class LoopThread:
    """An event loop on a thread of its own, for callers that have none or must not wait in theirs."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="sendonce admin", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work comes to. Interrupted, it is cancelled and waited for first."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a verb was called from within another one, as by its on_progress; call it afterwards")
        answer: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []
        self.loop.call_soon_threadsafe(lambda: tasks.append(self._begun(work, answer)))
        try:
            return answer.result()
        except BaseException:
            if not answer.done():
                self.loop.call_soon_threadsafe(lambda: tasks[0].cancel())
                wait([answer])
            raise

    def close(self) -> None:
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _begun(self, work: Coroutine[Any, Any, T], answer: "Future[T]") -> asyncio.Task[T]:
        def ended(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                answer.set_exception(asyncio.CancelledError())
            elif (error := task.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(task.result())

        task = self.loop.create_task(work)
        task.add_done_callback(ended)
        return task


@contextmanager
def on_own_thread(context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Have an async context around the block, in an event loop on a thread of its own."""
    thread = LoopThread()
    try:
        found = thread.run(_entered(context))
        try:
            yield found
        finally:
            thread.run(_left(context))
    finally:
        thread.close()


async def _entered(context: AbstractAsyncContextManager[T]) -> T:
    return await context.__aenter__()


async def _left(context: AbstractAsyncContextManager[T]) -> None:
    await context.__aexit__(None, None, None)
