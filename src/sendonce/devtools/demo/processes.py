"""The processes of the demonstration: each is started here, and ended here by its own id, whatever happens."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from sendonce.errors import SendonceError

STOP_SECONDS = 5.0
LONGEST_SAID = 1_000_000


class Child:
    """One process, out of reach of the terminal's Ctrl-C: only we end it. What it says is kept for when it fails."""

    def __init__(self, name: str, module: str, *arguments: str) -> None:
        self.name = name
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 — closed when the process has ended
        self._process = subprocess.Popen(  # noqa: S603 — our own interpreter with our own modules
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            env=_environment(),
            process_group=0,
        )

    def check(self) -> None:
        """Raise when it has ended by itself: none of them does."""
        code = self._process.poll()
        if code is not None:
            raise SendonceError(f"{self.name} ended by itself with code {code}: {self._last_words()}")

    def kill_if(self, is_time: Callable[[], bool]) -> bool:
        """SIGKILL it if it is time. It is held still while we ask, so that the answer is still true when it dies."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            if not is_time():
                return False
            self._process.kill()
        finally:
            self._process.send_signal(signal.SIGCONT)
        self._process.wait()
        return True

    def terminate(self) -> None:
        """Ask it to end, with SIGTERM."""
        self._process.terminate()

    def ended(self) -> int:
        """Wait until it has ended, and end it with SIGKILL if that takes too long; its exit code."""
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        finally:
            self._said.close()
        return self._process.wait()

    def said(self) -> str:
        """All that it has said so far."""
        # Read without moving: the process writes at the same position of the same file.
        return os.pread(self._said.fileno(), LONGEST_SAID, 0).decode("utf-8", "replace")

    def _last_words(self) -> str:
        lines = self.said().strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"


class Family:
    """The processes that are meant to run now."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(self, name: str, module: str, *arguments: str) -> Child:
        child = Child(name, module, *arguments)
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raise when one of them has ended by itself."""
        for child in self._children:
            child.check()

    def bury(self, child: Child) -> int:
        """Wait for the end of one that was told to end; its exit code."""
        code = child.ended()
        self._children.remove(child)
        return code

    def stop(self) -> None:
        """End whoever is left."""
        for child in self._children:
            child.terminate()
        for child in list(self._children):
            self.bury(child)


@contextmanager
def family() -> Iterator[Family]:
    """A family that is gone at the end, also after an error, Ctrl-C, SIGTERM or a closed terminal."""
    members = Family()
    before = {each: signal.signal(each, _leave) for each in (signal.SIGTERM, signal.SIGHUP)}
    interrupting = signal.getsignal(signal.SIGINT)
    try:
        yield members
    finally:
        for each in (signal.SIGINT, *before):
            signal.signal(each, signal.SIG_IGN)
        members.stop()
        for each, handler in (*before.items(), (signal.SIGINT, interrupting)):
            signal.signal(each, handler)


def _environment() -> dict[str, str]:
    """Nothing of somebody's own settings, and leave to reach this machine itself."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SENDONCE_")}
    return {**plain, "SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8", "SENDONCE_CONFIG": os.devnull}


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
