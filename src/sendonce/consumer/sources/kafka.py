"""Kafka: one topic, one consumer group. Committed is the lowest offset that is not done with, never a later one.

Kafka does not say what it has given before. So the commit carries a mark, in its metadata: offsets below it may have
been in somebody's hands. It is moved ahead, durably, before anything at or above it is given.

    committed ──▶ lowest not done with ·········· given ·········· mark
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sendonce.consumer.incoming import Taken
from sendonce.consumer.sources.protocol import SourceLost
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

ID_HEADERS = ("sendonce-id", "ce_id", "webhook-id")
# A handler that works for long is no reason to give its partition away: a dead process is told by its heartbeats.
_POLL_INTERVAL_MS = 86_400_000
_CALL_SECONDS = 10.0


class Offsets:
    """What of one partition was taken and is not done with; `lowest` is where a restart must begin.

    Below `again_to` others may have had it before; `mark` is where the next ones must begin to think so of us.
    """

    def __init__(self, first: int, again_to: int = 0) -> None:
        self.lowest = self.next = first
        self.again_to = self.mark = again_to
        self._done: set[int] = set()

    def take(self, offset: int) -> None:
        """This one was taken; what is missing between two is nobody's, as a transaction's markers are."""
        self._done.update(range(self.next, offset))
        self.next = offset + 1

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

    patience = math.inf

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
        self._done_with: deque[Taken] = deque()
        self._thread: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        from confluent_kafka import Consumer, KafkaException

        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sendonce-kafka")
        self._offsets = {}
        self._done_with.clear()
        try:
            self._client = Consumer(self._settings)
            self._client.subscribe([self._topic], on_revoke=self._given_up, on_lost=self._lost)
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
        if self._client is None:
            raise SourceLost("Kafka is not connected")
        self._done_with.append(taken)  # the thread may wait for messages just now

    async def extend(self, in_hand: Sequence[Taken]) -> None:
        """Nothing to say: the group knows that we live."""

    async def close(self) -> None:
        thread, client, self._client = self._thread, self._client, None
        if client is not None and thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close, client)
        if thread is not None:
            thread.shutdown(wait=False)

    def _close(self, client: "Consumer") -> None:
        with suppress(SourceLost):
            self._finish(client)
        client.close()

    async def _call(self, work: Any, *arguments: Any) -> Any:
        if self._client is None or self._thread is None:
            raise SourceLost("Kafka is not connected")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _consume(self, most: int, seconds: float) -> list[Taken]:
        """Wait for the first; take the others that are there already. Errors that pass are the client's to mend."""
        client = self._client
        if client is None:
            return []
        self._finish(client)
        first = client.poll(seconds)
        self._finish(client)
        if first is None:
            return []
        found = [first, *(client.consume(most - 1, 0.0) if most > 1 else [])]
        for each in found:
            if (error := each.error()) is not None and error.fatal():
                raise SourceLost(f"Kafka does not answer ({error.name()})")
        given = [(each, self._mark(client, each)) for each in found if each.error() is None]
        touched = {mark.partition: mark.offsets for _, mark in given}
        unsure = {partition for partition, offsets in touched.items() if not self._is_ahead(client, partition, offsets)}
        return [
            self._taken(each, mark, is_again=mark.offset < mark.offsets.again_to or mark.partition in unsure)
            for each, mark in given
        ]

    def _mark(self, client: "Consumer", message: "Message") -> _Mark:
        """Take its offset, in a partition that may be new to us."""
        from confluent_kafka import TopicPartition

        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        if partition not in self._offsets:
            [committed] = client.committed([TopicPartition(self._topic, partition)], _CALL_SECONDS)
            mark = committed.metadata or ""
            self._offsets[partition] = Offsets(offset, int(mark) if mark.isdecimal() else 0)
        offsets = self._offsets[partition]
        offsets.take(offset)
        return _Mark(partition, offset, offsets)

    def _is_ahead(self, client: "Consumer", partition: int, offsets: Offsets) -> bool:
        """Have the mark ahead of what was taken. While the group finds its members anew nobody can move it."""
        if offsets.next <= offsets.mark:
            return True
        mark = offsets.next + self._prefetch
        if self._commit(client, partition, offsets, mark):
            offsets.mark = mark
        return offsets.mark == mark

    def _commit(self, client: "Consumer", partition: int, offsets: Offsets, mark: int) -> bool:
        from confluent_kafka import KafkaException, TopicPartition

        place = TopicPartition(self._topic, partition, offsets.lowest, metadata=str(mark))
        try:
            client.commit(offsets=[place], asynchronous=False)
        except KafkaException:
            return False
        return True

    def _finish(self, client: "Consumer") -> None:
        """Have committed what was acknowledged meanwhile, but for what is another's by now and is given again there."""
        while self._done_with:
            partition, offset, offsets = cast(_Mark, self._done_with.popleft().mark)
            before = offsets.lowest
            if self._offsets.get(partition) is offsets and offsets.finish(offset) > before:
                self._store(client, partition, offsets)

    def _store(self, client: "Consumer", partition: int, offsets: Offsets) -> None:
        """Have it committed by the client's next round."""
        from confluent_kafka import KafkaException, TopicPartition

        place = TopicPartition(self._topic, partition, offsets.lowest, metadata=str(offsets.mark))
        try:
            client.store_offsets(offsets=[place])
        except KafkaException as error:
            raise SourceLost(f"Kafka does not take offsets ({error.args[0].name()})") from None

    def _given_up(self, client: "Consumer", partitions: Sequence[Any]) -> None:
        """They go to others, who need not wonder about what we have not taken."""
        for each in partitions:
            if (offsets := self._offsets.pop(each.partition, None)) is not None:
                offsets.mark = offsets.next
                with suppress(SourceLost):
                    self._store(client, each.partition, offsets)  # else the older mark is committed over the new one
                self._commit(client, each.partition, offsets, offsets.mark)

    def _lost(self, _: "Consumer", partitions: Sequence[Any]) -> None:
        """Others have them already."""
        for each in partitions:
            self._offsets.pop(each.partition, None)

    def _taken(self, message: "Message", mark: _Mark, *, is_again: bool) -> Taken:
        headers = {name: _text(value) for name, value in _pairs(message.headers())}
        key = message.key()
        return Taken(
            id=next((headers[name] for name in ID_HEADERS if name in headers), None),
            body=message.value() or b"",
            headers=headers,
            position=f"kafka:{self._topic}:{mark.partition}:{mark.offset}",
            subject=None if key is None else _text(key),
            is_again=is_again,
            mark=mark,
        )


def _pairs(headers: Any) -> Iterable[tuple[str, object]]:
    return headers.items() if isinstance(headers, dict) else headers or ()


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
