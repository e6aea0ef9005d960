"""The recording provider: `sendonce receive` as a process of its own, told what to do and asked what it really has."""

import json
import re
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, Self

from tests.processes import SECONDS, Process, until

_WHERE = re.compile(
    r"^listening on (?P<url>http://\S+?)(?:, smtp://(?P<smtp>\S+?))?, control http://(?P<control>\S+)$", re.MULTILINE
)

STILL = 5


class Provider(Process):
    """Listens on free ports of loopback. Options are those of `sendonce receive`.

    `url` is where to send to, anything may follow it; `look_up` is the address to ask, with {token} in it; `smtp` is
    host:port when `mail` is wanted.
    """

    def __init__(self, *options: str, mail: bool = False, environment: Mapping[str, str] | None = None) -> None:
        ports = ["--port", "0", "--control-port", "0", *(["--smtp-port", "0"] if mail else [])]
        super().__init__("-m", "sendonce", "receive", "--quiet", *ports, *options, environment=environment)
        self.url = self.look_up = self.smtp = self._control = ""

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.says("^listening on")
        except BaseException:
            self.kill()
            raise
        where = _WHERE.search(self.said)
        assert where is not None, self.said
        self.url, self.smtp, self._control = where["url"], where["smtp"] or "", where["control"]
        self.look_up = f"{self.url}/deliveries/{{token}}"
        return self

    def control(self, **settings: object) -> None:
        """Behave like this from now on, as in control(fail="503:0.2", path="/orders"); None puts one back.

        Also closed=True (refuse connections), forget=True (lose its memory, and have none until forget=False).
        """
        self._ask("PUT", "/behaviour", settings)

    def received(self) -> dict[str, int]:
        """How often it has accepted each message, by token."""
        return {key: message["count"] for key, message in self.messages().items() if message["count"]}

    def doubled(self) -> dict[str, int]:
        """What it has accepted more than once."""
        return {key: count for key, count in self.received().items() if count > 1}

    def messages(self) -> dict[str, dict[str, Any]]:
        """All that it knows of each message: count, recognised, refused, failed, asked, found, after_asking, id …"""
        messages: dict[str, dict[str, Any]] = self._ask("GET", "/received")["messages"]
        return messages

    def totals(self, path: str = "") -> dict[str, int]:
        """What came to the paths that begin like this: requests, in_flight, accepted, dropped, heard, unheard …"""
        whole: dict[str, int] = {}
        for name, totals in self._ask("GET", "/received")["paths"].items():
            if name.startswith(path):
                whole = {each: whole.get(each, 0) + amount for each, amount in totals.items()}
        return whole

    def caught_up(self) -> None:
        """Return when it has taken what had been sent to it: when several questions in a row find nothing new."""
        heard: list[dict[str, int]] = []

        def is_still() -> bool:
            heard.append(self.totals())
            return len(heard) > STILL and all(each == heard[-1] for each in heard[-STILL:])

        until(is_still, "the provider to have taken everything")

    def last(self) -> list[dict[str, Any]]:
        """The last that arrived, whole: method, path, token, attempt, headers, body."""
        arrivals: list[dict[str, Any]] = self._ask("GET", "/last")
        return arrivals

    def clear(self) -> None:
        """Count from zero."""
        self._ask("DELETE", "/received")

    def _ask(self, method: str, path: str, document: object = None) -> Any:
        connection = HTTPConnection(self._control, timeout=SECONDS)
        try:
            connection.request(method, path, None if document is None else json.dumps(document))
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        assert response.status == 200, answer
        return answer
