"""Where the receiver listens. A door that is closed refuses connections but keeps its port."""

import asyncio
import socket
from collections.abc import Iterable
from typing import Protocol

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
    except (OSError, OverflowError):
        made.close()
        raise ConfigError(f"port {port} of {host} cannot be had; name another port, or 0 for a free one") from None
    return made
