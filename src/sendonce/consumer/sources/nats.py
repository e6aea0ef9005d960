"""JetStream: a durable pull consumer of one stream. Redelivered after `ack_wait` unless it is said to be worked on.

The durable is made where there is none; one that is there keeps its own `ack_wait` and `backoff`, which we follow.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from sendonce.consumer.incoming import Taken
from sendonce.consumer.sources.protocol import SourceLost

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

ACK_WAIT_SECONDS = 60.0
ID_HEADER = "Nats-Msg-Id"
_PULL_SECONDS = 30
_CALL_SECONDS = 10.0


class NatsSource:
    """`connect` gives a connection that does not reconnect by itself."""

    def __init__(
        self,
        connect: "Callable[[], Awaitable[Client]]",
        stream: str,
        *,
        consumer: str,
        prefetch: int,
        filter: str = "",
        ack_wait: float = ACK_WAIT_SECONDS,
    ) -> None:
        self._connect = connect
        self._ack_wait = ack_wait
        # As short as any may be, until the durable has said its own.
        self.patience = min(1.0, ack_wait)
        self._stream = stream
        self._consumer = consumer
        self._prefetch = prefetch
        self._filter = filter or None
        self._client: Client | None = None
        self._inbox: Subscription | None = None
        self._wanted = 0

    async def open(self) -> None:
        from nats.errors import Error

        try:
            self._client = await self._connect()
            await self._declare(self._client)
            self._inbox = await self._client.subscribe(self._client.new_inbox())
        except SourceLost:
            await self.close()
            raise
        except (TimeoutError, Error, OSError) as error:
            await self.close()
            raise SourceLost(f"NATS cannot be consumed from now ({_cause(error)})") from None
        self._wanted = 0

    async def take(self, most: int, seconds: float) -> Sequence[Taken]:
        from nats.errors import Error, TimeoutError

        client, inbox = self._opened()
        try:
            if self._wanted < most:
                await self._ask(client, inbox, most - self._wanted)
            found = await self._drain(inbox, most, seconds)
        except TimeoutError:
            self._opened()
            return []
        except (Error, OSError) as error:
            raise SourceLost(f"NATS has closed the connection ({_cause(error)})") from None
        return found

    async def acknowledge(self, taken: Taken) -> None:
        await self._answer(taken, b"+ACK")

    async def extend(self, in_hand: Sequence[Taken]) -> None:
        for each in in_hand:
            await self._answer(each, b"+WPI")

    async def close(self) -> None:
        client, self._client, self._inbox = self._client, None, None
        if client is not None and not client.is_closed:
            await client.close()

    async def _declare(self, client: "Client") -> None:
        from nats.js.api import AckPolicy, ConsumerConfig
        from nats.js.errors import NotFoundError

        manager = client.jsm(timeout=_CALL_SECONDS)
        try:
            await manager.stream_info(self._stream)
        except NotFoundError:
            raise SourceLost(f"NATS has no stream {self._stream}") from None
        try:
            info = await manager.consumer_info(self._stream, self._consumer)
        except NotFoundError:
            config = ConsumerConfig(
                durable_name=self._consumer,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=self._ack_wait,
                max_deliver=-1,
                max_ack_pending=-1,
                filter_subject=self._filter,
            )
            info = await manager.add_consumer(self._stream, config)
        self.patience = min(info.config.backoff or [info.config.ack_wait or self._ack_wait])

    async def _ask(self, client: "Client", inbox: "Subscription", batch: int) -> None:
        """Have the server send up to so many to the inbox, as they come."""
        request = {"batch": batch, "expires": _PULL_SECONDS * 1_000_000_000}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        await client.publish(subject, json.dumps(request).encode(), reply=inbox.subject)
        self._wanted += batch

    async def _drain(self, inbox: "Subscription", most: int, seconds: float) -> list[Taken]:
        """Wait for the first, then take what is there."""
        found: list[Taken] = []
        while len(found) < most:
            if found and not inbox.pending_msgs:
                break
            message = await inbox.next_msg(timeout=seconds)
            status = (message.headers or {}).get("Status")
            if status is None:
                self._wanted -= 1
                found.append(self._taken(message))
            elif status in ("404", "408", "409"):
                # The request is over: so many of it will not come.
                self._wanted -= int((message.headers or {}).get("Nats-Pending-Messages", self._wanted))
                if not found:
                    break
        self._wanted = max(self._wanted, 0)
        return found

    def _taken(self, message: "Msg") -> Taken:
        headers = {str(name): str(value) for name, value in (message.headers or {}).items()}
        return Taken(
            id=headers.get(ID_HEADER),
            body=message.data,
            headers=headers,
            position=f"nats:{self._stream}:{message.metadata.sequence.stream}",
            subject=message.subject,
            is_again=message.metadata.num_delivered > 1,
            mark=message.reply,
        )

    async def _answer(self, taken: Taken, word: bytes) -> None:
        from nats.errors import Error

        client, _ = self._opened()
        try:
            await client.publish(str(taken.mark), word)
        except (Error, OSError) as error:
            raise SourceLost(f"NATS has closed the connection ({_cause(error)})") from None

    def _opened(self) -> "tuple[Client, Subscription]":
        if self._client is None or self._inbox is None or not self._client.is_connected:
            raise SourceLost("NATS has closed the connection")
        return self._client, self._inbox


def _cause(error: BaseException) -> str:
    return type(error).__name__
