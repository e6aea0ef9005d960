"""Messages to send in tests, and what a raw server saw of them."""

import asyncio

from sendonce.channels.protocol import NONE, Credentials, Message
from sendonce.engine.attempt import message_of
from tests.channels.troubles import Connected, read_request
from tests.domain.values import a_claim

PAYLOAD = '{"memo": "Grüße"}'


def message_to(url: str, *, credentials: Credentials = NONE, **changes: object) -> Message:
    return message_of(a_claim(destination=url, address=url, **{"payload": PAYLOAD, **changes}), "here", credentials)


class Seen:
    """The requests that a server saw, byte by byte; it answers each with the same bytes."""

    def __init__(self, answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n") -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.answer = answer

    @property
    def connected(self) -> Connected:
        return self._connected

    def values(self, name: str, of: int = 0) -> list[str]:
        """All values of one header."""
        head = self.requests[of].partition(b"\r\n\r\n")[0].decode()
        pairs = [line.partition(": ") for line in head.split("\r\n")[1:]]
        return [value for key, _, value in pairs if key.lower() == name]

    def headers(self, of: int = 0) -> dict[str, str]:
        """All headers of one request, by their names in lower case; none may be there twice."""
        head = self.requests[of].partition(b"\r\n\r\n")[0].decode()
        names = [line.partition(": ")[0].lower() for line in head.split("\r\n")[1:]]
        assert len(names) == len(set(names))
        return {name: self.values(name, of)[0] for name in names}

    def body(self, of: int = 0) -> bytes:
        return self.requests[of].partition(b"\r\n\r\n")[2]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            self.requests.append(await read_request(reader))
            writer.write(self.answer)
