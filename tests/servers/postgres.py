"""PostgreSQL servers for tests: made in a temporary folder, reached on 127.0.0.1, stopped by that folder."""

import atexit
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
from psycopg import sql

from tests.servers.binaries import local_binaries, major_version, packaged
from tests.servers.os_users import FOLDER, Account, new_folder, reachable, server_account

EXTERNAL = "SENDONCE_TEST_POSTGRES"
# Seconds, against hanging.
PATIENCE = "600"

Mode = Literal["immediate", "fast"]

SETTINGS = {"listen_addresses": "127.0.0.1", "shared_buffers": "128MB", "max_connections": "200"}
CARELESS = {"fsync": "off", "full_page_writes": "off"}


_CONNECTIONS: dict[str, psycopg.Connection] = {}


@atexit.register
def _close() -> None:
    for connection in _CONNECTIONS.values():
        connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A PostgreSQL to make databases on. One that was only named to us has no folder and is never stopped."""

    url: str
    version: int
    folder: str = ""
    bin_dir: str = ""

    def dsn(self, database: str = "postgres") -> str:
        parts = urlsplit(self.url)
        return f"postgresql://{parts.netloc}/{database}" + (f"?{parts.query}" if parts.query else "")

    def create_database(self, template: str | None = None) -> str:
        """Make a database of a new name: empty, or a copy of `template`, which nobody may be connected to."""
        name = f"test_{uuid4().hex[:16]}"
        source = template or "template0"
        self._execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(source)))
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is still connected to it."""
        self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    @property
    def pid(self) -> int:
        """The process id of the running server; FileNotFoundError when it is down."""
        return int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])

    def restart(self, mode: Mode = "fast") -> None:
        """Stop and start on the same port. `immediate` is a crash: recovery runs at the start."""
        self.halt(mode)
        self.resume()

    def halt(self, mode: Mode = "fast") -> None:
        """Stop the server and keep its data."""
        self._control("stop", "--mode", mode, "--timeout", PATIENCE)

    def resume(self) -> None:
        """Start a halted server again; it accepts connections when this returns."""
        self._control("start", "--log", str(Path(self.folder) / "log"), "--timeout", PATIENCE)

    def kill(self) -> None:
        """End every process of it at once, as when its machine dies; its data is as it was."""
        first = self.pid
        os.kill(first, signal.SIGSTOP)  # so that it starts no other meanwhile
        all_of_it = [*_children(first), first]
        for pid in all_of_it:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while not all(_is_over(pid) for pid in all_of_it):
            time.sleep(0.01)
        # A machine that has started anew knows nothing of these processes.
        for left in (self._data / "postmaster.pid", *Path(self.folder).glob(".s.PGSQL.*")):
            left.unlink()

    def promote(self) -> None:
        """Make a standby a primary; it can be written to when this returns."""
        self._control("promote", "--timeout", PATIENCE)

    def standby(self, *, port: int | None = None, name: str = "standby", instead_of: Self | None = None) -> "Server":
        """A new standby that follows this server, by way of another `port` if one is given.

        `instead_of` a server that has halted it takes that one's address, and what was there is gone.
        """
        folder = Path(instead_of.folder) if instead_of else new_folder("pg-", os.environ.get(FOLDER))
        account = server_account()
        if instead_of:
            shutil.rmtree(folder / "data")
        elif account is not None:
            os.chown(folder, account.uid, account.gid)
        own = urlsplit(self.url)
        source = f"host={own.hostname} port={port or own.port} user=postgres application_name={name}"
        command = [f"{self.bin_dir}/pg_basebackup", "--pgdata", str(folder / "data"), "--wal-method", "stream"]
        _run([*command, "--checkpoint", "fast", "--write-recovery-conf", "--dbname", source], folder, account)
        settings = dict(
            re.findall(r"^(\w+) = '(.*)'$", (folder / "data" / "postgresql.conf").read_text(), re.MULTILINE)
        )
        settings.pop("synchronous_standby_names", None)
        ports = [urlsplit(instead_of.url).port] if instead_of else [None, None, None]
        return _start_on_some_port(folder, Path(self.bin_dir), settings, ports)

    def stop(self) -> None:
        """Stop the server and remove all it has written; nothing happens when that was done before."""
        if not self._data.exists():
            return
        with suppress(subprocess.CalledProcessError):
            self.halt("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    @property
    def _data(self) -> Path:
        if not self.folder:
            raise RuntimeError(f"the server named by {EXTERNAL} is not ours to stop or start")
        return Path(self.folder) / "data"

    def _control(self, *arguments: str) -> None:
        command = [f"{self.bin_dir}/pg_ctl", *arguments, "--wait", "--pgdata", str(self._data)]
        _run(command, Path(self.folder), server_account())

    def _execute(self, statement: sql.Composed) -> None:
        """Connecting takes as long as dropping a database, so one connection of this process stays open."""
        connection = _CONNECTIONS.get(self.url)
        if connection is None or connection.closed:
            connection = _CONNECTIONS[self.url] = psycopg.connect(self.dsn(), autocommit=True)
        try:
            connection.execute(statement)
        except psycopg.OperationalError:
            if not connection.broken:
                raise
            # The server was restarted since.
            _CONNECTIONS[self.url] = psycopg.connect(self.dsn(), autocommit=True)
            _CONNECTIONS[self.url].execute(statement)


def start(bin_dir: Path, *, durable: bool = False, settings: Mapping[str, str] | None = None) -> Server:
    """Make a cluster and run it with the programs of `bin_dir`. Only a `durable` one survives a power cut."""
    account = server_account()
    folder = new_folder("pg-", os.environ.get(FOLDER))
    programs = reachable(bin_dir, folder, account)
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    data = folder / "data"
    authentication = ["--auth", "trust", "--username", "postgres"]
    collation = ["--encoding", "UTF8", "--locale", "C.UTF-8" if os.uname().sysname == "Linux" else "C"]
    _run(
        [f"{programs}/initdb", "--no-sync", *authentication, *collation, "--pgdata", str(data)],
        folder,
        account,
    )
    wanted = SETTINGS | ({} if durable else CARELESS) | dict(settings or {})
    return _start_on_some_port(folder, programs, wanted)


def default_server() -> Server:
    """The server named by SENDONCE_TEST_POSTGRES, else a new one: installed programs, else packaged ones."""
    if url := os.environ.get(EXTERNAL):
        with psycopg.connect(url) as connection:
            return Server(url=url, version=connection.info.server_version // 10_000)
    return start(local_binaries() or packaged(16))


def _start_on_some_port(
    folder: Path, programs: Path, settings: Mapping[str, str], ports: Sequence[int | None] = (None, None, None)
) -> Server:
    """Try each of these ports, of which None is a free one."""
    version = major_version(programs)
    for tried, wanted in enumerate(ports, 1):
        last_try = tried == len(ports)
        port = wanted or free_port()
        values = {**settings, "port": str(port), "unix_socket_directories": str(folder)}
        (folder / "data" / "postgresql.conf").write_text(_configuration(values))
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        server = Server(url=url, version=version, folder=str(folder), bin_dir=str(programs))
        (folder / "server.json").write_text(server.to_json())
        try:
            server.resume()
        except subprocess.CalledProcessError as error:
            if last_try:
                error.add_note((folder / "log").read_text() if (folder / "log").exists() else "no log")
                raise
        else:
            return server
    raise AssertionError("unreachable")


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append(int(entry.name))
    return found


def _is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _configuration(values: Mapping[str, str]) -> str:
    quoted = {name: value.replace("'", "''") for name, value in values.items()}
    return "".join(f"{name} = '{value}'\n" for name, value in quoted.items())


def free_port() -> int:
    """A port that nobody listens on now.

    Below the range that outgoing connections take theirs from: while the server is down, a client that keeps
    trying could otherwise be given the server's port and connect to itself.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _run(command: list[str], folder: Path, account: Account | None) -> None:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        subprocess.run(
            command,
            check=True,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    except subprocess.CalledProcessError as error:
        error.add_note(error.stdout)
        raise
