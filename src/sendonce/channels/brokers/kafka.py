"""kafka: a topic. Delivered when all replicas in sync have it. Experimental: it has not run on a real cluster yet.

librdkafka gives a message up by itself after `message_timeout`, before we do, so that nothing is written after we have
said that nobody knows. Its answers are fetched by one thread, which waits for them without holding the interpreter.
Whether brokers answer for a topic is asked before anything is written to it, and again after all of them were away.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Report

from sendonce.channels.brokers.content import Writer
from sendonce.channels.brokers.link import Link, NotOpen
from sendonce.channels.brokers.profile import BrokerProfile
from sendonce.channels.protocol import Message
from sendonce.domain.answers import (
    BROKER_ADDRESS,
    BROKER_AWAY,
    CREDENTIALS,
    KAFKA_REFUSED,
    KAFKA_UNKNOWN,
    NO_ACCESS,
    NO_TOPIC,
    NOT_CONFIRMED_IN_TIME,
    NOT_WRITTEN,
    QUEUE_FULL,
    TOO_BIG,
)
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Outcome

KEYS = ("none", "subject")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(minutes=5)
ASK_SECONDS = 3.0
PAUSE_SECONDS = 0.5
_POLL_SECONDS = 0.2
SILENT = logging.getLogger("sendonce.librdkafka")
SILENT.setLevel(logging.CRITICAL + 1)
_CREDENTIALS = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
_NO_ACCESS = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_TOO_BIG = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_REFUSED = frozenset(
    {KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD, KafkaError.INVALID_REQUIRED_ACKS,
     KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT, KafkaError.POLICY_VIOLATION}
)  # fmt: skip
_LATE = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT})
_TROUBLE = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._SSL, *_CREDENTIALS})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KafkaProfile(BrokerProfile):
    """`servers` are brokers to begin with. `key`: what the partition is chosen by, nothing or the event's subject."""

    scheme: ClassVar[str] = "kafka"

    servers: tuple[str, ...]
    tls: bool = False
    user: str | None = None
    mechanism: str = "SCRAM-SHA-512"
    key: str = "none"
    message_timeout: timedelta = timedelta(seconds=8)

    def channel(self) -> "KafkaChannel":
        return KafkaChannel(self)

    def __post_init__(self) -> None:
        super(KafkaProfile, self).__post_init__()
        if not self.servers or any(not _is_server(each) for each in self.servers):
            self.refuse("servers", 'must be hosts with ports, like ["kafka1:9092", "kafka2:9092"]')
        for key, among in (("key", KEYS), ("mechanism", MECHANISMS)):
            if getattr(self, key) not in among:
                self.refuse(key, f"must be one of {', '.join(among)}")
        if not _SHORTEST <= self.message_timeout <= _LONGEST:
            self.refuse("message_timeout", "must be between 1s and 5m")
        if (self.user is None) is not (self.password is None):
            self.refuse("user", "and password belong together; write both or none")

    @property
    def longest_write(self) -> timedelta:
        return self.message_timeout

    def settings(self) -> dict[str, Any]:
        """Return the settings of a producer."""
        return {
            **self.connecting(),
            "enable.idempotence": True,
            "message.timeout.ms": self.message_timeout // timedelta(milliseconds=1),
            "linger.ms": 1,
        }

    def connecting(self) -> dict[str, Any]:
        """Return how brokers are reached, and as whom."""
        protocol = ("SASL_" if self.user else "") + ("SSL" if self.tls else "PLAINTEXT")
        settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(self.servers),
            "client.id": "sendonce",
            "security.protocol": protocol,
        }
        if self.user:
            mechanism = {"sasl.mechanism": self.mechanism}
            settings |= mechanism | {"sasl.username": self.user, "sasl.password": self.password}
        if self.tls and self.ca:
            settings["ssl.ca.pem"] = self.ca
        if self.tls and self.certificate:
            settings |= {"ssl.certificate.pem": self.certificate, "ssl.key.pem": self.certificate}
        return settings


class KafkaChannel:
    """One producer. Kafka cannot be asked about a message: the consumer's inbox recognises a repeated one."""

    def __init__(self, profile: KafkaProfile) -> None:
        self._profile = profile
        self._writer = Writer(profile.format, profile.source, prefix="ce_")
        self._link: Link[_Session] = Link(self._dial, lambda session: session.is_open)

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """Produce once; Delivered has the topic, the partition and the offset."""
        topic = self._profile.rest_of(message)
        if not topic or "/" in topic:
            return BROKER_ADDRESS
        wire = self._writer.wire(message, message.token)
        headers = {**wire.headers, "content-type": wire.content_type}
        key = message.subject if self._profile.key == "subject" else None
        end = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(end):
                session = await self._link.open(timeout)
                if trouble := await session.asked(topic):
                    return trouble
        except NotOpen as error:
            return error.outcome
        except TimeoutError:
            return NOT_WRITTEN
        return await session.produce(topic, key, wire.body, headers, end)

    async def close(self) -> None:
        session, self._link.connection = self._link.connection, None
        if session is not None:
            await session.close()

    async def _dial(self) -> "_Session":
        try:
            return _Session(self._profile.settings(), asyncio.get_running_loop())
        except KafkaException:
            raise NotOpen(
                replace(BROKER_AWAY, code="our_settings", message="librdkafka refuses these settings")
            ) from None


class _Session:
    """A producer, the thread that fetches its answers, and which topics brokers have answered for."""

    def __init__(self, settings: Mapping[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._done: deque[tuple[asyncio.Future[Outcome], Outcome]] = deque()
        self._topics: set[str] = set()
        self._trouble: Failed | Deferred | None = None
        self._asking: dict[str, asyncio.Task[Outcome | None]] = {}
        self._is_over = threading.Event()
        self.is_open = True
        self._producer = Producer({**settings, "error_cb": self._erred}, logger=SILENT)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="kafka-asks")
        self._thread = threading.Thread(target=self._poll, name="kafka", daemon=True)
        self._thread.start()

    async def asked(self, topic: str) -> Outcome | None:
        """Why nothing is to be written to this topic now; asked before its first use, and after all were away.

        All that wait for one topic wait for one question, and its answer stands for a moment when it is no.
        """
        if topic in self._topics:
            return None
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = asyncio.create_task(self._ask_once(topic))
        return await asyncio.shield(asking)

    async def _ask_once(self, topic: str) -> Outcome | None:
        trouble = await self._loop.run_in_executor(self._pool, self._ask, topic)
        if trouble is None:
            self._topics.add(topic)
            self._asking.pop(topic, None)
        else:
            self._loop.call_later(PAUSE_SECONDS, self._asking.pop, topic, None)
        return trouble

    async def produce(
        self, topic: str, key: str | None, body: bytes, headers: Mapping[str, str], end: float
    ) -> Outcome:
        """Produce, and wait until `end` on the loop's clock."""
        waiting: asyncio.Future[Outcome] = self._loop.create_future()
        try:
            self._producer.produce(
                topic, body, key=key, headers=dict(headers), on_delivery=partial(self._reported, waiting)
            )
        except BufferError:
            return QUEUE_FULL
        except KafkaException as error:
            return _meaning(error.args[0], written=False)
        late = self._loop.call_at(end, _resolve, waiting, NOT_CONFIRMED_IN_TIME)
        try:
            outcome = await waiting
        finally:
            late.cancel()
        if outcome in (NO_ACCESS, NO_TOPIC):
            self._topics.discard(topic)
        return outcome

    async def close(self) -> None:
        self.is_open = False
        self._is_over.set()
        for asking in self._asking.values():
            asking.cancel()
        await self._loop.run_in_executor(self._pool, self._thread.join)
        self._pool.shutdown(wait=False)

    def _poll(self) -> None:
        while not self._is_over.is_set():
            self._producer.poll(_POLL_SECONDS)
        self._producer.purge()
        self._producer.flush(1)

    def _reported(self, waiting: "asyncio.Future[Outcome]", error: KafkaError | None, report: Report) -> None:
        """Called on the thread that polls; the loop is woken once for all that has come meanwhile."""
        outcome = _delivered(report) if error is None else _meaning(error, written=True)
        if error is not None and error.fatal():
            self.is_open = False
        is_first = not self._done
        self._done.append((waiting, outcome))
        if is_first:
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        while self._done:
            _resolve(*self._done.popleft())

    def _erred(self, error: KafkaError) -> None:
        """Note a client's error on its connections; polls call this."""
        if error.fatal():
            self.is_open = False
        if error.code() in _TROUBLE:
            self._trouble = _no_connection(error)
            self._topics.clear()

    def _ask(self, topic: str) -> Outcome | None:
        """Whether brokers answer for this topic. Blocks."""
        self._trouble = None
        try:
            found = self._producer.list_topics(topic, timeout=ASK_SECONDS).topics[topic]
        except KafkaException as error:
            return self._trouble or _no_connection(error.args[0])
        return None if found.error is None else _meaning(found.error, written=False)


def _resolve(waiting: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not waiting.done():
        waiting.set_result(outcome)


def _delivered(report: Report) -> Delivered:
    return Delivered(f"{report.topic()}:{report.partition()}:{report.offset()}")


def _meaning(error: KafkaError, *, written: bool) -> Outcome:
    """What an error means for a message that may have been `written`, or surely was not."""
    code = error.code()
    for codes, outcome in (
        (_TOO_BIG, TOO_BIG), (_NO_ACCESS, NO_ACCESS), (_NO_TOPIC, NO_TOPIC), (_CREDENTIALS, CREDENTIALS),
    ):  # fmt: skip
        if code in codes:
            return outcome
    if code in _REFUSED:
        return replace(KAFKA_REFUSED, code=f"kafka_{error.name().lower()}")
    if code in (KafkaError._PURGE_QUEUE,) or not written:
        return NOT_WRITTEN
    if code in _LATE:
        return NOT_CONFIRMED_IN_TIME
    return replace(KAFKA_UNKNOWN, code=f"kafka_{error.name().lower().strip('_')}")


def _no_connection(error: KafkaError) -> Failed | Deferred:
    if error.code() in _CREDENTIALS:
        return CREDENTIALS
    if error.code() == KafkaError._SSL:
        return replace(BROKER_AWAY, code="tls_error", message="no trusted TLS connection came about")
    return BROKER_AWAY


def _is_server(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536 and "@" not in host
