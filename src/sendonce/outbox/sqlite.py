"""Recording on SQLite, which has no writable CTE: a few statements in one savepoint, batches as JSON."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from sendonce.domain.destinations import destination_hash
from sendonce.outbox.entries import Entry, Order, Recorded, chunks, duplicate, queries, vanished
from sendonce.sql.queries import Statement, Statements, Value, in_savepoint

Portion: TypeAlias = Sequence[tuple[int, Entry]]
Listening: TypeAlias = dict[tuple[str, str], list[int]]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record(order: Order) -> Statements[list[Recorded]]:
    """Write the entries; what became of each, in order. On an error nothing of them is left to commit."""
    return in_savepoint(_record(order))


def _record(order: Order) -> Statements[list[Recorded]]:
    now = time.time_ns() // 1000
    found: dict[int, Recorded] = {}
    yield Statement(queries("sqlite")["wait_for_turn"])
    for portion in chunks(enumerate(order.entries)):
        listening = yield from _find_subscriptions(portion)
        fresh = yield from _insert_events(portion, listening, order, found, now)
        if fresh:
            yield from _insert_deliveries(fresh, listening, found, now)
    return [found[n] for n in range(len(order.entries))]


def _insert_events(
    portion: Portion, listening: Listening, order: Order, found: dict[int, Recorded], now: int
) -> Statements[Portion]:
    """Write the events whose key is new, and enter what became of each; those that were new."""
    values: dict[str, Value] = {
        "events": _document(
            [
                [
                    event.version,
                    event.tenant,
                    event.type,
                    event.key,
                    event.subject,
                    event.payload,
                    event.headers,
                    len(event.destinations) + len(listening.get((event.tenant, event.type), [])),
                ]
                for event, _ in (entry for _, entry in portion)
            ]
        ),
        "content_digests": b"".join(entry.digest for _, entry in portion),
        "now": now,
    }
    new_ids = {event_id for (event_id,) in (yield Statement(queries("sqlite")["insert_events"], values))}
    if len(portion) == len(new_ids) == 1:
        found[portion[0][0]] = Recorded(new_ids.pop(), True, 0)
        return portion
    wanted = {"events": values["events"]}
    for place, event_id, content_digest in (yield Statement(queries("sqlite")["find_events"], wanted)):
        n, entry = portion[place]
        if event_id in new_ids:
            found[n] = Recorded(event_id, True, 0)
        else:
            is_same = content_digest == entry.digest
            found[n] = duplicate(entry, event_id, is_same=is_same, keep_first=order.keep_first)
    for n, entry in portion:
        if n not in found:
            raise vanished(entry.event)
    return [(n, entry) for n, entry in portion if found[n].is_new]


def _insert_deliveries(fresh: Portion, listening: Listening, found: dict[int, Recorded], now: int) -> Statements[None]:
    deliveries: list[list[object]] = []
    contents: list[list[object]] = []
    hashes: list[bytes] = []
    content_hashes: list[bytes] = []
    for n, (event, _) in fresh:
        event_id = found[n].event_id
        times = [_microseconds(event.deliver_at), _microseconds(event.expires_at)]
        for one in event.destinations:
            hashes.append(one.hash)
            deliveries.append([event_id, None, *times, int(one.content is not None), one.uri, event.if_unsure])
            if one.content is not None:
                content_hashes.append(one.hash)
                contents.append([event_id, one.content])
        matching = listening.get((event.tenant, event.type), [])
        for subscription_id in matching:
            uri = f"subscription:{subscription_id}"
            hashes.append(destination_hash(uri))
            deliveries.append([event_id, subscription_id, *times, 0, uri, event.if_unsure])
        found[n] = Recorded(event_id, True, len(event.destinations) + len(matching))
    if contents:
        values: dict[str, Value] = {"contents": _document(contents), "destination_hashes": b"".join(content_hashes)}
        yield Statement(queries("sqlite")["insert_contents"], values)
    if deliveries:
        rows: dict[str, Value] = {
            "deliveries": _document(deliveries),
            "destination_hashes": b"".join(hashes),
            "now": now,
        }
        yield Statement(queries("sqlite")["insert_deliveries"], rows)


def _find_subscriptions(portion: Portion) -> Statements[Listening]:
    """The subscriptions that listen, by the tenant and type of the events."""
    kinds = list({(entry.event.tenant, entry.event.type): entry.event.patterns for _, entry in portion}.items())
    patterns = [[place, tenant, pattern] for place, ((tenant, _), matching) in enumerate(kinds) for pattern in matching]
    rows = yield Statement(queries("sqlite")["find_subscriptions"], {"patterns": _document(patterns)})
    listening: Listening = {}
    for place, subscription_id in rows:
        listening.setdefault(kinds[place][0], []).append(subscription_id)
    return listening


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _document(rows: Sequence[object]) -> str:
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
