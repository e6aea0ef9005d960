"""RabbitMQ: one queue, consumed with a prefetch. Never requeued by us: RabbitMQ 4 drops a message after 20 requeues."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import TYPE_CHECKING

from sendonce.consumer.incoming import Taken
from sendonce.consumer.sources.protocol import SourceLost

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

_CALL_SECONDS = 10.0


class AmqpSource:
    """`connect` gives a connection that does not reconnect by itself. The queue must be there."""

    patience = math.inf

    def __init__(
        self, connect: "Callable[[], Awaitable[AbstractConnection]]", queue: str, *, consumer: str, prefetch: int
    ) -> None:
        self._connect = connect
        self._queue = queue
        self._consumer = consumer
        self._prefetch = prefetch
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._consuming: Callable[[], bool] = lambda: False
        self._arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()

    async def open(self) -> None:
        from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity

        try:
            self._connection = await self._connect()
            self._channel = await self._connection.channel()
            await self._channel.set_qos(prefetch_count=self._prefetch, timeout=_CALL_SECONDS)
            queue = await self._channel.declare_queue(self._queue, passive=True, timeout=_CALL_SECONDS)
            self._arrived = asyncio.Queue()
            tag = await queue.consume(self._arrived.put, timeout=_CALL_SECONDS)
            plain = await self._channel.get_underlay_channel()
            consumers: Container[str] = plain.consumers  # type: ignore[attr-defined]
            self._consuming = lambda: tag in consumers
        except ChannelNotFoundEntity:
            await self.close()
            raise SourceLost(f"RabbitMQ has no queue {self._queue}") from None
        except (TimeoutError, AMQPError, OSError) as error:
            await self.close()
            raise SourceLost(f"RabbitMQ cannot be consumed from now ({type(error).__name__})") from None

    async def take(self, most: int, seconds: float) -> Sequence[Taken]:
        found: list[AbstractIncomingMessage] = []
        try:
            async with asyncio.timeout(seconds):
                found.append(await self._arrived.get())
        except TimeoutError:
            self._check()
            if not self._consuming():
                raise SourceLost(f"RabbitMQ gives nothing of queue {self._queue} any more") from None
            return []
        while len(found) < most and not self._arrived.empty():
            found.append(self._arrived.get_nowait())
        return [self._taken(each) for each in found]

    async def acknowledge(self, taken: Taken) -> None:
        from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

        message: AbstractIncomingMessage = taken.mark  # type: ignore[assignment]
        self._check()
        try:
            await message.ack()
        except (AMQPError, ChannelInvalidStateError, OSError) as error:
            raise SourceLost(f"RabbitMQ has closed the connection ({type(error).__name__})") from None

    async def extend(self, in_hand: Sequence[Taken]) -> None:
        """Nothing to say: a message is another's only when the connection ends."""

    async def close(self) -> None:
        from aio_pika.exceptions import AMQPError

        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None and not connection.is_closed:
            try:
                await connection.close()
            except (TimeoutError, AMQPError, OSError):
                return  # it is gone

    def _check(self) -> None:
        if self._channel is None or self._channel.is_closed or self._connection is None or self._connection.is_closed:
            raise SourceLost("RabbitMQ has closed the connection")

    def _taken(self, message: "AbstractIncomingMessage") -> Taken:
        return Taken(
            id=message.message_id,
            body=message.body,
            headers={name: _text(value) for name, value in message.headers.items()},
            position=f"amqp:{self._queue}:{message.consumer_tag}:{message.delivery_tag}",
            subject=message.routing_key,
            is_again=bool(message.redelivered),
            mark=message,
        )


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
