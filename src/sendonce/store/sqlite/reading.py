"""What people look at."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sendonce.store import parking
from sendonce.store import workers as worker_verbs
from sendonce.store.filters import Filter
from sendonce.store.migrations import Backfill
from sendonce.store.records import (
    ALIVE,
    COUNT_CAP,
    ROOM_CAP,
    ROOMS_SHOWN,
    AlertRow,
    AttemptRow,
    DeadLetterRow,
    DeliveryRow,
    EventRow,
    FindingRow,
    LeaseRow,
    LossRow,
    Status,
    StopRow,
    WorkerRow,
)
from sendonce.store.served import known_served
from sendonce.store.sqlite import lists
from sendonce.store.sqlite.connection import OwnConnection, Transaction, microseconds, moment
from sendonce.store.sqlite.rows import record
from sendonce.store.upkeep import Reached

Record = TypeVar("Record")


class Reading:
    """See `ReadStore`."""

    _reader: OwnConnection

    async def status(self) -> Status:
        return await self._reader.run(_status)

    async def backfills(self) -> list[Backfill]:
        return [Backfill.read(*row) for row in await self._reader.run(Transaction.fetch, "backfills")]

    async def retention_reached(self) -> list[Reached]:
        return [record(Reached, row) for row in await self._reader.run(Transaction.fetch, "retention_reached")]

    async def instance(self) -> str | None:
        rows = await self._reader.run(Transaction.fetch, "instance")
        return str(rows[0][0]) if rows else None

    async def server(self) -> tuple[str, str, str] | None:
        return None

    async def namespace(self) -> str:
        return str((await self._reader.run(Transaction.fetch, "namespace"))[0][0])

    async def events(self, wanted: Filter) -> list[EventRow]:
        return await self._reader.run(lists.events, wanted)

    async def event(self, event_id: int) -> EventRow | None:
        return _first(await self._reader.run(lists.event_rows, [event_id], lists.ALL))

    async def events_by_key(self, key: str) -> list[EventRow]:
        return await self._reader.run(_by_ids(lists.event_rows, "event_ids_of_key"), {"key": key})

    async def payload(self, event_id: int) -> str | None:
        rows = await self._reader.run(Transaction.fetch, "event_payload", {"event_id": event_id})
        return rows[0][0] if rows else None

    async def deliveries(self, wanted: Filter) -> list[DeliveryRow]:
        return await self._reader.run(lists.deliveries, wanted)

    async def delivery(self, delivery_id: int) -> DeliveryRow | None:
        return _first(await self._reader.run(lists.delivery_rows, [delivery_id], lists.ALL))

    async def deliveries_of(self, event_id: int) -> list[DeliveryRow]:
        values = {"event_id": event_id, "window": lists.WINDOW}
        rows = await self._reader.run(_by_ids(lists.delivery_rows, "delivery_ids_of_event"), values)
        return rows[::-1]

    async def delivery_by_token(self, token: str) -> DeliveryRow | None:
        return await self._reader.run(lists.delivery_by_token, token)

    async def attempts_of(self, delivery_id: int) -> list[AttemptRow]:
        return await self._records(AttemptRow, "attempts_of", delivery_id)

    async def lease_of(self, delivery_id: int) -> LeaseRow | None:
        return _first(await self._records(LeaseRow, "lease_of", delivery_id))

    async def findings_of(self, delivery_id: int) -> list[FindingRow]:
        return await self._records(FindingRow, "findings_of", delivery_id)

    async def dead_letters(self, wanted: Filter) -> list[DeadLetterRow]:
        return await self._reader.run(lists.dead_letters, wanted)

    async def dead_letter(self, dead_letter_id: int) -> DeadLetterRow | None:
        return _first(await self._reader.run(lists.dead_letter_rows, [dead_letter_id], lists.ALL))

    async def dead_letter_of(self, delivery_id: int) -> DeadLetterRow | None:
        values = {"delivery_id": delivery_id}
        return _first(await self._reader.run(_by_ids(lists.dead_letter_rows, "dead_letter_id_of"), values))

    async def waiting_in(self, rooms: Sequence[str]) -> dict[str, int]:
        values = {"rooms": json.dumps(list(rooms)), "cap": ROOM_CAP}
        return dict(await self._reader.run(Transaction.fetch, "waiting_in", values))

    async def _records(self, kind: type[Record], query: str, delivery_id: int) -> list[Record]:
        rows = await self._reader.run(Transaction.fetch, query, {"delivery_id": delivery_id})
        return [record(kind, row) for row in rows]


def _status(transaction: Transaction) -> Status:
    version, due, oldest, *counts = transaction.fetch("status_counts", {"cap": COUNT_CAP})[0]
    names = ("scheduled", "retrying", "in_flight", "in_doubt", "dead_letters", "completed")
    alerts = [record(AlertRow, row) for row in transaction.fetch("alerts")]
    parked_by = transaction.fetch("parked_by", {"cap": COUNT_CAP})
    workers = transaction.fetch("live_workers", {"alive": microseconds(ALIVE)})
    return Status(
        now=moment(transaction.now),
        schema_version=version,
        due=due,
        oldest_due_at=None if oldest is None else moment(oldest),
        **dict(zip(names, counts, strict=True)),
        workers=tuple(record(WorkerRow, row) for row in workers),
        stops=tuple(record(StopRow, row) for row in transaction.fetch("stops")),
        rooms=known_served(
            transaction.carry_out(parking.rooms(after="", limit=ROOMS_SHOWN)),
            transaction.carry_out(worker_verbs.served(0)),
        ),
        alerts=tuple(each for each in alerts if each.is_raised),
        instance=next((name for (name,) in transaction.fetch("instance")), None),
        loss=next((record(LossRow, row) for row in transaction.fetch("open_loss")), None),
        parked=sum(count for _, count in parked_by),
        parked_by=tuple((cause, count) for cause, count in parked_by),
    )


def _by_ids(
    rows_of: Callable[[Transaction, list[int], Filter], list[Record]], query: str
) -> Callable[[Transaction, Mapping[str, object]], list[Record]]:
    """The rows whose ids a query finds, newest first."""

    def read(transaction: Transaction, values: Mapping[str, object]) -> list[Record]:
        return rows_of(transaction, [row[0] for row in transaction.fetch(query, values)], lists.ALL)

    return read


def _first(rows: list[Record]) -> Record | None:
    return rows[0] if rows else None
