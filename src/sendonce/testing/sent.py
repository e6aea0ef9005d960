"""What a test sees of one send."""

import json
from dataclasses import dataclass
from typing import Any

from sendonce.channels.protocol import Message
from sendonce.domain.outcomes import Accepted, Delivered, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One message that was handed to a channel, and what came of it.

    `destination` is where it went to (a subscription's own address), `token` the same for every attempt of a delivery.
    `arrived`: the receiver has it, whatever the sender was told.
    """

    type: str
    key: str
    destination: str
    body: str
    token: str
    attempt: int
    outcome: Outcome
    arrived: bool
    tenant: str
    subject: str | None
    version: int | None
    headers: dict[str, str]
    event_id: int
    delivery_id: int

    @property
    def content(self) -> Any:
        """The body read as JSON: the payload, or the parts of an Email (`subject`, `text`, `html` …)."""
        return json.loads(self.body)

    @classmethod
    def of(cls, message: Message, outcome: Outcome, *, arrived: bool | None = None) -> "Sent":
        return cls(
            type=message.type,
            key=message.key,
            destination=message.address,
            body=message.body,
            token=message.token,
            attempt=message.attempt,
            outcome=outcome,
            arrived=isinstance(outcome, Delivered | Accepted) if arrived is None else arrived,
            tenant=message.tenant,
            subject=message.subject,
            version=message.version,
            headers=json.loads(message.headers or "{}"),
            event_id=message.event_id,
            delivery_id=message.delivery_id,
        )
