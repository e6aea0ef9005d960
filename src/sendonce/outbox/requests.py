"""Requests in the caller's transaction: one version of a subject to its recipients, and its state."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.destinations import named
from sendonce.domain.events import UNIQUE, Key, To, render_key
from sendonce.domain.policies import IfUnsure
from sendonce.domain.requests import (
    Existing,
    NewRequest,
    RecipientState,
    RequestState,
    RequestStatus,
    There,
    event_key,
    rule,
)
from sendonce.domain.texts import digest
from sendonce.errors import BadEvent, KeyReused, StoreBusy
from sendonce.outbox import postgres, sqlite
from sendonce.outbox.entries import Draft, Entry, Order, Recorded, queries, render
from sendonce.sql.queries import Database, Rows, Statement, Statements, Value, array, in_savepoint

LARGEST_ID = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# How events are recorded, by the kind of database.
RECORD: dict[Database, Callable[[Order], Statements[list[Recorded]]]] = {
    "postgres": postgres.record,
    "sqlite": sqlite.record,
}


class Requested(NamedTuple):
    """The request's id and its event's, and whether it was there before."""

    request_id: int
    event_id: int
    duplicate: bool


class RequestDraft(NamedTuple):
    """A request as the caller writes it down, before it is checked and rendered."""

    type: str
    payload: object
    key: Key
    subject: str
    version: int
    required: To
    optional: To
    rerun: bool
    tenant: str
    headers: Mapping[str, str] | None
    expires_at: datetime | None
    if_unsure: IfUnsure | str | None


def checked(asked: RequestDraft, largest_payload: int, most_destinations: int) -> NewRequest:
    """The request, checked and rendered; BadEvent or BadDestination says what to change."""
    subject, version = event_key(asked.subject, asked.version)
    if asked.key is UNIQUE:
        raise BadEvent("a request needs a key of its own: with sendonce.UNIQUE nobody could ask for it again")
    if type(asked.rerun) is not bool:
        raise BadEvent(f"rerun must be True or False, not {asked.rerun!r}")
    required, optional = named(asked.required), named(asked.optional)
    if not required:
        raise BadEvent("a request needs at least one required recipient: its status goes by them")
    event = render(
        Draft(
            asked.type,
            asked.payload,
            key=(subject, version),
            to=[*required, *optional],
            tenant=asked.tenant,
            subject=subject,
            version=version,
            headers=asked.headers,
            expires_at=asked.expires_at,
            if_unsure=asked.if_unsure,
        ),
        largest_payload,
        most_destinations,
    )
    if len(event.destinations) < len(required) + len(optional):
        raise BadEvent("a recipient is named twice; name each once, as required or as optional")
    return NewRequest(event, render_key(asked.key), len(required), asked.rerun, subject, version)


class RequestOrder(NamedTuple):
    """A request to record, and how. `keep_first`: a key or a version used for different content is no error."""

    request: NewRequest
    keep_first: bool
    notify: bool

    def steps(self, database: Database) -> Statements[Requested]:
        """Write it, or find the one that is there. On an error nothing of it is left to commit."""
        steps = _request(self, database)
        return in_savepoint(steps) if database == "sqlite" else steps


def _request(order: RequestOrder, database: Database) -> Statements[Requested]:
    wanted = order.request
    sql, values = queries(database), _VALUES[database](wanted)
    yield Statement(sql["wait_for_turn"], values if database == "postgres" else {})
    there = _there((yield Statement(sql["find_request"], values)))
    known, remember, run = rule(wanted, there, keep_first=order.keep_first)
    if known is not None:
        values["request_id"] = known.request_id
        if remember and not (yield Statement(sql["add_request_key"], values)):
            raise StoreBusy(f"the key {wanted.key!r} of {wanted.event.type} was taken while we looked; try again")
        return Requested(known.request_id, known.event_id, True)
    entry = Entry(wanted.event, wanted.event.content_digest)
    [recorded] = yield from RECORD[database](Order([entry], True, order.notify))
    if not recorded.is_new:
        raise KeyReused(
            f"an event of {wanted.event.type} was published with the key {wanted.event.key!r}, which a request for"
            " this subject and version needs; ask for another version, or use a type of their own for requests"
        )
    values |= {"event_id": recorded.event_id, "run": run}
    ((request_id,),) = yield Statement(sql["add_request"], values)
    if database == "sqlite":
        values["request_id"] = request_id
        yield Statement(sql["add_request_key"], values)
        yield Statement(sql["add_recipients"], values)
    return Requested(request_id, recorded.event_id, False)


def _there(rows: Rows) -> There:
    found = {
        how: Existing(request_id, event_id, version, run, bool(is_same))
        for how, request_id, event_id, version, run, is_same in rows
    }
    return There(*(found.get(how) for how in range(3)))


def _common(wanted: NewRequest) -> dict[str, Value]:
    return {
        "key": wanted.key,
        "type": wanted.event.type,
        "tenant": wanted.event.tenant,
        "subject": wanted.subject,
        "version": wanted.version,
        "required": wanted.required,
    }


def _postgres_values(wanted: NewRequest) -> dict[str, Value]:
    kind = (wanted.event.tenant, wanted.event.type)
    return _common(wanted) | {
        "key_lock": _lock("sendonce request key", *kind, wanted.key),
        "subject_lock": _lock("sendonce request subject", *kind, wanted.subject),
        "content_digest": wanted.content_digest.hex(),
        "destination_hashes": array([one.hash.hex() for one in wanted.event.destinations]),
        "destinations": array([one.uri for one in wanted.event.destinations]),
    }


def _sqlite_values(wanted: NewRequest) -> dict[str, Value]:
    return _common(wanted) | {
        "now": time.time_ns() // 1000,
        "content_digest": wanted.content_digest,
        "destination_hashes": b"".join(one.hash for one in wanted.event.destinations),
        "destinations": json.dumps([one.uri for one in wanted.event.destinations], ensure_ascii=False),
    }


def _lock(*parts: str) -> int:
    return int.from_bytes(digest(*parts)[:8], signed=True)


_VALUES: dict[Database, Callable[[NewRequest], dict[str, Value]]] = {
    "postgres": _postgres_values,
    "sqlite": _sqlite_values,
}


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
