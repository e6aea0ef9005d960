"""Recording on PostgreSQL: one statement for an event or a batch, and one more when a key was there before."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from sendonce.domain.events import NewEvent, patterns_of
from sendonce.outbox.entries import Entry, Order, Recorded, chunks, duplicate, queries, vanished
from sendonce.sql.queries import Statement, Statements, Value, array, in_savepoint

Portion: TypeAlias = Sequence[tuple[int, Entry]]
Kind: TypeAlias = tuple[str, str]


def record(order: Order) -> Statements[list[Recorded]]:
    """Write the entries; what became of each, in order. On an error nothing of them is left to commit."""
    if len(order.entries) == 1:
        return [(yield from _record_one(order.entries[0], order))]
    # In the order of their keys, over all portions, so that two callers cannot wait for each other.
    by_key = sorted(enumerate(order.entries), key=lambda each: _identity(each[1].event))
    portions = list(chunks(by_key))
    steps = _record_portions(portions, order)
    return (yield from (in_savepoint(steps) if len(portions) > 1 else steps))


def _record_one(entry: Entry, order: Order) -> Statements[Recorded]:
    event = entry.event
    values = {
        "version": event.version,
        "content_digest": entry.digest.hex(),
        "tenant": event.tenant,
        "type": event.type,
        "key": event.key,
        "subject": event.subject,
        "payload": event.payload,
        "headers": event.headers,
        "named": len(event.destinations),
        "destination_hashes": array([one.hash.hex() for one in event.destinations]),
        "destinations": array([one.uri for one in event.destinations]),
        "contents": array([one.content for one in event.destinations]),
        "patterns": array(event.patterns),
        "deliver_at": _moment(event.deliver_at),
        "expires_at": _moment(event.expires_at),
        "if_unsure": event.if_unsure,
        "notify": order.notify,
    }
    for event_id, deliveries, _ in (yield Statement(queries("postgres")["record_event"], values)):
        return Recorded(event_id, True, deliveries)
    for _, event_id, is_same in (yield _find([(0, entry)])):
        return duplicate(entry, event_id, is_same=is_same, keep_first=order.keep_first)
    raise vanished(event)


def _record_portions(portions: Sequence[Portion], order: Order) -> Statements[list[Recorded]]:
    found: dict[int, Recorded] = {}
    for portion in portions:
        found |= yield from _record_portion(portion, order)
    return [found[n] for n in range(len(order.entries))]


def _record_portion(portion: Portion, order: Order) -> Statements[dict[int, Recorded]]:
    kinds: dict[Kind, int] = {}
    for _, entry in portion:
        kinds.setdefault(_kind(entry), len(kinds) + 1)
    rows = yield _record_events(portion, kinds, order)
    listening = {kind: count for kind, event_id, _, _, count, _ in rows if event_id is None}
    found: dict[int, Recorded] = {}
    for n, event_id, is_known, is_same, _, _ in rows:
        if event_id is None:
            continue
        entry = order.entries[n]
        if is_known:
            found[n] = duplicate(entry, event_id, is_same=is_same, keep_first=order.keep_first)
        else:
            deliveries = len(entry.event.destinations) + listening.get(kinds[_kind(entry)], 0)
            found[n] = Recorded(event_id, True, deliveries)
    if raced := [(n, entry) for n, entry in portion if n not in found]:
        found |= yield from _read_raced(raced, order)
    return found


def _read_raced(raced: Portion, order: Order) -> Statements[dict[int, Recorded]]:
    """The events whose keys came in from elsewhere while ours were written."""
    found: dict[int, Recorded] = {}
    for n, event_id, is_same in (yield _find(raced)):
        if not is_same and not order.keep_first:
            yield Statement(queries("postgres")["fail_as_conflict"])
        found[n] = Recorded(event_id, False, 0)
    for n, entry in raced:
        if n not in found:
            raise vanished(entry.event)
    return found


def _record_events(portion: Portion, kinds: dict[Kind, int], order: Order) -> Statement:
    events = [entry.event for _, entry in portion]
    routed = [(n, one) for n, entry in portion for one in entry.event.destinations]
    patterns = [
        {"kind": number, "tenant": tenant, "pattern": pattern}
        for (tenant, type), number in kinds.items()
        for pattern in patterns_of(type)
    ]
    values: dict[str, Value] = {
        "numbers": array([n for n, _ in portion]),
        "kind_types": array([type for _, type in kinds]),
        "kind_tenants": array([tenant for tenant, _ in kinds]),
        "kinds": array([kinds[_kind(entry)] for _, entry in portion]),
        "content_digests": array([entry.digest.hex() for _, entry in portion]),
        "keys": array([event.key for event in events]),
        "subjects": array([event.subject for event in events]),
        "versions": array([event.version for event in events]),
        "payloads": array([event.payload for event in events]),
        "headers": array([event.headers for event in events]),
        "named": array([len(event.destinations) for event in events]),
        "deliver_at": array([_moment(event.deliver_at) for event in events]),
        "expires_at": array([_moment(event.expires_at) for event in events]),
        "if_unsure": array([event.if_unsure for event in events]),
        "destination_numbers": array([n for n, _ in routed]),
        "destination_hashes": array([one.hash.hex() for _, one in routed]),
        "destinations": array([one.uri for _, one in routed]),
        "contents": array([one.content for _, one in routed]),
        "patterns": _document(patterns),
        "keep_first": order.keep_first,
        "notify": order.notify,
    }
    return Statement(queries("postgres")["record_events"], values)


def _find(entries: Portion) -> Statement:
    wanted = [
        {
            "n": n,
            "content_digest": entry.digest.hex(),
            "tenant": entry.event.tenant,
            "type": entry.event.type,
            "key": entry.event.key,
        }
        for n, entry in entries
    ]
    return Statement(queries("postgres")["find_events"], {"events": _document(wanted)})


def _kind(entry: Entry) -> Kind:
    return entry.event.tenant, entry.event.type


def _identity(event: NewEvent) -> tuple[str, str, str]:
    return event.key, event.type, event.tenant


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _document(rows: Sequence[object]) -> str:
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
