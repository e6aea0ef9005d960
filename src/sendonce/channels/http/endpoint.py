"""An HTTP endpoint with a name: our own secret, its id for each message, and an address where it can be asked."""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from yarl import URL

from sendonce.channels.http.answers import outcome_of, retry_after_of
from sendonce.channels.http.certificates import context_of
from sendonce.channels.http.client import Forbidden, HttpAnswer, HttpClient
from sendonce.channels.http.webhook import post
from sendonce.channels.protocol import Channel, Message
from sendonce.domain.answers import FORBIDDEN, WRONG_BEARER
from sendonce.domain.destinations import TOKEN, normalise
from sendonce.domain.headers import bearer_of, is_allowed
from sendonce.domain.outcomes import (
    CannotTell,
    Delivered,
    Found,
    LookUp,
    NoAnswer,
    NotThere,
    Outcome,
)
from sendonce.domain.policies import DEFAULT_POLICY, override
from sendonce.errors import BadDestination, ConfigError

_CAP = 16_384
_ID_LENGTH = 500
_SECRET = re.compile(r"[\x21-\x7e]+", re.ASCII)
_MOST_DECODINGS = 8
_DOTS = re.compile(r"\s*\.[.\s]*")
# Control characters, and the %u002e of old servers.
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f]|%u", re.IGNORECASE)
# Dots in its path would take our secret to another place than the profile is for.
OUTSIDE = replace(FORBIDDEN, message="its path leads out of what the profile is for")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HttpProfile:
    """How to reach everything below `url`, which ends with a slash.

    `look_up` is an address with {token} in it: GET answers 200 with a JSON object when the message is there, else 404.
    Its id for a message is in the header `id_header` or in the JSON field `id_field`; where one of these is set and it
    can be asked, what it answers without an id does not count as sent. It `remembers` for so long.
    `certificate` (with its key) and `ca` are PEM texts. Subscriptions get none of it unless it is `for_subscriptions`.
    """

    name: str
    url: str
    bearer: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    look_up: str | None = None
    id_header: str | None = None
    id_field: str | None = None
    remembers: timedelta | None = None
    certificate: str | None = None
    ca: str | None = None
    for_subscriptions: bool = False
    policy: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", self._checked_url())
        self._check_look_up()
        self._check_secrets()
        override(DEFAULT_POLICY, self.policy)

    def __repr__(self) -> str:
        return f"HttpProfile(name={self.name!r}, url={self.url!r})"

    def _checked_url(self) -> str:
        url = self._address("url", self.url)
        if not url.endswith("/") or "?" in url:
            raise ConfigError(f"[http.{self.name}] url must end with a slash: it stands for everything below it")
        return url

    def _check_look_up(self) -> None:
        if self.look_up is None:
            if self.remembers is not None:
                raise ConfigError(f"[http.{self.name}] remembers needs look_up, the address where it can be asked")
            return
        if self.look_up.count(TOKEN) != 1:
            raise ConfigError(f"[http.{self.name}] look_up must have {TOKEN} in it once, where the token belongs")
        self._address("look_up", self.look_up.replace(TOKEN, "0"))
        if self.remembers is not None and self.remembers <= timedelta(0):
            raise ConfigError(f"[http.{self.name}] remembers must be above zero")

    def _check_secrets(self) -> None:
        if self.bearer is not None and not _SECRET.fullmatch(self.bearer):
            raise ConfigError(f"[http.{self.name}] bearer must be one line of ASCII without spaces")
        for name, value in self.headers.items():
            if not is_allowed(name, value):
                raise ConfigError(f"[http.{self.name}] headers cannot set {name!r}: it is ours, or not one line")
        if self.certificate is not None or self.ca is not None:
            try:
                context_of(self.certificate, self.ca)
            except ConfigError as error:
                raise ConfigError(f"[http.{self.name}] {error}") from None

    def _address(self, setting: str, text: str) -> str:
        if not text.lower().startswith(("http://", "https://")):
            raise ConfigError(f"[http.{self.name}] {setting} must be an http:// or https:// address")
        try:
            return normalise(text)
        except BadDestination as error:
            raise ConfigError(f"[http.{self.name}] {setting}: {error}") from None


class HttpEndpoint:
    """Sends with a profile. Its other side cannot be asked."""

    def __init__(self, profile: HttpProfile, client: HttpClient) -> None:
        self._profile = profile
        self._client = client
        self._inside = _as_dialled(profile.url)
        self._headers = {name.lower(): value for name, value in profile.headers.items()} | bearer_of(profile.bearer)

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """POST the body once; the endpoint's own id for it comes with the outcome, where it gives one."""
        if not self._is_inside(message.address):
            return OUTSIDE
        answered = await post(
            self._client,
            message,
            timeout=timeout,
            keys=message.credentials.signing,
            headers=self._headers,
            certificate=self._profile.certificate,
            ca=self._profile.ca,
            cap=_CAP,
        )
        if _is_our_fault(answered, self._profile):
            return WRONG_BEARER
        outcome = outcome_of(answered)
        if isinstance(outcome, Delivered) and isinstance(answered, HttpAnswer):
            return replace(outcome, notification_id=self._id_for(message, answered))
        return outcome

    async def close(self) -> None:
        await self._client.close()

    def _is_inside(self, address: str) -> bool:
        dialled = _as_dialled(address)
        return dialled.startswith(self._inside) and not _may_climb(dialled[len(self._inside) :].partition("?")[0])

    def _id_for(self, message: Message, answer: HttpAnswer) -> str | None:
        return _id_in(answer, _object_in(answer), self._profile)


class AskingEndpoint(HttpEndpoint):
    """An endpoint that can be asked for a message by its token."""

    def __init__(self, profile: HttpProfile, client: HttpClient) -> None:
        super().__init__(profile, client)
        is_own = profile.certificate is not None or profile.ca is not None
        self._context = context_of(profile.certificate, profile.ca) if is_own else None
        self._look_up = profile.look_up or ""
        self.remembers = profile.remembers

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        """Ask whether it has the message. Sure answers are 200 with a JSON object, and 404 within its memory."""
        answered = await self._client.request(
            "GET",
            self._look_up.replace(TOKEN, message.token),
            headers=self._headers,
            timeout=timeout,
            ssl=self._context,
            cap=_CAP,
        )
        if not isinstance(answered, HttpAnswer):
            # The address is in our own settings: nobody else can mend it.
            code = "our_look_up" if isinstance(answered, Forbidden) else answered.code
            return NoAnswer(code, answered.message)
        if answered.status == 404:
            return self._not_found(message)
        if _is_our_fault(answered, self._profile):
            return NoAnswer(WRONG_BEARER.code, WRONG_BEARER.message, fault=WRONG_BEARER.fault)
        if answered.status != 200:
            again_in = retry_after_of(answered.headers.get("Retry-After"))
            return NoAnswer(f"http_{answered.status}", "it did not say whether it has the message", again_in)
        found = _object_in(answered)
        if found is None:
            return NoAnswer("malformed_answer", "it answered a look-up with something other than a JSON object")
        return Found(_id_in(answered, found, self._profile), time_in(found, "sent_at", "created_at"))

    def _id_for(self, message: Message, answer: HttpAnswer) -> str | None:
        id = super()._id_for(message, answer)
        # Without ids of its own it knows a message by our token.
        has_ids = self._profile.id_header is not None or self._profile.id_field is not None
        return id if id is not None or has_ids else message.token

    def _not_found(self, message: Message) -> LookUp:
        if self.remembers is not None and datetime.now(UTC) - message.recorded_at >= self.remembers:
            return CannotTell("too_old", "it may have forgotten the message by now")
        return NotThere()


def endpoint(profile: HttpProfile, client: HttpClient) -> Channel:
    """The channel of a profile: one that can be asked, where the profile says how."""
    return HttpEndpoint(profile, client) if profile.look_up is None else AskingEndpoint(profile, client)


def _as_dialled(address: str) -> str:
    """The address as it goes over the wire; empty when it is none."""
    try:
        return str(URL(address))
    except ValueError:
        return ""


def _may_climb(path: str) -> bool:
    """Whether any server could read dots in it that lead out, however often it decodes and whatever it calls a slash.

    Gateways and servers decode once each and split paths by rules of their own: `..%2F`, `%252e`, `..;/`, backslashes.
    """
    for _ in range(_MOST_DECODINGS):
        try:
            decoded = unquote(path, errors="strict")
        except UnicodeDecodeError:  # also the overlong spellings of a dot
            return True
        if decoded == path:
            break
        path = decoded
    else:
        return True
    plain = unicodedata.normalize("NFKC", path)
    if _ODD.search(plain):
        return True
    return any(_DOTS.fullmatch(part.partition(";")[0]) for part in plain.replace("\\", "/").split("/"))


def _is_our_fault(answered: object, profile: HttpProfile) -> bool:
    """The secret is ours: with a wrong one every message would be refused, whatever is in it."""
    return isinstance(answered, HttpAnswer) and answered.status == 401 and profile.bearer is not None


def _object_in(answer: HttpAnswer) -> Mapping[str, Any] | None:
    try:
        found = json.loads(answer.text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _id_in(answer: HttpAnswer, found: Mapping[str, Any] | None, profile: HttpProfile) -> str | None:
    """The endpoint's own id, from its header or else from the JSON object."""
    id: object = answer.headers.get(profile.id_header) if profile.id_header else None
    if id is None and found is not None:
        id = found.get(profile.id_field or "id")
    if isinstance(id, bool) or not isinstance(id, str | int):
        return None
    return str(id)[:_ID_LENGTH] or None


def time_in(found: Mapping[str, Any], *names: str) -> datetime | None:
    """When it got the message, where it says so in a form that leaves no doubt."""
    for name in names:
        try:
            moment = datetime.fromisoformat(found.get(name) or "")
        except (ValueError, TypeError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
