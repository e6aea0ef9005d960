"""The long tail (SMS, push, chat) through Apprise, which knows more than a hundred services and says yes or no."""

import asyncio
import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from sendonce.channels.protocol import Message
from sendonce.domain.answers import BAD_ADDRESS, BAD_CONTENT, NOT_CONFIRMED, SERVICE_LATE
from sendonce.domain.outcomes import Delivered, Outcome
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from apprise import NotifyBase

# Apprise cannot say whether a no came before or after the service had it, so that a person decides about each.
POLICY = {"timeout": "30s", "if_unsure": "hold"}
_PLACE = "{address}"
_BEFORE_PLACE = re.compile(r"[a-z][a-z0-9]*://[^/?#{}]+[/?]")
# A list (a,b), a path or a query in an address would reach somebody else than the one it was recorded for.
_ADDRESS = re.compile(r"(?!\.+$)[\w.+@#~=:-]{1,200}")
_REPEATING = re.compile(r"[?&]retry=(?!0(?:&|$))")
_THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AppriseSettings:
    """`scheme` is what the destinations begin with, `url` an Apprise URL like `twilio://SID:TOKEN@FROM/{address}`."""

    scheme: str
    url: str = field(repr=False)

    def __post_init__(self) -> None:
        before, place, _ = self.url.partition(_PLACE)
        if not place or not _BEFORE_PLACE.match(before):
            raise ConfigError(
                f"the Apprise url of {self.scheme}: must have {_PLACE} in its path or query,"
                f" like twilio://SID:TOKEN@FROM/{_PLACE}"
            )
        if _REPEATING.search(self.url):
            raise ConfigError(f"the Apprise url of {self.scheme}: must not have retry=: it would repeat without asking")
        if _service(self.url, "+15005550006") is None:
            raise ConfigError(f"Apprise does not understand the url of {self.scheme}:; see its page for that service")


class AppriseChannel:
    """Cannot be asked. Its threads are its own: a service that hangs holds up no other part of the worker."""

    def __init__(self, settings: AppriseSettings) -> None:
        self._url = settings.url
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="apprise")
        # They log whom they have sent to.
        logging.getLogger("apprise").setLevel(logging.CRITICAL)
        logging.getLogger("urllib3").setLevel(logging.WARNING)

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """Send it once: Delivered for a yes, Unknown for a no, because a no tells nothing more."""
        address = message.address.partition(":")[2]
        if not _ADDRESS.fullmatch(address):
            text = "the address must be one word of letters, digits and . + @ # ~ = : _ -"
            return replace(BAD_ADDRESS, message=text)
        title, body = words_of(message)
        if not body.strip():
            return replace(BAD_CONTENT, message="it has no text to send")
        service = _service(self._url, address)
        if service is None:
            return BAD_ADDRESS
        # One for connecting and one for each read; what is left is for looking up the name.
        service.socket_connect_timeout = service.socket_read_timeout = timeout / 3
        sending = asyncio.get_running_loop().run_in_executor(self._threads, _notify, service, title, body)
        try:
            async with asyncio.timeout(timeout):
                is_sent = await sending
        except TimeoutError:
            return SERVICE_LATE
        return Delivered() if is_sent else NOT_CONFIRMED

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def words_of(message: Message) -> tuple[str, str]:
    """Title and text: those that the content or payload names, else the event's type and the whole of it."""
    try:
        parts = json.loads(message.body)
    except (ValueError, RecursionError):
        return "", message.body
    if isinstance(parts, dict) and isinstance(text := parts.get("text"), str):
        title = parts.get("subject") or parts.get("title")
        return (title if isinstance(title, str) else ""), text
    return message.type, json.dumps(parts, ensure_ascii=False, indent=2)


def _service(url: str, address: str) -> "NotifyBase | None":
    """The service that sends to this address; None when Apprise makes nothing of it."""
    try:
        from apprise import Apprise
    except ImportError:
        raise ConfigError("sending through Apprise needs: pip install 'sendonce[apprise]'") from None
    return Apprise.instantiate(url.replace(_PLACE, quote(address, safe="")))


def _notify(service: "NotifyBase", title: str, body: str) -> bool:
    return bool(service.notify(body=body, title=title))
