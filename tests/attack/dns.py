"""A name server of our own (UDP, TTL 0) that may answer otherwise each time, and the system's resolver asking it."""

import asyncio
import ctypes
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

HOST = "127.0.0.1"
_A, _CNAME, _AAAA = 1, 5, 28
_NAME_OF_THE_QUESTION = b"\xc0\x0c"
# Where glibc keeps how many name servers it asks, and the first of them (struct __res_state, unchanged for decades).
_COUNT_AT, _FIRST_AT = 16, 20


class NameServer(asyncio.DatagramProtocol):
    """Answers from a script: for each name the answers to its first, second … look-up; the last one stays.

    An answer is a list of addresses; one that begins with `=` is another name, given as a CNAME.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._script: dict[str, list[list[str]]] = {}
        self._transport: asyncio.DatagramTransport | None = None

    def says(self, name: str, *answers: list[str]) -> None:
        self._script[name] = list(answers)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        name, kind, end = _question(data)
        if kind == _A:  # each look-up asks for A and AAAA; A comes first
            self.asked.append(name)
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
                records.append(_record(owner, _CNAME, _written(each[1:])))
                owner = _written(each[1:])
            elif ":" in each and kind == _AAAA:
                records.append(_record(owner, _AAAA, socket.inet_pton(socket.AF_INET6, each)))
            elif ":" not in each and kind == _A:
                records.append(_record(owner, _A, socket.inet_aton(each)))
        return records


@asynccontextmanager
async def name_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NameServer]:
    """A name server that is asked by everything in this process; skips where the resolver cannot be pointed at it.

    The look-ups stay the system's own: each thread that asks is only told whom to ask.
    """
    resolver = _Resolver()
    server = NameServer()
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: server, (HOST, 0))
    port = int(transport.get_extra_info("sockname")[1])
    real = socket.getaddrinfo

    def asking_ours(*args: Any, **more: Any) -> Any:
        resolver.point_at(port)
        return real(*args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", asking_ours)
    try:
        yield server
    finally:
        transport.close()


class _Resolver:
    """glibc's resolver, whose state is each thread's own."""

    def __init__(self) -> None:
        try:
            libc = ctypes.CDLL("libc.so.6")
            self._init, self._state = libc["__res_init"], libc["__res_state"]
        except (OSError, AttributeError):
            pytest.skip("only the resolver of glibc can be pointed at a port")
        self._state.restype = ctypes.c_void_p

    def point_at(self, port: int) -> None:
        """Have this thread's look-ups go to this port."""
        self._init()
        place = self._state()
        server = struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(HOST) + bytes(8)
        ctypes.memmove(place + _COUNT_AT, struct.pack("=i", 1), 4)
        ctypes.memmove(place + _FIRST_AT, server, len(server))


def _question(data: bytes) -> tuple[str, int, int]:
    """The name that is asked for, the kind of record, and where the question ends."""
    place, labels = 12, []
    while data[place]:
        labels.append(data[place + 1 : place + 1 + data[place]].decode("ascii", "replace").lower())
        place += data[place] + 1
    kind: int = struct.unpack_from(">H", data, place + 1)[0]
    return ".".join(labels), kind, place + 5


def _record(owner: bytes, kind: int, value: bytes) -> bytes:
    return owner + struct.pack(">HHIH", kind, 1, 0, len(value)) + value


def _written(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
