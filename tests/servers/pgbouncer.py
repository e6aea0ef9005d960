"""The real PgBouncer, in transaction mode, between clients and a server of the tests."""

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psycopg

from tests.processes import SECONDS
from tests.servers.debian import program
from tests.servers.os_users import FOLDER, new_folder, server_account
from tests.servers.postgres import free_port

ADMIN = "pgbouncer"
_SETTINGS = {
    "listen_addr": "127.0.0.1",
    "unix_socket_dir": "",
    "auth_type": "trust",
    "pool_mode": "transaction",
    "max_client_conn": "1000",
    "server_login_retry": "1",
}


class PgBouncer:
    """Listens on a port of its own, for every database of one server; `size` connections for each."""

    def __init__(self, server: str, *, size: int, settings: Mapping[str, str] | None = None) -> None:
        self._server = server
        self._size = size
        self._settings = dict(settings or {})
        self.port = free_port()

    def __enter__(self) -> Self:
        account = server_account()
        self.folder = new_folder("pgbouncer-", os.environ.get(FOLDER))
        self._log = self.folder / "log"
        self.point_at(self._server, reload=False)
        (self.folder / "users").write_text('"postgres" ""\n')
        if account is not None:
            account.owns(self.folder)
        found = program("pgbouncer")
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [found.path, self._file],
                cwd=self.folder, env=found.environment(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, user=account.uid if account else None,
                group=account.gid if account else None, extra_groups=[] if account else None,
            )  # fmt: skip
        give_up_at = time.monotonic() + SECONDS
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < give_up_at, self._log.read_text()
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(SECONDS)

    def url_of(self, database: str) -> str:
        """The address of a database by way of it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def transactions(self) -> int:
        """How many it has carried so far."""
        [row] = [row for row in self.ask("show stats") if row["database"] != ADMIN]
        return int(row["total_xact_count"])

    def point_at(self, server: str, *, reload: bool = True) -> None:
        """Lead to this server from now on."""
        parts = urlsplit(server)
        values = _SETTINGS | {
            "listen_port": str(self.port), "auth_file": str(self.folder / "users"), "admin_users": "postgres",
            "default_pool_size": str(self._size), **self._settings,
        }  # fmt: skip
        lines = [f"{name} = {value}" for name, value in values.items()]
        databases = f"[databases]\n* = host={parts.hostname} port={parts.port}\n[pgbouncer]\n"
        self._file.write_text(databases + "\n".join(lines) + "\n")
        if reload:
            self.ask("reload")

    def ask(self, command: str) -> list[dict[str, Any]]:
        """What its console answers."""
        with psycopg.connect(
            self.url_of(ADMIN), autocommit=True, cursor_factory=psycopg.ClientCursor, connect_timeout=60
        ) as connection:
            cursor = connection.execute(command.encode())
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else []

    @property
    def _file(self) -> Path:
        return self.folder / "pgbouncer.ini"

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            return bool(self.ask("show version"))
        return False
