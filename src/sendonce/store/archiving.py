"""What an archive holds: one document for each event, with all of it that is about to go."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from sendonce.store.upkeep import Stage

Named: TypeAlias = dict[str, Any]

FORMAT = 1
# What the queries `archive_…` are asked for, by the ids of events and by those of their deliveries.
OF_EVENTS = ("events", "contents", "requests")
OF_DELIVERIES = ("deliveries", "attempts", "dead_letters", "findings")


def documents(stage: Stage, at: datetime, rows: Mapping[str, Sequence[Named]]) -> list[Named]:
    """Events as an archive keeps them, hashes in hexadecimal digits: `stage` says what is about to go of each."""
    rows = {name: [{key: _spelled(value) for key, value in row.items()} for row in of] for name, of in rows.items()}
    contents, deliveries = _grouped(rows["contents"], "event_id"), _grouped(_whole(rows), "event_id")
    requests = {each["event_id"]: each for each in rows["requests"]}
    return [
        {
            "format": FORMAT,
            "stage": stage.value,
            "archived_at": at,
            "event": event,
            "contents": contents.get(event["id"], []),
            "deliveries": deliveries.get(event["id"], []),
            "request": requests.get(event["id"]),
        }
        for event in rows["events"]
    ]


def _whole(rows: Mapping[str, Sequence[Named]]) -> list[Named]:
    """Deliveries with what belongs to each of them."""
    attempts, findings = _grouped(rows["attempts"], "delivery_id"), _grouped(rows["findings"], "delivery_id")
    dead_letters = {each["delivery_id"]: each for each in rows["dead_letters"]}
    return [
        {
            **each,
            "attempts": attempts.get(each["id"], []),
            "dead_letter": dead_letters.get(each["id"]),
            "findings": findings.get(each["id"], []),
        }
        for each in rows["deliveries"]
    ]


def _grouped(rows: Sequence[Named], name: str) -> Mapping[int, list[Named]]:
    groups: defaultdict[int, list[Named]] = defaultdict(list)
    for row in rows:
        groups[row[name]].append(row)
    return groups


def _spelled(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    return value.hex() if isinstance(value, bytes) else value
