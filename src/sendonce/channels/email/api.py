"""mailto: through a provider's HTTP API: one channel for all of them, which sends and asks; a provider says how."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from sendonce.channels.email.mail import Mail
from sendonce.channels.http.answers import retry_after_of
from sendonce.channels.http.client import Answered, Forbidden, HttpAnswer, HttpClient, Lost, NotSent, Ours
from sendonce.channels.protocol import Message
from sendonce.domain.answers import LACKING, PROVIDER_HAD_IT, PROVIDER_LOST, RATE_LIMITED, SERVER, http_answer
from sendonce.domain.emails import parse_mailbox
from sendonce.domain.outcomes import CannotTell, LookUp, NoAnswer, NotThere, Outcome, Refused, Unknown
from sendonce.errors import BadDestination, ConfigError

# Their clock and the database's may differ, and a provider forgets in batches.
_MARGIN = timedelta(hours=1)
_CAP = 64 * 1024
_NEEDS_QUOTES = re.compile(r"[^\w '&/+-]")


class Request(NamedTuple):
    """A request to a provider."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Said(NamedTuple):
    """What a provider answered: the status, and its JSON object where it is one."""

    status: int
    parts: Mapping[str, Any]
    text: str

    def text_of(self, name: str) -> str:
        """Return one text of the answer; empty when it is missing."""
        value = self.parts.get(name)
        return value if isinstance(value, str) else ""


class Provider(Protocol):
    """What differs from one provider to the next. Reads and writes nothing by itself."""

    @property
    def remembers(self) -> timedelta:
        """For how long it surely has what it was given."""
        ...

    def sending(self, mail: Mail, token: str) -> Request:
        """The request that sends a mail: the same bytes for every attempt, with our token in it."""
        ...

    def outcome(self, said: Said) -> Outcome:
        """What an answer to it means. Asked for 2xx and 4xx other than 429 only."""
        ...

    def asking(self, message: Message, *, is_remembered: bool) -> Request | CannotTell:
        """How to ask about a message, or why that is not possible."""
        ...

    def finding(self, said: Said, message: Message) -> LookUp:
        """What an answer to that means: Found, NotThere, or NoAnswer. Asked for 2xx and 4xx other than 429 only."""
        ...


class MailApi:
    """A provider as a channel. It is our own server: what goes wrong between us and it is no recipient's fault."""

    def __init__(
        self,
        provider: Provider,
        client: HttpClient,
        *,
        sender: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._provider = provider
        self._client = client
        self._sender = sender
        self._now = now
        self.remembers = provider.remembers

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """Send it once. Delivered with the provider's id when it has taken it."""
        mail = Mail.of(message, self._sender)
        if isinstance(mail, Refused):
            return mail
        answer = await self._exchange(self._provider.sending(mail, message.token), timeout)
        match answer:
            case NotSent(code, text):
                return replace(SERVER, message=f"the mail provider could not be reached: {text or code}")
            case Forbidden(text):
                return replace(SERVER, message=text)
            case Ours(message=text):
                return replace(LACKING, message=text)
            case Lost(code, text):
                return replace(PROVIDER_LOST, code=code, message=text)
        said = _read(answer)
        if said.status == 429:
            again_in = retry_after_of(answer.headers.get("Retry-After"))
            return replace(RATE_LIMITED, again_in=again_in, response=said.text)
        if said.status == 503:
            return replace(SERVER, message="the mail provider is out of service", response=said.text)
        if isinstance(http_answer(said.status, asks_to_wait=False), Unknown):
            return replace(PROVIDER_HAD_IT, code=f"http_{said.status}", response=said.text)
        return self._provider.outcome(said)

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        """Ask the provider. What it does not have counts as not sent only for as long as it surely remembers."""
        is_remembered = self._now() - message.recorded_at < self.remembers - _MARGIN
        request = self._provider.asking(message, is_remembered=is_remembered)
        if isinstance(request, CannotTell):
            return request
        answer = await self._exchange(request, timeout)
        match answer:
            case NotSent(code, text) | Lost(code, text):
                return NoAnswer(SERVER.code, f"the mail provider did not answer: {text or code}", fault=SERVER.fault)
            case Forbidden(text):
                return NoAnswer(SERVER.code, text, fault=SERVER.fault)
            case Ours(message=text):
                return NoAnswer(LACKING.code, text, fault=LACKING.fault)
        said = _read(answer)
        if said.status == 429 or said.status >= 500:
            again_in = retry_after_of(answer.headers.get("Retry-After"))
            return NoAnswer(f"http_{said.status}", "the mail provider could not be asked", again_in, SERVER.fault)
        found = self._provider.finding(said, message)
        if isinstance(found, NotThere) and not is_remembered:
            return CannotTell("forgotten", "the mail provider does not have it, and may have forgotten it by now")
        return found

    async def close(self) -> None:
        await self._client.close()

    async def _exchange(self, request: Request, timeout: float) -> Answered:
        return await self._client.request(
            request.method, request.url, body=request.body, headers=request.headers, timeout=timeout, cap=_CAP
        )


def check_settings(provider: str, secret: str, sender: str, url: str) -> None:
    """ConfigError for what every send would fail with."""
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConfigError(f"{provider} needs its secret as {provider} shows it, without spaces around it")
    try:
        parse_mailbox(f"the sender of mails through {provider}", sender)
    except BadDestination as wrong:
        raise ConfigError(str(wrong)) from None
    if not url.startswith(("https://", "http://")) or url.endswith("/"):
        raise ConfigError(f"the url of {provider} must be like https://api.example.com, without a slash at its end")


def as_json(parts: Mapping[str, object]) -> bytes:
    """A request's body without what is not there: the same bytes every time."""
    kept = {name: value for name, value in parts.items() if value not in (None, [], {})}
    return json.dumps(kept, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def as_mailbox(text: str) -> str:
    """A sender in the spelling that providers read: a name with a comma or the like stands in quotes."""
    name, address = parse_mailbox("an e-mail's address", text)
    if _NEEDS_QUOTES.search(name):
        name = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{name} <{address}>" if name else address


def time_of(text: str) -> datetime | None:
    """A provider's time; None when it cannot be read or does not say which zone it is in."""
    try:
        time = datetime.fromisoformat(text)
        return None if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _read(answer: HttpAnswer) -> Said:
    try:
        parts = json.loads(answer.text)
    except (ValueError, RecursionError):
        parts = None
    return Said(answer.status, parts if isinstance(parts, dict) else {}, answer.text)
