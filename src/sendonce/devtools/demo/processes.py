"""The demonstration's processes, each started and ended here by its own id, and the receiver among them."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from types import FrameType
from typing import Any, TypeAlias

from sendonce.devtools.demo.accounts import Counts
from sendonce.devtools.demo.shop import BEHAVIOURS, REFUSED, Mood, Side
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
        """Wait for the end of a process that was told to stop; return its exit code."""
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


ANSWER_SECONDS = 5.0
START_SECONDS = 15.0
Counters: TypeAlias = Mapping[Side, Counts]
NOTHING: Counters = {side: Counts() for side in Side}
_WHERE = re.compile(r"^listening on http://(\S+), control http://(\S+)$", re.MULTILINE)


class ReceiverProcess:
    """Its door is closed at first: connections are refused. It never recognises a token."""

    def __init__(self, family: Family) -> None:
        self._child = family.start(
            "the receiver", "sendonce", "receive", "--port", "0", "--control-port", "0", "--closed", "--quiet"
        )
        self.address, self._control = self._where()
        for side in Side:
            for order in REFUSED:
                self._behave({"fail": "422", "path": f"{side.path}{order}"})

    def counts(self) -> Counters:
        """What it has counted so far."""
        received = self._ask("GET", "/received")
        return {side: Counts.of(side, received) for side in Side}

    def open(self) -> None:
        """Let senders in."""
        self._behave({"closed": False})

    def set_mood(self, mood: Mood) -> None:
        for side in Side:
            self._behave({**BEHAVIOURS[mood], "path": side.path})

    def _behave(self, settings: Mapping[str, object]) -> None:
        self._ask("PUT", "/behaviour", json.dumps(settings))

    def _where(self) -> tuple[str, str]:
        """The addresses that it says it listens on."""
        give_up_at = time.monotonic() + START_SECONDS
        while (said := _WHERE.search(self._child.said())) is None:
            self._child.check()
            if time.monotonic() > give_up_at:
                raise SendonceError("the receiver did not start")
            time.sleep(0.02)
        return said[1], said[2]

    def _ask(self, method: str, path: str, body: str | None = None) -> Any:
        connection = HTTPConnection(self._control, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            document = json.loads(response.read())
        except (OSError, HTTPException) as error:
            raise SendonceError(f"the receiver does not answer ({type(error).__name__})") from None
        finally:
            connection.close()
        if response.status != 200:
            raise SendonceError(f"the receiver does not do as it is told: {document['error']}")
        return document
