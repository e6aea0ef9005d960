"""A message in hand, and how one is given to a handler."""

from dataclasses import dataclass, field

from sendonce.consumer.incoming import Incoming, Taken
from sendonce.store.tries import Arrived, Content, Failure


@dataclass(slots=True, eq=False)
class Job:
    """A message in hand. `taken`: what is acknowledged when it is done with; `row_id`: where its try is counted."""

    message: Incoming
    arrived: Arrived
    content: Content
    row_id: int | None = None
    taken: list[Taken] = field(default_factory=list)


def message_of(taken: Taken, arrived: Arrived, *, tries: int) -> Incoming:
    """Return what its handler is given."""
    return Incoming(
        id=str(taken.id),
        body=taken.body,
        headers=taken.headers,
        subject=taken.subject,
        source=arrived.source,
        tries=tries,
        first_seen_at=None,
    )


def poison(tries: int) -> Failure:
    """Say why a message is given up that ends its process again and again."""
    return Failure("poison", f"{tries} tries ended with their process", reason="poison")
