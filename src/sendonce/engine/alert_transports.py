"""The ways by which an alert is told: through the same channels, guard and signatures as everything else.

Nothing of it is recorded: an alert that cannot be told makes no delivery, and so no alert of its own.
"""

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime

from sendonce.channels.credentials import NONE, Credentials
from sendonce.channels.protocol import Channel, Message
from sendonce.channels.registry import Channels
from sendonce.channels.signing import key_of
from sendonce.domain.attempts import Claim
from sendonce.domain.destinations import scheme_of
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Accepted, Delivered, Refused
from sendonce.engine.alerts import AlertSettings
from sendonce.errors import ConfigError

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
        message = Message(_claim(notice, self._address, attempt), self._namespace, self._credentials)
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


def _claim(notice: Notice, address: str, attempt: int) -> Claim:
    """A message that is no delivery: its token is made from what it says and when."""
    parts = {"alert": notice.name, "state": notice.state, "message": notice.message, "at": notice.at.isoformat()}
    return Claim(
        delivery_id=0,
        attempt=attempt,
        event_id=0,
        tenant="",
        type=TYPE,
        key=f"{notice.name}/{notice.state}/{notice.at.isoformat()}",
        destination=address,
        address=address,
        payload=json.dumps(parts),
        content=_mail(notice, address) if scheme_of(address) == "mailto" else None,
        headers=None,
        subject=None,
        version=None,
        recorded_at=notice.at,
        subscription_id=None,
        subscription_state=None,
        policy=None,
        if_unsure=None,
        attempt_count=attempt,
        deferred_count=0,
        corrections=0,
        generation=0,
        in_doubt=False,
        is_proven=False,
        notification_id=None,
        seconds_left=None,
    )


def _mail(notice: Notice, address: str) -> str:
    subject = f"sendonce: {notice.name} ({notice.state})"
    return Email(address.removeprefix("mailto:"), subject=subject, text=f"{notice.message}\n").content()
