"""Asks the receiver, over the wire, what it has counted, and tells it how to behave."""

import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import TypeAlias

from sendonce.demo.inbox import Counts
from sendonce.demo.plan import Mood, Side
from sendonce.errors import SendonceError

ANSWER_SECONDS = 5.0
Tallies: TypeAlias = Mapping[Side, Counts]
NOTHING: Tallies = {side: Counts() for side in Side}


class Port:
    """A port of this machine that is ours but answers nobody, until somebody listens on it."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"

    def counts(self) -> Tallies:
        """What the receiver has counted so far."""
        document = json.loads(self._ask("GET", "/counts"))
        return {side: Counts.from_json(document[side]) for side in Side}

    def is_up(self) -> bool:
        """True when somebody listens."""
        try:
            with socket.create_connection(self.socket.getsockname(), ANSWER_SECONDS):
                return True
        except OSError:
            return False

    def set_mood(self, mood: Mood) -> None:
        self._ask("PUT", "/mood", mood.value)

    def close(self) -> None:
        self.socket.close()

    def _ask(self, method: str, path: str, body: str | None = None) -> str:
        connection = HTTPConnection(self.address, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, body)
            return connection.getresponse().read().decode()
        except (OSError, HTTPException) as error:
            raise SendonceError(f"the receiver does not answer ({type(error).__name__})") from None
        finally:
            connection.close()
