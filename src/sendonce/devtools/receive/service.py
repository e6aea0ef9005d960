"""The receiver as a process of its own, with a control API, or inside a program's own event loop."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from aiohttp import web

from sendonce.admin.session import on_own_thread
from sendonce.devtools.receive.handler import Handler, as_json
from sendonce.devtools.receive.web import Verify, Web
from sendonce.domain.texts import harmless
from sendonce.errors import ConfigError

BACKLOG = 1024


class Room(Protocol):
    """What is behind a door: it makes the protocol of each connection, and knows those that are open."""

    def __call__(self) -> asyncio.BaseProtocol: ...

    @property
    def connections(self) -> Iterable[asyncio.BaseProtocol]: ...


class Door:
    """A port that can be closed and opened again."""

    def __init__(self, host: str, port: int, room: Room) -> None:
        # Bound for as long as we live and never listening: the port is ours, and refuses, while the door is closed.
        self._reserved = _bound(host, port)
        self._room = room
        self._server: asyncio.Server | None = None
        self.host = host
        self.port: int = self._reserved.getsockname()[1]

    async def open(self) -> None:
        if self._server is None:
            listening = _bound(self.host, self.port)
            self._server = await asyncio.get_running_loop().create_server(self._room, sock=listening, backlog=BACKLOG)

    def close(self) -> None:
        """Refuse connections from now on, and cut those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for protocol in list(self._room.connections):
            transport = getattr(protocol, "transport", None)
            if transport is not None:
                transport.abort()

    def leave(self) -> None:
        """Close it and give up the port."""
        self.close()
        self._reserved.close()

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError, TypeError):
        made.close()
        raise ConfigError(f"port {port} of {host} cannot be had; name another port, or 0 for a free one") from None
    return made


Close: TypeAlias = Callable[[bool], Awaitable[None]]


class Control:
    """Changes the handler's rules and shows its memory. `close` shuts or opens the receiver's door."""

    def __init__(self, handler: Handler, close: Close) -> None:
        self._handler = handler
        self._close = close

    def application(self) -> web.Application:
        made = web.Application()
        made.router.add_put("/behaviour", self._behave)
        made.router.add_get("/received", self._received)
        made.router.add_get("/last", self._last)
        made.router.add_delete("/received", self._clear)
        return made

    async def _behave(self, request: web.Request) -> web.Response:
        try:
            settings = await request.json()
            if not isinstance(settings, dict):
                raise ConfigError("say what to change as a JSON object")
            path, is_closed, is_forgetful = (settings.pop(name, None) for name in ("path", "closed", "forget"))
            self._handler.rules.change(settings, path or "")
        except (ConfigError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)
        if is_forgetful is not None:
            self._handler.memory.be_forgetful(bool(is_forgetful))
        if is_closed is not None:
            await self._close(bool(is_closed))
        return web.json_response({})

    async def _received(self, request: web.Request) -> web.Response:
        return web.json_response(self._handler.memory.document())

    async def _last(self, request: web.Request) -> web.Response:
        return web.json_response([as_json(arrival) for arrival in self._handler.memory.last])

    async def _clear(self, request: web.Request) -> web.Response:
        self._handler.memory.clear()
        return web.json_response({})


Announce: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to listen, and whether at once. Port 0 is a free one; None is none at all."""

    host: str
    port: int
    smtp_port: int | None = None
    control_port: int | None = None
    is_closed: bool = False


async def serve(handler: Handler, place: Place, *, verify: Verify | None, announce: Announce) -> None:
    """Receive until SIGINT or SIGTERM. Says first where it listens, and last what it has received."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    house = House(place)
    try:
        announce(f"listening on {await house.open(handler, verify)}")
        await ended.wait()
    finally:
        house.leave()
    announce(handler.memory.summary())


class House:
    """The doors of the receiver: the web, mail and control sides that were asked for."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._public: list[Door] = []
        self._control: Door | None = None

    async def open(self, handler: Handler, verify: Verify | None) -> str:
        """Open what is to be open; where it all is."""
        place = self._place
        door = Door(place.host, place.port, Web(handler, verify).server)
        self._public.append(door)
        addresses = [f"http://{door}"]
        if place.smtp_port is not None:
            from sendonce.devtools.receive.mail import MailSink

            self._public.append(Door(place.host, place.smtp_port, MailSink(handler)))
            addresses.append(f"smtp://{self._public[-1]}")
        if place.control_port is not None:
            runner = web.AppRunner(Control(handler, self.close).application(), access_log=None)
            await runner.setup()
            assert runner.server is not None  # noqa: S101 — it was set up
            self._control = Door(place.host, place.control_port, runner.server)
            await self._control.open()
            addresses.append(f"control http://{self._control}")
        await self.close(place.is_closed)
        return ", ".join(addresses)

    async def close(self, is_closed: bool) -> None:
        """Close or open the doors to senders; the one for control stays open."""
        for door in self._public:
            if is_closed:
                door.close()
            else:
                await door.open()

    def leave(self) -> None:
        for door in (*self._public, *([self._control] if self._control else [])):
            door.leave()


class Receiving(NamedTuple):
    """Where it listens: `http` takes anything below it, `smtp` is for SENDONCE_SMTP_URL."""

    http: str
    smtp: str


@contextmanager
def embedded_receiver(
    *, host: str = "127.0.0.1", is_quiet: bool = False, behaviours: Mapping[str, Mapping[str, object]] | None = None
) -> Iterator[Receiving]:
    """`aembedded_receiver` for programs without an event loop: the receiver has one on a thread of its own."""
    with on_own_thread(aembedded_receiver(host=host, is_quiet=is_quiet, behaviours=behaviours)) as receiving:
        yield receiving


@asynccontextmanager
async def aembedded_receiver(
    *, host: str = "127.0.0.1", is_quiet: bool = False, behaviours: Mapping[str, Mapping[str, object]] | None = None
) -> AsyncIterator[Receiving]:
    """Receive by HTTP and SMTP on free ports while the block runs, and print what arrives unless it is to be quiet.

    `behaviours` are those of `sendonce receive`, by the beginning of a path or of `mailto:` and an address: as in
    `{"mailto:nobody@": {"mail_fail": "550"}}`.
    """
    from sendonce.devtools.receive.behaviour import Rules
    from sendonce.devtools.receive.handler import Handler, line
    from sendonce.devtools.receive.mail import MailSink
    from sendonce.devtools.receive.memory import Arrival, Memory
    from sendonce.devtools.receive.web import Web

    def tell(arrival: Arrival, said: str) -> None:
        if not is_quiet:
            print(harmless(line(arrival, said, is_verbose=False)), flush=True)

    rules = Rules()
    for path, settings in (behaviours or {}).items():
        rules.change(settings, path)
    handler = Handler(rules, Memory(0), tell)
    web, mail = Door(host, 0, Web(handler, None).server), Door(host, 0, MailSink(handler))
    try:
        await web.open()
        await mail.open()
        yield Receiving(f"http://{web}", f"smtp+plain://{mail}")
    finally:
        web.leave()
        mail.leave()
