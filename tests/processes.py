"""Real worker processes, and waiting for what other processes do: always with a bound."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
# A limit against hanging, more than ten times what anything needs: machines are busy, and stand still for seconds.
SECONDS = 200.0
_LOOK_SECONDS = 0.02


def until(condition: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Return when the condition holds; AssertionError when it does not come true in time."""
    give_up_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up_at, f"waited {seconds:g} s for: {what}"
        time.sleep(_LOOK_SECONDS)


async def until_async(condition: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """The same, while the loop goes on."""
    give_up_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up_at, f"waited {seconds:g} s for: {what}"
        await asyncio.sleep(_LOOK_SECONDS / 4)


class Process:
    """A Python program of the project, and the lines that it writes to standard error. Never outlives its block."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None, folder: Path = ROOT) -> None:
        self.lines: list[str] = []
        self._popen = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"process {self.pid} said:\n{self.said}")
        if self._popen.poll() is None:
            self._popen.kill()
        self.ended()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def said(self) -> str:
        return "".join(self.lines)

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def count(self, pattern: str) -> int:
        """How many of its lines match."""
        return sum(1 for line in list(self.lines) if re.search(pattern, line))

    def says(self, pattern: str, seconds: float = SECONDS) -> None:
        """Return when a line matches."""
        until(lambda: self.count(pattern), f"a line that matches {pattern!r}", seconds)

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._popen.kill()
        self.ended()

    def ended(self, seconds: float = SECONDS) -> int:
        """Its exit code, when it has ended and all its lines are read."""
        code = self._popen.wait(seconds)
        self._reading.join(seconds)
        return code

    def _read(self) -> None:
        assert self._popen.stderr is not None
        with self._popen.stderr as stream:
            self.lines.extend(iter(stream.readline, ""))


def sendonce(*arguments: str, database: str, environment: Mapping[str, str] | None = None) -> Process:
    """The command line, on this database."""
    return Process("-m", "sendonce", *arguments, environment={"SENDONCE_DATABASE": database, **(environment or {})})
