"""The other service over HTTP: its address, a key of ours there, and the two questions that are asked of it."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import aiohttp

from apps.chancepay.contract import Report

SECONDS = 5.0


class PeerFailed(Exception):
    """It has not done what it was asked. `is_sent`: it may have heard of it all the same."""

    def __init__(self, why: str, *, status: int | None = None, is_sent: bool = True) -> None:
        super().__init__(why)
        self.status = status
        self.is_sent = is_sent


@dataclass(frozen=True, slots=True)
class Address:
    """Where the other service is, and the key that it has given us."""

    url: str
    key: str = field(repr=False)


class Peer:
    """One session for the life of a process; it follows no redirect, which would take the key elsewhere."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"authorization": f"Bearer {self._address.key}"}, timeout=aiohttp.ClientTimeout(total=SECONDS)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def report(self, uuid: UUID, report: Report, seconds: float = SECONDS) -> None:
        """PUT what came of a request. The same again changes nothing there."""
        await self.ask("PUT", f"/internal/requests/{uuid}", report.model_dump(mode="json"), seconds)

    async def ask(self, method: str, path: str, body: object = None, seconds: float = SECONDS) -> Any:
        """One request, and the JSON of its answer; PeerFailed for anything but 2xx."""
        assert self._session is not None, "ask inside the block"  # noqa: S101
        try:
            async with self._session.request(
                method,
                self._address.url.rstrip("/") + path,
                json=body,
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
            ) as response:
                text = await response.text(errors="replace")
        except aiohttp.ClientConnectorError:
            raise PeerFailed("it cannot be reached", is_sent=False) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise PeerFailed(f"no answer ({type(error).__name__})") from None
        if not 200 <= response.status < 300:
            raise PeerFailed(f"HTTP {response.status}: {_sentence(text)}", status=response.status)
        return json.loads(text) if text else None

    async def pages(self, path: str, field: str) -> AsyncIterator[Any]:
        """Walk a list to its end, page by page."""
        after: int | None = 0
        while after is not None:
            answer = await self.ask("GET", f"{path}{'&' if '?' in path else '?'}after={after}")
            for each in answer[field]:
                yield each
            after = answer["next"]


def _sentence(text: str) -> str:
    """What the other side says is wrong; nothing, when it is not in its own words."""
    try:
        found = json.loads(text)["error"]
    except (ValueError, TypeError, KeyError):
        return "no reason given"
    return str(found)[:200]
