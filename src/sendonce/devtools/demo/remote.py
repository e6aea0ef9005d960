"""The receiver: `sendonce receive` in a process of its own, told how to behave and asked what it has."""

import json
import re
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any, TypeAlias

from sendonce.devtools.demo.counts import Counts
from sendonce.devtools.demo.plan import BEHAVIOURS, REFUSED, Mood, Side
from sendonce.devtools.demo.processes import Family
from sendonce.errors import SendonceError

ANSWER_SECONDS = 5.0
START_SECONDS = 15.0
Counters: TypeAlias = Mapping[Side, Counts]
NOTHING: Counters = {side: Counts() for side in Side}
_WHERE = re.compile(r"^listening on http://(\S+), control http://(\S+)$", re.MULTILINE)


class Receiver:
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
