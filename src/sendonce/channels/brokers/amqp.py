"""amqp: an exchange and a key of RabbitMQ. Persistent, mandatory, and delivered when the broker has confirmed it.

RabbitMQ closes a channel for one mistake, with everything that is on it, and half of that may be in its queues. So an
exchange is looked up on a channel of its own before its first use, each exchange has its own channel, and after one was
closed its exchange gets one message at a time until one has come through: then it is known which one it was.

    address ──▶ exchange ──▶ its channel ──▶ Basic.Publish, mandatory ──▶ Ack | Return | Nack | the channel closes
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast
from urllib.parse import unquote

from aiormq import Connection, spec
from aiormq.channel import Channel
from aiormq.exceptions import (
    AMQPConnectionError,
    AMQPError,
    AuthenticationError,
    ChannelAccessRefused,
    ChannelClosed,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionNotAllowed,
    DeliveryError,
    InvalidFrameError,
    ProbableAuthenticationError,
    PublishError,
)
from yarl import URL

from sendonce.channels.brokers.content import Wire, Writer
from sendonce.channels.brokers.link import Link, NotOpen, away
from sendonce.channels.brokers.profile import BrokerProfile, password_of, user_of
from sendonce.channels.protocol import Message
from sendonce.domain.answers import (
    BLOCKED,
    BROKER_ADDRESS,
    BROKER_LOST,
    BROKER_SERVER,
    CHANNEL_CLOSED,
    CREDENTIALS,
    NACK,
    NO_ACCESS,
    NO_EXCHANGE,
    NOT_CONFIRMED_IN_TIME,
    NOT_WRITTEN,
    TOO_BIG,
    UNROUTABLE,
)
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Outcome

_PERSISTENT = 2
_DELIVERED = Delivered()
# What RabbitMQ takes by default.
_LARGEST = 134_217_728
# They show what a client met, and this is in the outcomes; of a message that came back they show everything.
for _name in ("aiormq", "aiormq.connection", "aiormq.channel"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AmqpProfile(BrokerProfile):
    """`url` is `amqp://user@host:5672/virtual-host`, or `amqps:` for TLS."""

    scheme: ClassVar[str] = "amqp"

    url: str
    max_bytes: int = 16_000_000

    def channel(self) -> "AmqpChannel":
        return AmqpChannel(self)

    def __post_init__(self) -> None:
        super(AmqpProfile, self).__post_init__()
        self.server()
        if not 0 < self.max_bytes <= _LARGEST:
            self.refuse("max_bytes", f"must be between 1 and {_LARGEST}, the most that RabbitMQ takes by default")

    def server(self) -> URL:
        """Where to dial, and as whom."""
        parts = self.checked_url(self.url, ("amqp", "amqps"), "amqp://user@host:5672/virtual-host")
        if "/" in parts.path[1:]:
            self.refuse("url", "must have one virtual host after the host; write %2F for a / in its name")
        return URL.build(
            scheme=parts.scheme,
            host=parts.hostname or "",
            port=parts.port or (5671 if parts.scheme == "amqps" else 5672),
            user=user_of(parts) or "guest",
            password=password_of(parts, self.password) or "guest",
            path=parts.path or "/",
            encoded=False,
        ).with_query({"name": "sendonce", "heartbeat": "30"})

    def tls(self) -> ssl.SSLContext | None:
        """The client's side of TLS, where the address wants it."""
        return self.context() if self.url.startswith("amqps:") else None


class AmqpChannel:
    """One connection. RabbitMQ cannot be asked about a message: the consumer's inbox recognises a repeated one."""

    def __init__(self, profile: AmqpProfile) -> None:
        self._profile = profile
        self._writer = Writer(profile.format, profile.source, prefix="cloudEvents_")
        self._link: Link[_Session] = Link(self._dial, lambda session: session.is_open)

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """Publish once; Delivered when a queue has it, in the way that the queue confirms."""
        exchange, slash, key = self._profile.rest_of(message).partition("/")
        if not slash or not key:
            return BROKER_ADDRESS
        token = message.token
        wire = self._writer.wire(message, token)
        if len(wire.body) > self._profile.max_bytes:
            return replace(TOO_BIG, message=f"it is {len(wire.body)} bytes, and max_bytes is {self._profile.max_bytes}")
        end = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(end):
                session = await self._link.open(timeout)
                if not session.takes:
                    return BLOCKED
                lane = await session.lane(unquote(exchange))
        except NotOpen as error:
            return error.outcome
        except TimeoutError:
            return NOT_WRITTEN
        return await lane.publish(unquote(key), wire.body, _properties(message, token, wire), end)

    async def close(self) -> None:
        session, self._link.connection = self._link.connection, None
        if session is not None:
            await session.close()

    async def _dial(self) -> "_Session":
        connection = Connection(self._profile.server(), context=self._profile.tls())
        try:
            await connection.connect()
        except (AMQPError, OSError, RuntimeError) as error:
            raise NotOpen(not_open(error)) from None
        return _Session(connection)


class _Session:
    """One connection, with a lane for each exchange."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lanes: dict[str, _Lane] = {}

    @property
    def is_open(self) -> bool:
        return self._connection.is_opened

    @property
    def takes(self) -> bool:
        """False while the broker has said that it reads nothing from us: what is written then is stored much later."""
        waiting = self._connection.ready()
        try:
            waiting.send(None)
        except StopIteration:
            return True
        waiting.close()
        return False

    async def lane(self, exchange: str) -> "_Lane":
        lane = self._lanes.get(exchange)
        if lane is None:
            lane = self._lanes[exchange] = _Lane(self._connection, exchange)
        if not lane.is_open:
            await lane.open()
        return lane

    async def close(self) -> None:
        await self._connection.close(timeout=5)


@dataclass(slots=True)
class _Lane:
    """The channel of one exchange, and what is on it.

    `alone` while a channel that was closed makes us send one at a time; `late` counts what may still be on the channel
    although nobody waits for it any more.
    """

    connection: Connection
    exchange: str
    channel: Channel | None = None
    on_it: int = 0
    late: int = 0
    at_close: int | None = None
    alone: bool = False
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_open(self) -> bool:
        return self.channel is not None and not self.channel.is_closed

    async def open(self) -> None:
        """Open the channel; NotOpen when there is no such exchange."""
        async with self.opening:
            if self.is_open:
                return
            try:
                if self.exchange:
                    probe = await self.connection.channel()
                    await probe.exchange_declare(self.exchange, passive=True)
                    await probe.close()
                channel = await self.connection.channel(publisher_confirms=True, on_return_raises=True)
            except ChannelNotFoundEntity:
                raise NotOpen(replace(NO_EXCHANGE, message=f"the broker has no exchange {self.exchange!r}")) from None
            except ChannelAccessRefused:
                raise NotOpen(NO_ACCESS) from None
            except (AMQPError, OSError, RuntimeError):
                raise NotOpen(NOT_WRITTEN) from None
            except asyncio.CancelledError:
                _raise_if_ours()
                raise NotOpen(NOT_WRITTEN) from None
            self.channel, self.on_it, self.late, self.at_close = cast(Channel, channel), 0, 0, None

    async def publish(self, key: str, body: bytes, properties: spec.Basic.Properties, end: float) -> Outcome:
        """Publish until `end` on the loop's clock."""
        if not self.alone:
            return await self._published(key, body, properties, end)
        try:
            async with asyncio.timeout_at(end):
                await self.turn.acquire()
        except TimeoutError:
            return NOT_WRITTEN
        try:
            return await self._published_alone(key, body, properties, end)
        finally:
            self.turn.release()

    async def _published_alone(self, key: str, body: bytes, properties: spec.Basic.Properties, end: float) -> Outcome:
        try:
            async with asyncio.timeout_at(end):
                if not self.is_open:
                    await self.open()
        except NotOpen as error:
            return error.outcome
        except TimeoutError:
            return NOT_WRITTEN
        outcome = await self._published(key, body, properties, end)
        self.alone = self.alone and not isinstance(outcome, Delivered)
        return outcome

    async def _published(self, key: str, body: bytes, properties: spec.Basic.Properties, end: float) -> Outcome:
        channel = self.channel
        if channel is None or channel.is_closed:
            return NOT_WRITTEN
        left = max(0.001, end - asyncio.get_running_loop().time())
        self.on_it += 1
        try:
            await channel.basic_publish(
                body, exchange=self.exchange, routing_key=key, properties=properties, mandatory=True, wait=False,
                timeout=left,
            )  # fmt: skip
        except PublishError as error:
            return replace(UNROUTABLE, message=str(error.args[0])[:100] if error.args else UNROUTABLE.message)
        except DeliveryError:
            return NACK
        except ChannelClosed as error:
            return self._closed(error)
        except ChannelInvalidStateError:
            return NOT_WRITTEN
        except TimeoutError:
            self.late += 1
            return NOT_CONFIRMED_IN_TIME
        except (AMQPError, OSError):
            return BROKER_LOST
        except asyncio.CancelledError:
            self.late += 1
            _raise_if_ours()
            return BROKER_LOST
        finally:
            self.on_it -= 1
        return _DELIVERED

    def _closed(self, error: ChannelClosed) -> Outcome:
        """Only what was alone on the channel is surely what it was closed for."""
        if self.at_close is None:
            self.at_close = self.on_it + self.late
        self.alone = True
        if self.at_close > 1:
            return CHANNEL_CLOSED
        match error:
            case ChannelNotFoundEntity():
                return NO_EXCHANGE
            case ChannelAccessRefused():
                return NO_ACCESS
            case ChannelPreconditionFailed():
                return TOO_BIG
        return CHANNEL_CLOSED


def _properties(message: Message, token: str, wire: Wire) -> spec.Basic.Properties:
    return spec.Basic.Properties(
        content_type=wire.content_type,
        delivery_mode=_PERSISTENT,
        headers=dict(wire.headers),
        message_id=token,
        message_type=message.type[:255],
        timestamp=message.recorded_at,
        app_id="sendonce",
    )


def _raise_if_ours() -> None:
    """A connection that ends cancels what waits on it; a cancellation of our own goes on."""
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise asyncio.CancelledError


def not_open(error: BaseException) -> Failed | Deferred:
    """What it means that no connection came about."""
    match error:
        case AuthenticationError() | ProbableAuthenticationError():
            return CREDENTIALS
        case InvalidFrameError() | ConnectionNotAllowed():
            return BROKER_SERVER
        case AMQPConnectionError():
            return away(error.__cause__ or error.__context__ or error)
    return away(error)
