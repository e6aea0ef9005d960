"""Tries of messages at a consumer, beside the transactions of their handlers: begun, failed, due again, given up.

A message that is handled when it first comes has a receipt and no row. One that its broker gives again has a row from
then on, and each of its tries is counted before it is made: what ends its process again and again is found out by that.
One that has failed is kept with its body and comes again from here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple, Protocol

from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.sql.steps import Steps, one, records, rows

POSITION_LENGTH = 500
# The broker that has given a message twice gives it a third time, within a day: else nobody ever does.
NEVER_AGAIN = timedelta(days=1)
_SUBJECT = ":subject"


class Standing(Enum):
    """What is to be done with a message that its broker gives again."""

    BEGUN = auto()
    """Its try is counted: handle it."""
    KNOWN = auto()
    """It was handled, waits in our own tables, or was given up: it need not come again."""
    POISON = auto()
    """Too many of its tries ended with their process: give it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What names a message: its consumer, its id, and where it came from."""

    consumer: str
    id: str | None
    position: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Where a message stands: its row, and how many tries were begun, this one included."""

    standing: Standing
    row_id: int | None = None
    tries: int = 0
    first_seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is kept of a message that is not done with."""

    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    subject: str | None = None

    def written(self) -> str:
        """The headers as they are stored, and the subject among them."""
        subject = {} if self.subject is None else {_SUBJECT: self.subject}
        return json.dumps({**self.headers, **subject})


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A message that is due again, claimed, its try counted. No content: its broker never gave it again.

    `lost` of its tries were not finished.
    """

    row_id: int
    arrived: Arrived
    tries: int
    lost: int
    first_seen_at: datetime
    content: Content | None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a try failed. Without `again_in` nothing is tried again: `reason` says why not."""

    code: str
    message: str
    _: KW_ONLY
    again_in: timedelta | None = None
    reason: str | None = None

    @property
    def outcome(self) -> str:
        return "Refused" if self.reason in ("refused", "malformed") else "Failed"


class MessageStore(Protocol):
    """What a consumer needs from its database. Each call is one transaction of its own."""

    async def begin_message(self, arrived: Arrived, *, most_lost: int, worker: str) -> Begun:
        """Count a try of a message that was given before, durably, unless it is known."""
        ...

    async def fail_message(
        self, arrived: Arrived, row_id: int | None, content: Content | None, failure: Failure, *, worker: str
    ) -> bool:
        """Write how a try failed, and keep what is needed for the next one. False when it was handled after all."""
        ...

    async def complete_message(self, row_id: int) -> None:
        """Write that a counted try has ended well."""
        ...

    async def due_messages(self, consumer: str, limit: int, *, hold: timedelta, worker: str) -> list[Waiting]:
        """Claim up to `limit` that are due again, oldest first, and count a try of each. Nobody else gets them for
        `hold`."""
        ...

    async def hold_messages(self, row_ids: Sequence[int], hold: timedelta) -> None:
        """Keep these claimed for so long from now."""
        ...

    async def return_messages(self, row_ids: Sequence[int]) -> None:
        """The tries of these end with their consumer, and not by their fault: they are due again now."""
        ...


class _Newest(NamedTuple):
    id: int
    status: str
    begun: int
    finished: int
    created_at: datetime
    is_kept: bool


class _Inserted(NamedTuple):
    id: int
    created_at: datetime


class _Due(NamedTuple):
    id: int
    message_id: str | None
    source: str
    source_position: str | None
    begun: int
    finished: int
    created_at: datetime
    headers: str | None
    body: bytes | None


def begin_message(arrived: Arrived, *, most_lost: int, worker: str) -> Steps[Begun]:
    """See MessageStore."""
    newest = yield from _newest(arrived)
    if (yield from _is_handled(arrived)):
        if newest is not None and newest.status == "InProgress":
            yield from complete_message(newest.id)
        return Begun(standing=Standing.KNOWN)
    if newest is None:
        return (yield from _begin_first(arrived, worker))
    if newest.status != "InProgress" or newest.is_kept:
        yield from rows("see_message", row_id=newest.id)
        return Begun(standing=Standing.KNOWN)
    begun = Begun(standing=Standing.POISON, row_id=newest.id, tries=newest.begun, first_seen_at=newest.created_at)
    if newest.begun - newest.finished >= most_lost:
        return begun
    yield from rows("begin_message_again", row_id=newest.id, hold=NEVER_AGAIN)
    yield from _begin_try(newest.id, newest.begun + 1, worker)
    return Begun(standing=Standing.BEGUN, row_id=newest.id, tries=newest.begun + 1, first_seen_at=newest.created_at)


def fail_message(
    arrived: Arrived, row_id: int | None, content: Content | None, failure: Failure, *, worker: str
) -> Steps[bool]:
    """See MessageStore."""
    if (yield from _is_handled(arrived)):
        if row_id is not None:
            yield from complete_message(row_id)
        return False
    said = {
        "error_code": clean(failure.code, CODE_LENGTH),
        "error_message": clean(failure.message, MESSAGE_LENGTH),
    }
    ending = {"status": "PendingRetry" if failure.again_in is not None else "DeadLettered", "reason": failure.reason}
    kept = {"headers": content and clean(content.written(), 10**9), "body": content and content.body}
    if row_id is not None:
        values = {**said, **ending, **kept, "wait": failure.again_in}
        for (tries,) in (yield from rows("fail_message", row_id=row_id, **values)):
            yield from rows("end_try", row_id=row_id, number=tries, outcome=failure.outcome, **said)
        return True
    inserted = yield from _insert(arrived, **said, **ending, **kept, finished=1, wait=failure.again_in)
    if inserted is not None:
        yield from _begin_try(inserted.id, 1, worker)
        yield from rows("end_try", row_id=inserted.id, number=1, outcome=failure.outcome, **said)
    elif (newest := (yield from _newest(arrived))) is not None:
        yield from rows("see_message", row_id=newest.id)
    return True


def complete_message(row_id: int) -> Steps[None]:
    """See MessageStore."""
    for (tries,) in (yield from rows("complete_message", row_id=row_id)):
        yield from rows(
            "end_try", row_id=row_id, number=tries, outcome="Completed", error_code=None, error_message=None
        )


def due_messages(consumer: str, limit: int, *, hold: timedelta, worker: str) -> Steps[list[Waiting]]:
    """See MessageStore."""
    found = yield from records(_Due, "due_messages", consumer=consumer, limit=limit, hold=hold)
    for each in found:
        yield from _begin_try(each.id, each.begun, worker)
    return [_waiting(consumer, each) for each in found]


def hold_messages(row_ids: Sequence[int], hold: timedelta) -> Steps[None]:
    """See MessageStore."""
    yield from rows("hold_messages", row_ids=list(row_ids), hold=hold)


def return_messages(row_ids: Sequence[int]) -> Steps[None]:
    """See MessageStore."""
    for row_id, tries in (yield from rows("return_messages", row_ids=list(row_ids))):
        yield from rows(
            "end_try", row_id=row_id, number=tries, outcome="Lost", error_code="stopped", error_message=None
        )


def _newest(arrived: Arrived) -> Steps[_Newest | None]:
    return (yield from one(_Newest, "newest_message", consumer=arrived.consumer, message_id=arrived.id))


def _is_handled(arrived: Arrived) -> Steps[bool]:
    return bool((yield from rows("has_receipt", consumer=arrived.consumer, message_id=arrived.id)))


def _begin_first(arrived: Arrived, worker: str) -> Steps[Begun]:
    """Count its first try; another process may have done so a moment ago."""
    nothing = {"reason": None, "error_code": None, "error_message": None, "headers": None, "body": None}
    inserted = yield from _insert(arrived, **nothing, status="InProgress", finished=0, wait=NEVER_AGAIN)
    if inserted is None:
        return Begun(standing=Standing.KNOWN)
    yield from _begin_try(inserted.id, 1, worker)
    return Begun(standing=Standing.BEGUN, row_id=inserted.id, tries=1, first_seen_at=inserted.created_at)


def _insert(arrived: Arrived, **values: object) -> Steps[_Inserted | None]:
    return (
        yield from one(
            _Inserted,
            "insert_message",
            consumer=arrived.consumer,
            message_id=arrived.id,
            source=arrived.source,
            source_position=clean(arrived.position, POSITION_LENGTH),
            **values,
        )
    )


def _begin_try(row_id: int, number: int, worker: str) -> Steps[None]:
    """Whatever was begun before and not finished is lost."""
    yield from rows("lose_tries", row_id=row_id)
    yield from rows("begin_try", row_id=row_id, number=number, worker=clean(worker, MESSAGE_LENGTH))


def _waiting(consumer: str, due: _Due) -> Waiting:
    arrived = Arrived(consumer=consumer, id=due.message_id, position=due.source_position or "", source=due.source)
    return Waiting(
        row_id=due.id,
        arrived=arrived,
        tries=due.begun,
        lost=due.begun - 1 - due.finished,
        first_seen_at=due.created_at,
        content=_content(due.headers, due.body),
    )


def _content(headers: str | None, body: bytes | None) -> Content | None:
    if body is None:
        return None
    named: dict[str, str] = json.loads(headers or "{}")
    subject = named.pop(_SUBJECT, None)
    return Content(body=bytes(body), headers=named, subject=subject)
