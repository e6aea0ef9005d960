"""A message as a handler gets it, and what cannot be one: refused with its reason, never given an id of ours."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sendonce.domain.messages import render_message_id
from sendonce.errors import BadMessage

LARGEST_BODY = 1_000_000
LARGEST_HEADERS = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a source gave. `position` names it at its broker, `mark` is what it is acknowledged with.

    `is_again`: it was given before, or may have been, and was not acknowledged.
    """

    id: str | None
    body: bytes
    headers: Mapping[str, str]
    position: str
    subject: str | None = None
    is_again: bool = False
    mark: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """What a handler is given. `tries` counts this one; `source` is the address that it came from.

    `first_seen_at` is when it first came, where it did not come now.
    """

    id: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    subject: str | None
    source: str
    tries: int
    first_seen_at: datetime | None

    @property
    def text(self) -> str:
        """The body as text; BadMessage when it is not UTF-8."""
        try:
            return self.body.decode()
        except UnicodeDecodeError:
            raise BadMessage("the body is not UTF-8") from None

    def json(self) -> Any:
        """The body as JSON; BadMessage when it is none."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            raise BadMessage("the body is not JSON") from None


def fault_of(taken: Taken, *, largest_body: int = LARGEST_BODY) -> str | None:
    """Why this cannot be handled by anybody; None when it can."""
    if not taken.id:
        return "it has no id"
    try:
        render_message_id(taken.id)
    except BadMessage as error:
        return str(error)
    if len(taken.body) > largest_body:
        return f"its body has {len(taken.body)} bytes; at most {largest_body} are taken"
    size = sum(len(name) + len(value) for name, value in taken.headers.items())
    if size > LARGEST_HEADERS:
        return f"its headers have {size} characters; at most {LARGEST_HEADERS} are taken"
    return None
