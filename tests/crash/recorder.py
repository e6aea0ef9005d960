"""A receiver that bears thousands of requests a second and remembers millions of them, in a process of its own.

POST /recognised/7   knows the token again           POST /asked/7   GET /look-up/{token}: has it the message?
POST /subscribed     the same, and finds the number in the body
POST /held/7, /resent/7   neither                    lines of JSON on the control port say how it is to behave

python -m tests.crash.recorder SEED
"""

import asyncio
import json
import random
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from tests.crash.ledger import Ledger
from tests.processes import SECONDS, Process

KINDS = ("recognised", "asked", "held", "resent", "subscribed")
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
LOOK_UP = b"GET /look-up/"
KNOW_AGAIN = (b"recognised", b"subscribed")
_ORDER = re.compile(rb'"order": ?(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How it behaves. Shares of all requests: to `fail`, to `drop` before they are accepted, to drop after that
    (`swallow`), to be answered after `seconds`; and of look-ups, to be `deaf` to. `closed` refuses connections.
    """

    fail: float = 0.0
    drop: float = 0.0
    swallow: float = 0.0
    late: float = 0.0
    seconds: float = 0.0
    deaf: float = 0.0
    closed: bool = False


class Recorder:
    """The ledger, the manners, and everybody who is connected."""

    def __init__(self, seed: str) -> None:
        self.ledger = Ledger()
        self.manners = Manners()
        self.rng = random.Random(seed)
        self.requests = 0
        self.connected: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    async def open(self) -> int:
        """Listen, on the same port as before if there was one."""
        if self._server is None:
            loop = asyncio.get_running_loop()
            make = partial(Connection, self)
            self._server = await loop.create_server(make, "0.0.0.0", self._port, backlog=1000)  # noqa: S104
            self._port = self._server.sockets[0].getsockname()[1]
        return self._port

    def shut(self) -> None:
        """Refuse connections, and cut those that there are."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connected):
            connection.hang_up()

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do what each line says, and answer it."""
        while line := await reader.readline():
            order = json.loads(line)
            if "save" in order:
                self.ledger.save(Path(order["save"]))
            elif order:
                self.manners = Manners(**order)
                if self.manners.closed:
                    self.shut()
                else:
                    await self.open()
            totals = {"requests": self.requests, "distinct": self.ledger.distinct, "asked": len(self.ledger.stories)}
            writer.write(json.dumps(totals).encode() + b"\n")
            await writer.drain()


class Connection(asyncio.Protocol):
    """One sender's connection: a request, its answer, the next one."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._got = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._recorder.connected.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._recorder.connected.discard(self)

    def hang_up(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._got[:end]).lower()
        length = _header(head, b"content-length")
        whole = end + 4 + int(length or 0)
        if len(self._got) >= whole:
            body = bytes(self._got[end + 4 : whole])
            del self._got[:whole]
            self._recorder.requests += 1
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        recorder, rng = self._recorder, self._recorder.rng.random
        manners = recorder.manners
        if head.startswith(LOOK_UP.lower()):
            self._say(UNAVAILABLE if rng() < manners.deaf else self._looked_up(head))
            return
        if rng() < manners.drop:
            self.hang_up()
            return
        if rng() < manners.fail:
            self._say(UNAVAILABLE)
            return
        _, kind, *rest = head[: head.index(b" http/1.1")].split(b" ", 1)[1].split(b"/")
        number = rest[0] if rest else cast(re.Match[bytes], _ORDER.search(body))[1]
        token, attempt = _header(head, b"idempotency-key").decode(), int(_header(head, b"sendonce-attempt"))
        recorder.ledger.take(int(number), token, attempt, deduplicate=kind in KNOW_AGAIN, is_asked=kind == b"asked")
        if rng() < manners.swallow:
            self.hang_up()
        elif rng() < manners.late:
            asyncio.get_running_loop().call_later(manners.seconds, self._say, _ok(b'{"id": "%b"}' % number))
        else:
            self._say(_ok(b'{"id": "%b"}' % number))

    def _looked_up(self, head: bytes) -> bytes:
        token = head[len(LOOK_UP) : head.index(b" http/1.1")]
        return _ok(b'{"id": "%b"}' % token) if self._recorder.ledger.look_up(token.decode()) else NOT_FOUND

    def _say(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


def _ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _header(head: bytes, name: bytes) -> bytes:
    place = head.find(b"\r\n%b:" % name)
    if place < 0:
        return b""
    end = head.find(b"\r\n", place + 2)
    return head[place + len(name) + 3 : end if end > 0 else len(head)].strip()


async def serve(seed: str) -> None:
    """Receive until it is killed; says first where it listens."""
    recorder = Recorder(seed)
    control = await asyncio.start_server(recorder.control, "127.0.0.1", 0)
    ports = {"port": await recorder.open(), "control": control.sockets[0].getsockname()[1]}
    print(json.dumps(ports), file=sys.stderr, flush=True)
    await asyncio.Event().wait()


class RecorderProcess(Process):
    """The process, from outside. Each kind of receiver is a host of its own."""

    def __init__(self, seed: str) -> None:
        super().__init__("-m", "tests.crash.recorder", seed)
        self.says("control")
        ports = json.loads(self.lines[0])
        self._control = socket.create_connection(("127.0.0.1", ports["control"]), timeout=SECONDS)
        self._answers = self._control.makefile("r")
        self.port: int = ports["port"]

    def url(self, kind: str) -> str:
        return f"http://127.0.0.{1 + KINDS.index(kind)}:{self.port}"

    def behave(self, **manners: object) -> None:
        """Behave like this from now on, and well in all that is not said."""
        self._order({"closed": False} | manners)

    def totals(self) -> dict[str, int]:
        """How many requests and messages there were so far."""
        return self._order({})

    def ledger(self, folder: Path) -> Ledger:
        """All that it remembers."""
        self._order({"save": str(folder / "ledger")})
        return Ledger.load(folder / "ledger")

    def __exit__(self, *arguments: Any) -> None:
        self._answers.close()
        self._control.close()
        super().__exit__(*arguments)

    def _order(self, order: Mapping[str, object]) -> dict[str, int]:
        self._control.sendall(json.dumps(order).encode() + b"\n")
        totals: dict[str, int] = json.loads(self._answers.readline())
        return totals


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1]))
