"""The ways by which an alert is told: through the same channels, guard and signatures as everything else.

Nothing of it is recorded: an alert that cannot be told makes no delivery, and so no alert of its own.
"""

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime

from sendonce.channels.protocol import NONE, Channel, Credentials, Message
from sendonce.channels.registry import Channels
from sendonce.domain.destinations import scheme_of
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Accepted, Delivered, Refused
from sendonce.engine.alerts import AlertSettings
from sendonce.errors import ConfigError
from sendonce.signing import key_of

TYPE = "sendonce.alert"
SECONDS = 10.0
_CHANNEL = {"webhook": "it needs: pip install 'sendonce[http]'", "mail": "describe one with [mail] and [smtp]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What people are told: the same for every try to tell it."""

    name: str
    message: str
    is_over: bool
    at: datetime

    @property
    def state(self) -> str:
        return "over" if self.is_over else "raised"

    def as_json(self) -> str:
        return json.dumps({"alert": self.name, "state": self.state, "message": self.message, "at": self.at.isoformat()})


@dataclass(frozen=True, slots=True)
class Untold:
    """Why a notice did not get through; `for_good` when another try will not help."""

    reason: str
    for_good: bool = False


class AlertTransport:
    """One address that alerts are sent to."""

    def __init__(
        self, way: str, address: str, channel: Channel, namespace: str, credentials: Credentials = NONE
    ) -> None:
        self.way = way
        self._address = address
        self._channel = channel
        self._namespace = namespace
        self._credentials = credentials

    async def tell(self, notice: Notice, attempt: int) -> Untold | None:
        """Send it once. Never raises: whatever happens here must not reach the worker."""
        is_mail = scheme_of(self._address) == "mailto"
        message = Message(
            address=self._address,
            body=_mail(notice, self._address) if is_mail else notice.as_json(),
            has_content=is_mail,
            type=TYPE,
            key=f"{notice.name}/{notice.state}/{notice.at.isoformat()}",
            recorded_at=notice.at,
            attempt=attempt,
            credentials=self._credentials,
            namespace=self._namespace,
            destination=self._address,
        )
        try:
            async with asyncio.timeout(SECONDS + 1):
                outcome = await self._channel.send(message, timeout=SECONDS)
            if isinstance(outcome, Delivered | Accepted):
                return None
            return Untold(outcome.code, for_good=isinstance(outcome, Refused))
        except Exception as error:  # a channel's own fault, and its text may hold what is secret
            return Untold(type(error).__name__)


def transports_of(settings: AlertSettings, channels: Channels, namespace: str) -> list[AlertTransport]:
    """The ways that are configured, beside the log; ConfigError when nothing serves one of them."""
    signing = () if settings.webhook_secret is None else (key_of(settings.webhook_secret),)
    sinks = []
    for way, address, credentials in (
        ("webhook", settings.webhook, Credentials(signing=signing)),
        ("mail", settings.mail, NONE),
    ):
        if address is not None:
            channel = channels.find(address)
            if channel is None:
                scheme = scheme_of(address)
                raise ConfigError(f"[alerts] {way}: this worker has no channel for {scheme}:; {_CHANNEL[way]}")
            sinks.append(AlertTransport(way, address, channel, namespace, credentials))
    return sinks


def _mail(notice: Notice, address: str) -> str:
    subject = f"sendonce: {notice.name} ({notice.state})"
    return Email(address.removeprefix("mailto:"), subject=subject, text=f"{notice.message}\n").content()
