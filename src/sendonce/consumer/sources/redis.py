"""Redis streams: one consumer group. What a dead consumer has left is taken over when nobody had it for a while."""

import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sendonce.consumer.incoming import Taken
from sendonce.consumer.sources.protocol import SourceLost

if TYPE_CHECKING:
    from redis.asyncio import Redis

PATIENCE_SECONDS = 60.0
# The fields of an entry; the headers are a JSON object.
FIELD_ID, FIELD_BODY, FIELD_HEADERS = "id", "body", "headers"


class RedisSource:
    """`connect` gives a client that tries nothing again by itself. Fields other than the body's are headers.

    All consumers of a stream have the same `patience`: what one has for longer without a word another takes over.
    """

    def __init__(
        self,
        connect: "Callable[[], Redis]",
        stream: str,
        *,
        consumer: str,
        prefetch: int,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._connect = connect
        self._stream = stream
        self.patience = patience
        self._group = consumer
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._client: Redis | None = None
        self._next_look = 0.0
        self._cursor = "0-0"

    async def open(self) -> None:
        from redis.exceptions import RedisError, ResponseError

        client = self._connect()
        try:
            try:
                await client.xgroup_create(self._stream, self._group, id="0", mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise
        except (RedisError, OSError) as error:
            await client.aclose()
            raise SourceLost(f"Redis cannot be consumed from now ({type(error).__name__})") from None
        self._client, self._next_look = client, 0.0

    async def take(self, most: int, seconds: float) -> Sequence[Taken]:
        from redis.exceptions import RedisError

        client = self._opened()
        try:
            if time.monotonic() >= self._next_look and (left := await self._take_over(client, most)):
                return left
            answer = await client.xreadgroup(
                self._group, self._name, {self._stream: ">"}, count=most, block=max(1, int(seconds * 1000))
            )
        except (RedisError, OSError) as error:
            raise SourceLost(f"Redis does not answer ({type(error).__name__})") from None
        return [self._taken(*entry) for entry in _entries(answer)]

    async def acknowledge(self, taken: Taken) -> None:
        from redis.exceptions import RedisError

        try:
            await self._opened().xack(self._stream, self._group, str(taken.mark))
        except (RedisError, OSError) as error:
            raise SourceLost(f"Redis does not answer ({type(error).__name__})") from None

    async def extend(self, in_hand: Sequence[Taken]) -> None:
        from redis.exceptions import RedisError

        ids: list[int | bytes | str | memoryview[int]] = [str(each.mark) for each in in_hand]
        try:
            await self._opened().xclaim(self._stream, self._group, self._name, 0, ids, idle=0, justid=True)
        except (RedisError, OSError) as error:
            raise SourceLost(f"Redis does not answer ({type(error).__name__})") from None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _take_over(self, client: "Redis", most: int) -> list[Taken]:
        """Take what others have had for long and not acknowledged; look again at once while there is more."""
        cursor, entries, *_ = await client.xautoclaim(
            self._stream, self._group, self._name, int(self.patience * 1000), start_id=self._cursor, count=most
        )
        self._cursor = _text(cursor)
        if self._cursor == "0-0":
            self._next_look = time.monotonic() + self.patience / 3
        return [self._taken(id, fields, is_again=True) for id, fields in entries if fields]

    def _taken(
        self, entry_id: bytes | str, fields: Mapping[bytes | str, bytes | str], *, is_again: bool = False
    ) -> Taken:
        named = {_text(name): value for name, value in fields.items()}
        body = named.pop(FIELD_BODY, b"")
        carried = _object(named.pop(FIELD_HEADERS, b"{}"))
        headers = {name: _text(value) for name, value in named.items()} | carried
        return Taken(
            id=headers.get(FIELD_ID),
            body=body if isinstance(body, bytes) else body.encode(),
            headers=headers,
            position=f"redis:{self._stream}:{_text(entry_id)}",
            is_again=is_again,
            mark=_text(entry_id),
        )

    def _opened(self) -> "Redis":
        if self._client is None:
            raise SourceLost("Redis is not connected")
        return self._client


def _entries(answer: Any) -> list[tuple[bytes, Mapping[bytes | str, bytes | str]]]:
    """Return the entries of the one stream that was asked for, in either of the protocol's two shapes."""
    if not answer:
        return []
    [(_, entries)] = answer.items() if isinstance(answer, dict) else answer
    flat = [each for part in entries for each in (part if isinstance(part, list) else [part])]
    return [(id, fields) for id, fields in flat if fields]


def _object(text: bytes | str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        return {FIELD_HEADERS: _text(text)}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
