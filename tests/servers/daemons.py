"""A server that a test starts as a process of its own: in a folder and on ports of its own, ended by its process id."""

import os
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.processes import SECONDS
from tests.servers.os_users import FOLDER, new_folder
from tests.servers.postgres import free_port

# In a server's folder: the process groups that are its own, for who clears up after a run that was killed.
PIDS = "pids"
_STARTS = 3
# Those that run on for all processes of a run.
_LEFT: "list[Daemon]" = []
_LOOK_SECONDS = 0.005


class Daemon(ABC):
    """A server on 127.0.0.1. As a context manager it is started, and gone with all it wrote at the end.

    A port is chosen anew when somebody else took it before the server could; from then on it stays the same.
    """

    name: str

    @property
    @abstractmethod
    def url(self) -> str:
        """Its address, as clients take it."""

    def __init__(self) -> None:
        self.folder = new_folder(f"{self.name}-", os.environ.get(FOLDER))
        self.port = 0
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The server's process id while it runs."""
        return self._running[-1].pid

    @property
    def log(self) -> str:
        """What it has said so far."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> Self:
        """Start it, or start it again on the same port with the data it had; it answers when this returns."""
        for tries_left in reversed(range(1 if self.port else _STARTS)):
            chosen, self.port = self.port, self.port or free_port()
            try:
                self._launch()
                self._wait(self.answers)
            except ChildProcessError:
                self.kill()
                self.port = chosen
                if not tries_left:
                    raise
            else:
                return self
        raise AssertionError("unreachable")

    def kill(self) -> None:
        """End it at once, as when its machine dies; what it has written stays."""
        for process in reversed(self._running):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(SECONDS)
        self._running.clear()

    def halt(self) -> None:
        """Ask it to end, as its operator does, and wait for that; its data stays."""
        if self._running:
            self._running[-1].terminate()
            self._running[-1].wait(SECONDS)
        self.kill()

    def freeze(self) -> None:
        """Let it stand still: connections stay, and nothing is answered."""
        os.killpg(self.pid, signal.SIGSTOP)
        self._wait(self._stands_still)  # its threads stop one after another

    def _stands_still(self) -> bool:
        stats = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return all(stat.read_text().rpartition(") ")[2].startswith("T") for stat in stats)

    def thaw(self) -> None:
        """Let it go on."""
        os.killpg(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it and remove all it has written."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @abstractmethod
    def _launch(self) -> None:
        """Run its programs, with `run`; the server itself comes last."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves by now."""

    def run(self, *command: str | Path, environment: Mapping[str, str] | None = None) -> None:
        """Start one of its programs, in a process group of its own."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=None if environment is None else dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)
        (self.folder / PIDS).write_text("".join(f"{each.pid}\n" for each in self._running))

    def asked(self, question: bytes, port: int | None = None) -> bytes:
        """What a new connection answers first, to this; nothing when there is none."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", port or self.port), 5) as connection:
            if question:
                connection.sendall(question)
            return connection.recv(4096)
        return b""

    def _wait(self, condition: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + SECONDS
        while not condition():
            if any(each.poll() is not None for each in self._running):
                raise ChildProcessError(f"{self.name} ended before it answered:\n{self.log}")
            assert time.monotonic() < give_up_at, f"{self.name} does not answer:\n{self.log}"
            time.sleep(_LOOK_SECONDS)


def left_running(daemon: Daemon) -> Daemon:
    """Start a server that serves the whole run and is ended by the run's keeper."""
    _LEFT.append(daemon.start())
    return daemon


def clear(folder: Path) -> None:
    """End what still runs of the servers in a folder of a run."""
    for record in folder.glob(f"*/{PIDS}"):
        for pid in map(int, record.read_text().split()):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
