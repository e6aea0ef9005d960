"""Run the receiver until it is told to stop: open its doors, say where they are, and sum up at the end."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

from sendonce.devtools.receive.control import Control
from sendonce.devtools.receive.desk import Desk
from sendonce.devtools.receive.doors import Door
from sendonce.devtools.receive.web import Verify, Web

Announce: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to listen, and whether at once. Port 0 is a free one; None is none at all."""

    host: str
    port: int
    smtp_port: int | None = None
    control_port: int | None = None
    is_closed: bool = False


async def serve(desk: Desk, place: Place, *, verify: Verify | None, announce: Announce) -> None:
    """Receive until SIGINT or SIGTERM. Says first where it listens, and last what it has received."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    house = House(place)
    try:
        announce(f"listening on {await house.open(desk, verify)}")
        await ended.wait()
    finally:
        house.leave()
    announce(desk.memory.summary())


class House:
    """The doors of the receiver: the web, mail and control sides that were asked for."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._public: list[Door] = []
        self._control: Door | None = None

    async def open(self, desk: Desk, verify: Verify | None) -> str:
        """Open what is to be open; where it all is."""
        place = self._place
        door = Door(place.host, place.port, Web(desk, verify).server)
        self._public.append(door)
        addresses = [f"http://{door}"]
        if place.smtp_port is not None:
            from sendonce.devtools.receive.mail import AlertTransport

            self._public.append(Door(place.host, place.smtp_port, AlertTransport(desk)))
            addresses.append(f"smtp://{self._public[-1]}")
        if place.control_port is not None:
            runner = web.AppRunner(Control(desk, self.close).application(), access_log=None)
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
