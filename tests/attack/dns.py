"""A name server of our own (UDP) that may answer otherwise each time, or never."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

HOST = "127.0.0.1"
_A, _CNAME, _AAAA = 1, 5, 28
_NAME_OF_THE_QUESTION = b"\xc0\x0c"
SILENT = ".silent"


class NameServer(asyncio.DatagramProtocol):
    """Answers from a script: for each name the answers to its first, second … look-up; the last one stays.

    An answer is a list of addresses; one that begins with `=` is another name, given as a CNAME. Names that end
    with SILENT get no answer at all until `speak`.
    """

    def __init__(self, ttl: int = 0) -> None:
        self.address = ""
        self.asked: list[str] = []
        self.ttl = ttl
        self._script: dict[str, list[list[str]]] = {}
        self._transport: asyncio.DatagramTransport | None = None
        self._unanswered: list[tuple[bytes, Any]] = []
        self._is_speaking = False
        self._arrived = asyncio.Event()

    def says(self, name: str, *answers: list[str]) -> None:
        self._script[name] = list(answers)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def speak(self) -> None:
        """Answer all that was not answered, and whatever comes after it."""
        self._is_speaking = True
        unanswered, self._unanswered = self._unanswered, []
        for data, addr in unanswered:
            self._answer(data, addr)

    async def until(self, is_so: Callable[[list[str]], bool]) -> None:
        """Return when that is true of the names that were asked for."""
        while not is_so(self.asked):
            self._arrived.clear()
            await self._arrived.wait()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        name, kind, _ = _question(data)
        if kind == _A:  # each look-up asks for A and AAAA; A comes first
            self.asked.append(name)
            self._arrived.set()
        if name.endswith(SILENT) and not self._is_speaking:
            self._unanswered.append((data, addr))
        else:
            self._answer(data, addr)

    def _answer(self, data: bytes, addr: Any) -> None:
        name, kind, end = _question(data)
        records = self._records(name, kind)
        code = 0 if name in self._script else 3
        head = data[:2] + struct.pack(">BBHHHH", 0x81, 0x80 | code, 1, len(records), 0, 0)
        assert self._transport is not None
        self._transport.sendto(head + data[12:end] + b"".join(records), addr)

    def _records(self, name: str, kind: int) -> list[bytes]:
        if name not in self._script:
            return []
        answers = self._script[name]
        answer = answers[min(self.asked.count(name), len(answers)) - 1]
        records, owner = [], _NAME_OF_THE_QUESTION
        for each in answer:
            if each.startswith("="):
                records.append(_record(owner, self.ttl, _CNAME, _written(each[1:])))
                owner = _written(each[1:])
            elif ":" in each and kind == _AAAA:
                records.append(_record(owner, self.ttl, _AAAA, socket.inet_pton(socket.AF_INET6, each)))
            elif ":" not in each and kind == _A:
                records.append(_record(owner, self.ttl, _A, socket.inet_aton(each)))
        return records


@asynccontextmanager
async def name_server(*, ttl: int = 0) -> AsyncIterator[NameServer]:
    """A name server of our own, for whoever is told its address."""
    server = NameServer(ttl)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: server, (HOST, 0))
    server.address = f"{HOST}:{transport.get_extra_info('sockname')[1]}"
    try:
        yield server
    finally:
        transport.close()


def _question(data: bytes) -> tuple[str, int, int]:
    """The name that is asked for, the kind of record, and where the question ends."""
    place, labels = 12, []
    while data[place]:
        labels.append(data[place + 1 : place + 1 + data[place]].decode("ascii", "replace").lower())
        place += data[place] + 1
    kind: int = struct.unpack_from(">H", data, place + 1)[0]
    return ".".join(labels), kind, place + 5


def _record(owner: bytes, ttl: int, kind: int, value: bytes) -> bytes:
    return owner + struct.pack(">HHIH", kind, 1, ttl, len(value)) + value


def _written(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
