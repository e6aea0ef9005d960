"""The inbox: handle each message once, in transactions that belong to the caller.

A message's receipt is written in the transaction of its effect, so both are there or neither. While it is kept, the
message is known again; `[inbox] keep` says how long that is.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import partial, wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, TypeVar

from sendonce.domain.messages import MessageId, check_consumer, name_of, render_message_id
from sendonce.inbox.receipts import Receipt, give_up, keep_results, look, receive, receive_many
from sendonce.sql.drivers import (
    AsyncConnection,
    AsyncRun,
    Plan,
    SchemaExpected,
    SyncConnection,
    SyncRun,
    async_driver,
    sync_driver,
)
from sendonce.sql.queries import Database, Statements

T = TypeVar("T")
Given = ParamSpec("Given")
_SAY_ASYNC, _SAY_SYNC = "async with inbox.aonce(…)", "with inbox.once(…)`, without the `a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """Makes the effect of a message happen once for each consumer, on the caller's own connection."""

    def once(self, connection: SyncConnection, consumer: str, message_id: MessageId) -> AbstractContextManager[Receipt]:
        """`with inbox.once(connection, "wallet", message.id) as first:` and then `if first:` do it.

        The receipt commits with what is done inside, in the caller's transaction, and goes with it. While another
        transaction handles the same message this waits for its end. An error that leaves the block makes the
        transaction, or the savepoint around the block, one that cannot be committed; on SQLite it undoes the block.
        """
        run = sync_driver(connection, otherwise=_SAY_ASYNC)
        return _Once(connection, run, partial(receive, name_of(consumer, message_id)), _one)

    def aonce(
        self, connection: AsyncConnection, consumer: str, message_id: MessageId
    ) -> AbstractAsyncContextManager[Receipt]:
        """`once` on an async connection or session, as `async with`."""
        run = async_driver(connection, otherwise=_SAY_SYNC)
        return _AsyncOnce(connection, run, partial(receive, name_of(consumer, message_id)), _one)

    def once_many(
        self, connection: SyncConnection, consumer: str, message_ids: Iterable[MessageId]
    ) -> AbstractContextManager[list[Receipt]]:
        """A receipt for each of these messages, in their order: handle those that are true.

        They are taken in one order whatever order they come in, so that batches do not wait for each other.
        """
        run = sync_driver(connection, otherwise=_SAY_ASYNC)
        return _Once(connection, run, _many(consumer, message_ids), _all)

    def aonce_many(
        self, connection: AsyncConnection, consumer: str, message_ids: Iterable[MessageId]
    ) -> AbstractAsyncContextManager[list[Receipt]]:
        """`once_many` on an async connection or session, as `async with`."""
        run = async_driver(connection, otherwise=_SAY_SYNC)
        return _AsyncOnce(connection, run, _many(consumer, message_ids), _all)

    def seen(self, connection: SyncConnection, consumer: str, message_id: MessageId) -> Receipt | None:
        """Return the receipt of a message that was handled, and is remembered; nothing is written."""
        run = sync_driver(connection, otherwise="await inbox.aseen(…)")
        with SchemaExpected():
            return run(connection, partial(look, name_of(consumer, message_id)), reads=True)

    async def aseen(self, connection: AsyncConnection, consumer: str, message_id: MessageId) -> Receipt | None:
        """`seen` on an async connection or session."""
        run = async_driver(connection, otherwise="inbox.seen(…)`, without the `a")
        with SchemaExpected():
            return await run(connection, partial(look, name_of(consumer, message_id)), reads=True)

    def handler(
        self, consumer: str
    ) -> Callable[
        [Callable[Concatenate[SyncConnection, MessageId, Given], str | None]],
        Callable[Concatenate[SyncConnection, MessageId, Given], str | None],
    ]:
        """Decorate `def handle(connection, message_id, …)`: it is called once for each message.

        What it returns is kept, and a duplicate returns it again: a short text, or None.
        """
        check_consumer(consumer)

        def decorate(
            handle: Callable[Concatenate[SyncConnection, MessageId, Given], str | None],
        ) -> Callable[Concatenate[SyncConnection, MessageId, Given], str | None]:
            if iscoroutinefunction(handle):
                raise TypeError("this handler is async: decorate it with `@inbox.ahandler(…)`")

            @wraps(handle)
            def handled(
                connection: SyncConnection, message_id: MessageId, /, *args: Given.args, **kwargs: Given.kwargs
            ) -> str | None:
                with self.once(connection, consumer, message_id) as first:
                    if first and (result := handle(connection, message_id, *args, **kwargs)) is not None:
                        first.result = result
                return first.result

            return handled

        return decorate

    def ahandler(
        self, consumer: str
    ) -> Callable[
        [Callable[Concatenate[AsyncConnection, MessageId, Given], Awaitable[str | None]]],
        Callable[Concatenate[AsyncConnection, MessageId, Given], Awaitable[str | None]],
    ]:
        """`handler` for `async def handle(connection, message_id, …)`."""
        check_consumer(consumer)

        def decorate(
            handle: Callable[Concatenate[AsyncConnection, MessageId, Given], Awaitable[str | None]],
        ) -> Callable[Concatenate[AsyncConnection, MessageId, Given], Awaitable[str | None]]:
            @wraps(handle)
            async def handled(
                connection: AsyncConnection, message_id: MessageId, /, *args: Given.args, **kwargs: Given.kwargs
            ) -> str | None:
                async with self.aonce(connection, consumer, message_id) as first:
                    if first and (result := await handle(connection, message_id, *args, **kwargs)) is not None:
                        first.result = result
                return first.result

            return handled

        return decorate


class _Block(Generic[T]):
    """The block of `once`: the receipt before it, and after it what the handler has said, or the end of it all."""

    __slots__ = ("_database", "_receipts", "_received", "_steps")
    _received: T

    def __init__(self, steps: Plan[T], receipts: Callable[[T], Sequence[Receipt]]) -> None:
        self._steps, self._receipts = steps, receipts

    def _begin(self, database: Database) -> Statements[T]:
        self._database = database
        return self._steps(database)

    def _ending(self, kind: type[BaseException] | None) -> Callable[[Database], Statements[None]] | None:
        """What is left to do; None where that is nothing."""
        if kind is not None:
            return give_up
        said = [each for each in self._receipts(self._received) if each.first and each.result is not None]
        return partial(keep_results, said) if said or self._database == "sqlite" else None


class _Once(_Block[T]):
    """On a sync connection."""

    __slots__ = ("_connection", "_run")

    def __init__(
        self, connection: SyncConnection, run: SyncRun, steps: Plan[T], receipts: Callable[[T], Sequence[Receipt]]
    ) -> None:
        super().__init__(steps, receipts)
        self._connection, self._run = connection, run

    def __enter__(self) -> T:
        with SchemaExpected():
            self._received = self._run(self._connection, self._begin)
        return self._received

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if (ending := self._ending(kind)) is not None:
            self._run(self._connection, ending, reads=True)


class _AsyncOnce(_Block[T]):
    """On an async connection."""

    __slots__ = ("_connection", "_run")

    def __init__(
        self, connection: AsyncConnection, run: AsyncRun, steps: Plan[T], receipts: Callable[[T], Sequence[Receipt]]
    ) -> None:
        super().__init__(steps, receipts)
        self._connection, self._run = connection, run

    async def __aenter__(self) -> T:
        with SchemaExpected():
            self._received = await self._run(self._connection, self._begin)
        return self._received

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if (ending := self._ending(kind)) is not None:
            await self._run(self._connection, ending, reads=True)


def _many(consumer: str, message_ids: Iterable[MessageId]) -> Plan[list[Receipt]]:
    return partial(receive_many, check_consumer(consumer), [render_message_id(each) for each in message_ids])


def _one(receipt: Receipt) -> Sequence[Receipt]:
    return (receipt,)


def _all(receipts: list[Receipt]) -> Sequence[Receipt]:
    return receipts
