"""Receivers that mean harm: what each does to a request, and what an honest account of that is."""

import asyncio
import gzip
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
DRIP_SECONDS = 1.0
_ZEROS = bytes(10_000_000)


@dataclass(frozen=True, slots=True)
class Flood:
    """`first`, and then `again` for as long as anybody listens. `outcomes`: what may be said of it."""

    first: bytes
    again: bytes
    outcomes: frozenset[str]


DELIVERED, UNKNOWN = frozenset({"Delivered"}), frozenset({"Unknown"})
REFUSED, FAILED, DEFERRED = frozenset({"Refused"}), frozenset({"Failed"}), frozenset({"Deferred"})
EMPTY = b"Content-Length: 0\r\n\r\n"
EITHER = DELIVERED | UNKNOWN

FLOODS = {
    "a body without an end": Flood(OK + b"\r\n", b"a" * 65_536, DELIVERED),
    "a body of one gigabyte": Flood(OK + b"Content-Length: 1000000000\r\n\r\n", b"a" * 65_536, DELIVERED),
    "chunks of one byte without an end": Flood(CHUNKED, b"1\r\na\r\n" * 10_000, DELIVERED),
    "a chunk's extension without an end": Flood(CHUNKED + b"1;", b"a" * 65_536, EITHER),
    "a chunk's size without an end": Flood(CHUNKED, b"0" * 65_536, EITHER),
    "trailers without an end": Flood(CHUNKED + b"1\r\na\r\n0\r\n", b"a: b\r\n" * 10_000, EITHER),
    "headers without an end": Flood(OK, b"a: b\r\n" * 10_000, UNKNOWN),
    "one header without an end": Flood(OK + b"a: ", b"a" * 65_536, UNKNOWN),
    "a folded header without an end": Flood(OK + b"a: b\r\n", b" c\r\n" * 10_000, UNKNOWN),
    "a reason without an end": Flood(b"HTTP/1.1 200 ", b"a" * 65_536, UNKNOWN),
    "100 Continue without an end": Flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000, UNKNOWN),
    "103 Early Hints without an end": Flood(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 1_000, UNKNOWN),
    "answers without an end": Flood(b"", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * 1_000, DELIVERED),
    "empty lines without an end": Flood(b"", b"\r\n" * 30_000, UNKNOWN),
    "garbage without an end": Flood(b"", bytes(range(256)) * 256, UNKNOWN),
}
ONCE = {
    "less than it announced": (OK + b"Content-Length: 99\r\n\r\nshort", DELIVERED),
    "more than it announced": (OK + b"Content-Length: 2\r\n\r\nok, and more", EITHER),
    "two lengths": (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!", UNKNOWN),
    "a length below zero": (OK + b"Content-Length: -1\r\n\r\n", UNKNOWN),
    "a length of a thousand digits": (OK + b"Content-Length: " + b"9" * 1000 + b"\r\n\r\n", UNKNOWN),
    "a length and chunks": (OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", EITHER),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nok", DELIVERED),
    "HTTP/0.9": (b"ok", UNKNOWN),
    "HTTP/9.9": (b"HTTP/9.9 200 OK\r\n\r\n", EITHER),
    "a status of four digits": (b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", UNKNOWN),
    "a status below 100": (b"HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n", UNKNOWN | REFUSED),
    "a switch of protocols": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", REFUSED),
    "a few interim answers": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20 + OK + EMPTY, DELIVERED),
    "trailers": (CHUNKED + b"2\r\nok\r\n0\r\nX-Late: yes\r\n\r\n", DELIVERED),
    "bytes that are no text": (OK + b"X-\xff: \xfe\xff\r\nContent-Length: 3\r\n\r\n\xff\x00\xfe", EITHER),
    "a body of colours and bells": (OK + b"Content-Length: 13\r\n\r\n\x1b[2J\x07\x1b]0;x\x07\r", DELIVERED),
    "a JSON of a hundred thousand levels": (OK + b"\r\n" + b"[" * 100_000, DELIVERED),
    "a wait of a thousand years": (b"HTTP/1.1 503 No\r\nRetry-After: 31536000000\r\n" + EMPTY, DEFERRED),
    "a wait that is none": (b"HTTP/1.1 503 No\r\nRetry-After: -nan\r\n" + EMPTY, FAILED),
}  # fmt: skip


def bombs() -> Iterator[tuple[str, bytes]]:
    """Bodies of a megabyte or so that unpack to ten gigabytes; each answers in good order."""
    for coding, window in (("gzip", 31), ("deflate", 15)):
        packer = zlib.compressobj(9, zlib.DEFLATED, window)
        head = packer.compress(_ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
        again = packer.compress(_ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
        yield coding, head + again * 1000
    yield "br", bytes.fromhex("cf ff ff 7f f8 27 00 e2 b1 40 20 f7 fe 9f") * 70_000
    yield "gzip, gzip, gzip", gzip.compress(gzip.compress(gzip.compress(_ZEROS)))
    yield "zstd", b"\x28\xb5\x2f\xfd" * 250_000


class Villain:
    """Takes requests and does that to each; knows how many are being dripped at."""

    def __init__(self, first: bytes, again: bytes = b"", *, pause: float = 0.0) -> None:
        self._first, self._again, self._pause = first, again, pause
        self.requests = 0
        self.listening = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            self.listening += 1
            try:
                await self._answer(writer)
            finally:
                self.listening -= 1
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self._first)
        await writer.drain()
        while self._again and not writer.is_closing():
            writer.write(self._again)
            await writer.drain()
            await asyncio.sleep(self._pause)


def dripping(answer: bytes) -> Villain:
    """One byte a second, whatever it is that drips."""
    return Villain(answer, b"a", pause=DRIP_SECONDS)
