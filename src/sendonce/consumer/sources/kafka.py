"""Kafka: one topic, one consumer group. Committed is the lowest offset that is not done with, never a later one."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from sendonce.consumer.incoming import Taken
from sendonce.consumer.sources.protocol import SourceLost
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

ID_HEADERS = ("sendonce-id", "ce_id", "webhook-id")
# A handler that works for long is no reason to give its partition away: a dead process is told by its heartbeats.
_POLL_INTERVAL_MS = 86_400_000


class Offsets:
    """What of one partition was taken and is not done with; `lowest` is where a restart must begin."""

    def __init__(self, first: int) -> None:
        self.first = self.lowest = first
        self._done: set[int] = set()
        self._next = first

    def take(self, offset: int) -> None:
        """This one was taken; what is missing between two is nobody's, as a transaction's markers are."""
        self._done.update(range(self._next, offset))
        self._next = offset + 1

    def finish(self, offset: int) -> int:
        """This one is done with: the lowest that is not."""
        self._done.add(offset)
        while self.lowest in self._done:
            self._done.remove(self.lowest)
            self.lowest += 1
        return self.lowest


class _Mark(NamedTuple):
    """Where a message stands, in the life of the partition that it was taken in."""

    partition: int
    offset: int
    offsets: Offsets


class KafkaSource:
    """The client blocks, so it has a thread of its own."""

    def __init__(self, settings: Mapping[str, Any], topic: str, *, consumer: str, prefetch: int) -> None:
        self._settings = {
            **settings,
            "group.id": consumer,
            "enable.auto.commit": True,
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": 1000,
            "auto.offset.reset": "earliest",
            "max.poll.interval.ms": _POLL_INTERVAL_MS,
            "queued.max.messages.kbytes": 16_384,
        }
        self._topic = topic
        self._prefetch = prefetch
        self._client: Consumer | None = None
        self._offsets: dict[int, Offsets] = {}
        self._thread: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        from confluent_kafka import Consumer, KafkaException

        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sendonce-kafka")
        self._offsets = {}
        try:
            self._client = Consumer(self._settings)
            self._client.subscribe([self._topic], on_revoke=self._given_up, on_lost=self._given_up)
        except KafkaException as error:
            raise ConfigError(f"Kafka refuses its settings ({error.args[0].name()})") from None

    async def take(self, most: int, seconds: float) -> Sequence[Taken]:
        from confluent_kafka import KafkaException

        try:
            found: list[Taken] = await self._call(self._consume, most, seconds)
        except KafkaException as error:
            raise SourceLost(f"Kafka does not answer ({error.args[0].name()})") from None
        return found

    async def acknowledge(self, taken: Taken) -> None:
        await self._call(self._finish, taken)

    async def extend(self, in_hand: Sequence[Taken]) -> None:
        """Nothing to say: the group knows that we live."""

    async def close(self) -> None:
        thread, client, self._client = self._thread, self._client, None
        if client is not None and thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, client.close)
        if thread is not None:
            thread.shutdown(wait=False)

    async def _call(self, work: Any, *arguments: Any) -> Any:
        if self._client is None or self._thread is None:
            raise SourceLost("Kafka is not connected")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _consume(self, most: int, seconds: float) -> list[Taken]:
        """Wait for the first; take the others that are there already. Errors that pass are the client's to mend."""
        if self._client is None or (first := self._client.poll(seconds)) is None:
            return []
        found = [first, *(self._client.consume(most - 1, 0.0) if most > 1 else [])]
        for each in found:
            if (error := each.error()) is not None and error.fatal():
                raise SourceLost(f"Kafka does not answer ({error.name()})")
        return [self._taken(each) for each in found if each.error() is None]

    def _finish(self, taken: Taken) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        if not isinstance(taken.mark, _Mark):
            return
        partition, offset, offsets = taken.mark
        if self._offsets.get(partition) is not offsets or self._client is None:
            return  # another has that partition now, and gets it again
        before = offsets.lowest
        if (lowest := offsets.finish(offset)) == before:
            return
        try:
            self._client.store_offsets(offsets=[TopicPartition(self._topic, partition, lowest)])
        except KafkaException as error:
            raise SourceLost(f"Kafka does not take offsets ({error.args[0].name()})") from None

    def _given_up(self, _: "Consumer", partitions: Sequence[Any]) -> None:
        for each in partitions:
            self._offsets.pop(each.partition, None)

    def _taken(self, message: "Message") -> Taken:
        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        offsets = self._offsets.setdefault(partition, Offsets(offset))
        offsets.take(offset)
        headers = {name: _text(value) for name, value in _pairs(message.headers())}
        key = message.key()
        return Taken(
            id=next((headers[name] for name in ID_HEADERS if name in headers), None),
            body=message.value() or b"",
            headers=headers,
            position=f"kafka:{self._topic}:{partition}:{offset}",
            subject=None if key is None else _text(key),
            # What somebody may have had in hand before this partition was ours.
            is_again=offset < offsets.first + self._prefetch,
            mark=_Mark(partition, offset, offsets),
        )


def _pairs(headers: Any) -> Iterable[tuple[str, object]]:
    return headers.items() if isinstance(headers, dict) else headers or ()


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
