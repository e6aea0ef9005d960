"""A request's state, read on the caller's connection: the same look for callers, operators and those who wait."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.requests import RecipientState, RequestState, RequestStatus
from sendonce.outbox.entries import queries
from sendonce.sql.statements import Database, Statement, Statements

LARGEST_ID = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def published(database: Database) -> dict[str, str]:
    """Return the query that `state_of` reads, for those who have a connection of their own."""
    return {"request_state": queries(database)["request_state"]}


def read_state(request_id: int, database: Database) -> Statements[RequestState | None]:
    """The request and its recipients at one moment; None when there is none."""
    if type(request_id) is not int or not 1 <= request_id <= LARGEST_ID:
        return None
    return state_of((yield Statement(queries(database)["request_state"], {"request_id": request_id})))


def state_of(rows: Sequence[Sequence[Any]]) -> RequestState | None:
    """Return the request that the rows of `request_state` tell of; None when there are none."""
    if not rows:
        return None
    found, tenant, of_type, subject, version, event_id, created_at, status, *_ = rows[0]
    return RequestState(
        id=found,
        tenant=_text(tenant),
        type=_text(of_type),
        subject=_text(subject),
        version=version,
        event_id=event_id,
        created_at=_moment(created_at),
        status=RequestStatus(_text(status)),
        recipients=tuple(_recipient(row[8:]) for row in rows),
    )


def _recipient(row: Sequence[Any]) -> RecipientState:
    destination, sent_to, is_required, delivery_id, status, notified_at, notification_id, code, count = row
    return RecipientState(
        destination=_text(destination),
        sent_to=None if sent_to is None else _text(sent_to),
        is_required=bool(is_required),
        delivery_id=delivery_id,
        status=None if status is None else DeliveryState(_text(status)),
        notified_at=None if notified_at is None else _moment(notified_at),
        notification_id=None if notification_id is None else _text(notification_id),
        final_error_code=None if code is None else _text(code),
        attempt_count=count,
    )


def _text(value: str | bytes) -> str:
    """A caller's SQLite connection may be set up to give texts as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
