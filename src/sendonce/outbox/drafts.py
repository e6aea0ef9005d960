"""An event as the caller writes it down, before it is checked and rendered."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sendonce.domain.events import UNIQUE, Key, NewEvent, To, new_event
from sendonce.domain.policies import IfUnsure
from sendonce.outbox.tracing import with_trace


class Draft(NamedTuple):
    """One event for `publish_many`: `Draft("memo.created", {"id": 7}, key=("memo", 7), to="https://…")`."""

    type: str
    payload: object
    key: Key
    to: To = ()
    tenant: str = ""
    subject: str | None = None
    version: int | None = None
    headers: Mapping[str, str] | None = None
    deliver_at: datetime | None = None
    expires_at: datetime | None = None
    if_unsure: IfUnsure | str | None = None

    def __repr__(self) -> str:
        return f"Draft({self.type!r}, …, key={self.key!r})"


def render(draft: Draft, largest_payload: int, most_destinations: int) -> NewEvent:
    """The event, checked and rendered; BadEvent or BadDestination says what to change."""
    return new_event(
        draft.type,
        draft.payload,
        key=f"unique:{secrets.token_hex(16)}" if draft.key is UNIQUE else draft.key,
        to=draft.to,
        tenant=draft.tenant,
        subject=draft.subject,
        version=draft.version,
        headers=with_trace(draft.headers),
        deliver_at=draft.deliver_at,
        expires_at=draft.expires_at,
        if_unsure=draft.if_unsure,
        largest_payload=largest_payload,
        most_destinations=most_destinations,
    )
