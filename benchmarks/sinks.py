"""Receivers that do next to nothing, in a process of their own: they count, and say when the first and the last came.

python -m benchmarks.sinks       prints its ports as JSON; each line it is given is answered with the counts so far
"""

import asyncio
import json
import subprocess
import sys
import time
from types import TracebackType
from typing import Self, cast

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
SLOW_SECONDS = 0.05


class Count:
    """How many have come, and when."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.amount, self.first, self.last = 0, 0.0, 0.0

    def add(self) -> None:
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.amount += 1


class Http(asyncio.Protocol):
    """Answers every request: at once, after a while, or never."""

    def __init__(self, count: Count, seconds: float | None) -> None:
        self._count = count
        self._seconds = seconds
        self._got = bytearray()
        self._needed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._got += data
        if not self._needed and (end := self._got.find(b"\r\n\r\n")) >= 0:
            place = self._got.lower().index(b"content-length:") + 15
            self._needed = end + 4 + int(self._got[place : self._got.index(b"\r\n", place)])
        if self._needed and len(self._got) >= self._needed:
            del self._got[: self._needed]
            self._needed = 0
            self._count.add()
            if self._seconds == 0:
                self._transport.write(ANSWER)
            elif self._seconds is not None:
                asyncio.get_running_loop().call_later(self._seconds, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(ANSWER)


class Smtp(asyncio.Protocol):
    """Takes every mail."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._got = bytearray()
        self._is_data = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(b"220 sink\r\n")

    def data_received(self, data: bytes) -> None:
        self._got += data
        while (end := b"\r\n.\r\n" if self._is_data else b"\r\n") in self._got:
            line, _, rest = bytes(self._got).partition(end)
            self._got = bytearray(rest)
            self._transport.write(self._answered(line[:4].upper()))

    def _answered(self, verb: bytes) -> bytes:
        if self._is_data:
            self._is_data = False
            self._count.add()
            return b"250 taken\r\n"
        self._is_data = verb == b"DATA"
        return {b"EHLO": b"250 sink\r\n", b"DATA": b"354 go on\r\n", b"QUIT": b"221 bye\r\n"}.get(verb, b"250 ok\r\n")


async def serve() -> None:
    loop = asyncio.get_running_loop()
    counts = {"quick": Count(), "slow": Count(), "silent": Count(), "smtp": Count()}
    ports = {}
    makers = {
        "quick": lambda: Http(counts["quick"], 0),
        "slow": lambda: Http(counts["slow"], SLOW_SECONDS),
        "silent": lambda: Http(counts["silent"], None),
        "smtp": lambda: Smtp(counts["smtp"]),
    }
    for name, make in makers.items():
        server = await loop.create_server(make, "127.0.0.1", 0, backlog=1000)
        ports[name] = server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps({name: [each.amount, each.first, each.last] for name, each in counts.items()}), flush=True)
        for each in counts.values():
            each.clear()


class Sinks:
    """The process, from outside."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sinks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ports: dict[str, int] = json.loads(self._line())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate(timeout=30)

    def counts(self) -> dict[str, tuple[int, float, float]]:
        """What has come since the last time: how many, the first and the last moment."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return {name: tuple(each) for name, each in json.loads(self._line()).items()}

    def rate(self, name: str, expected: int) -> float:
        """How many came in a second."""
        amount, first, last = self.counts()[name]
        if amount != expected:
            raise RuntimeError(f"{amount} arrived at the {name} sink, not {expected}")
        return (amount - 1) / (last - first)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
