"""What people look at. Lists walk an index in bounded steps: ids first, then the rows that match."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.errors import StoreBusy, StoreError
from sendonce.sql.steps import Row
from sendonce.store import parking
from sendonce.store import workers as worker_verbs
from sendonce.store.filters import Filter
from sendonce.store.migrations import Backfill
from sendonce.store.postgres.connection import Connections, carry_out
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
from sendonce.store.upkeep import Reached

WINDOW = 10_000
_LAST = 2**63 - 1
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
_END = datetime(9999, 1, 1, tzinfo=UTC)
_ALL = Filter(limit=WINDOW)
Record = TypeVar("Record", EventRow, DeliveryRow, DeadLetterRow)

_LOSS = ("id", "noticed_at", "noticed_by", "ended_at", "ended_by", "upto_id", "marked_id", "doubted")


class Reading(Connections):
    async def status(self) -> Status:
        """See ReadStore."""
        counts = (await self.people.fetch("status_counts", {"cap": COUNT_CAP}))[0]
        workers = await self.people.fetch("live_workers", {"alive": ALIVE.total_seconds()})
        stops = await self.people.fetch("stops", {})
        async with self.people.connection() as connection:
            rooms = await carry_out(connection, parking.rooms(after="", limit=ROOMS_SHOWN))
            served = await carry_out(connection, worker_verbs.served(0))
        parked_by = await self.people.fetch("parked_by", {"cap": COUNT_CAP})
        loss = await self.people.fetch("open_loss", {})
        alerts = [AlertRow(**_named(AlertRow, row)) for row in await self.people.fetch("alerts", {})]
        names = (
            "now", "schema_version", "due", "oldest_due_at", "scheduled", "retrying", "in_flight", "in_doubt",
            "dead_letters", "completed",
        )  # fmt: skip
        return Status(
            **dict(zip(names, counts, strict=True)),
            workers=tuple(WorkerRow(**_named(WorkerRow, row)) for row in workers),
            stops=tuple(StopRow(**_named(StopRow, row)) for row in stops),
            rooms=known_served(rooms, served),
            alerts=tuple(each for each in alerts if each.is_raised),
            instance=await self.instance(),
            loss=LossRow(**dict(zip(_LOSS, loss[0], strict=True))) if loss else None,
            parked=sum(count for _, count in parked_by),
            parked_by=tuple(parked_by),
        )

    async def backfills(self) -> list[Backfill]:
        """See ReadStore."""
        return [Backfill.read(*row) for row in await self.people.fetch("backfills", {})]

    async def retention_reached(self) -> list[Reached]:
        """See ReadStore."""
        return [Reached(*row) for row in await self.people.fetch("retention_reached", {})]

    async def instance(self) -> str | None:
        """See ReadStore."""
        rows = await self.people.fetch("instance", {})
        return str(rows[0][0]) if rows else None

    async def server(self) -> tuple[str, str, str] | None:
        """See ReadStore."""
        try:
            [(system, timeline, started)] = await self.people.fetch("server", {})
        except StoreBusy:
            raise
        except StoreError:
            return None  # some hosted servers tell nobody
        return system, timeline, started

    async def namespace(self) -> str:
        """See ReadStore."""
        return str((await self.people.fetch("namespace", {}))[0][0])

    async def events(self, wanted: Filter) -> list[EventRow]:
        """See ReadStore."""
        found: list[EventRow] = []
        async for ids in self._walk("event_window"):
            found += await self._event_rows(ids, wanted)
            if _is_enough(found, wanted, ids):
                break
            if wanted.since and not await self._event_rows(ids[-1:], Filter(since=wanted.since)):
                break
        return found[: wanted.limit]

    async def event(self, event_id: int) -> EventRow | None:
        """See ReadStore."""
        return _one(await self._event_rows([event_id], _ALL))

    async def events_by_key(self, key: str) -> list[EventRow]:
        """See ReadStore."""
        rows = await self.people.fetch("event_ids_of_key", {"key": key})
        return await self._event_rows([row[0] for row in rows], _ALL)

    async def payload(self, event_id: int) -> str | None:
        """See ReadStore."""
        rows = await self.people.fetch("event_payload", {"event_id": event_id})
        return rows[0][0] if rows else None

    async def deliveries(self, wanted: Filter) -> list[DeliveryRow]:
        """See ReadStore."""
        found: list[DeliveryRow] = []
        async for ids in self._delivery_windows(wanted.status):
            found += await self._delivery_rows(ids, wanted)
            if _is_enough(found, wanted, ids):
                break
            by_age = wanted.since and wanted.status in (None, DeliveryState.COMPLETED)
            if by_age and not await self._delivery_rows(ids[-1:], Filter(since=wanted.since)):
                break
        return found[: wanted.limit]

    async def delivery(self, delivery_id: int) -> DeliveryRow | None:
        """See ReadStore."""
        return _one(await self._delivery_rows([delivery_id], _ALL))

    async def deliveries_of(self, event_id: int) -> list[DeliveryRow]:
        """See ReadStore."""
        rows = await self.people.fetch("delivery_ids_of_event", {"event_id": event_id, "window": WINDOW})
        return sorted(await self._delivery_rows([row[0] for row in rows], _ALL), key=lambda each: each.id)

    async def delivery_by_token(self, token: str) -> DeliveryRow | None:
        """See ReadStore."""
        namespace = await self.namespace()
        async for ids in self._walk("delivery_window"):
            values = {"ids": ids, "namespace": namespace, "token": token}
            for row in await self.people.fetch("delivery_ids_of_token", values):
                return await self.delivery(row[0])
        return None

    async def attempts_of(self, delivery_id: int) -> list[AttemptRow]:
        """See ReadStore."""
        rows = await self.people.fetch("attempts_of", {"delivery_id": delivery_id})
        return [AttemptRow(**_named(AttemptRow, row)) for row in rows]

    async def lease_of(self, delivery_id: int) -> LeaseRow | None:
        """See ReadStore."""
        rows = await self.people.fetch("lease_of", {"delivery_id": delivery_id})
        return LeaseRow(**_named(LeaseRow, rows[0])) if rows else None

    async def findings_of(self, delivery_id: int) -> list[FindingRow]:
        """See ReadStore."""
        rows = await self.people.fetch("findings_of", {"delivery_id": delivery_id})
        return [FindingRow(**_named(FindingRow, row)) for row in rows]

    async def dead_letters(self, wanted: Filter) -> list[DeadLetterRow]:
        """See ReadStore."""
        found: list[DeadLetterRow] = []
        at, last = _END, _LAST
        while True:
            values = {"before_at": at, "before_id": last, "window": WINDOW}
            rows = await self.people.fetch("open_dead_letter_window", values)
            found += await self._dead_letter_rows([row[0] for row in rows], wanted)
            if len(rows) < WINDOW or len(found) >= wanted.limit or (wanted.since and rows[-1][1] < wanted.since):
                return found[: wanted.limit]
            last, at = rows[-1]

    async def dead_letter(self, dead_letter_id: int) -> DeadLetterRow | None:
        """See ReadStore."""
        return _one(await self._dead_letter_rows([dead_letter_id], _ALL))

    async def dead_letter_of(self, delivery_id: int) -> DeadLetterRow | None:
        """See ReadStore."""
        rows = await self.people.fetch("dead_letter_id_of", {"delivery_id": delivery_id})
        return await self.dead_letter(rows[0][0]) if rows else None

    async def waiting_in(self, rooms: Sequence[str]) -> dict[str, int]:
        """See ReadStore."""
        return dict(await self.people.fetch("waiting_in", {"rooms": list(rooms), "cap": ROOM_CAP}))

    async def _walk(self, query: str, column: int = 0, before: int | None = None) -> AsyncIterator[list[int]]:
        """Ids from the newest down, a window at a time."""
        before = _LAST if before is None else before
        while rows := await self.people.fetch(query, {"before": before, "window": WINDOW}):
            yield [row[column] for row in rows]
            before = rows[-1][0]

    async def _delivery_windows(self, status: object) -> AsyncIterator[list[int]]:
        """Where deliveries of this state are to be found without looking at all the others."""
        match status:
            case DeliveryState.IN_PROGRESS:
                rows = await self.people.fetch("in_flight_ids", {"window": COUNT_CAP})
                yield [row[0] for row in rows]
            case DeliveryState.DEAD_LETTERED:
                async for ids in self._walk("dead_letter_window", column=1):
                    yield ids
            case DeliveryState.PENDING | DeliveryState.PENDING_RETRY:
                async for ids in self._open_windows():
                    yield ids
            case _:
                async for ids in self._walk("delivery_window"):
                    yield ids

    async def _open_windows(self) -> AsyncIterator[list[int]]:
        last, at = 0, _BEGINNING
        while rows := await self.people.fetch("due_window", {"after_at": at, "after_id": last, "window": WINDOW}):
            yield [row[0] for row in rows]
            last, at = rows[-1]
        last, on = 0, ""
        while rows := await self.people.fetch("parked_window", {"after_on": on, "after_id": last, "window": WINDOW}):
            yield [row[0] for row in rows]
            last, on = rows[-1]

    async def _event_rows(self, ids: Sequence[int], wanted: Filter) -> list[EventRow]:
        rows = await self.people.fetch("event_rows", _matching(ids, wanted))
        return [EventRow(**_named(EventRow, row)) for row in rows]

    async def _delivery_rows(self, ids: Sequence[int], wanted: Filter) -> list[DeliveryRow]:
        rows = await self.people.fetch("delivery_rows", _matching(ids, wanted))
        named = [_named(DeliveryRow, row) for row in rows]
        return [DeliveryRow(**{**each, "status": DeliveryState(each["status"])}) for each in named]

    async def _dead_letter_rows(self, ids: Sequence[int], wanted: Filter) -> list[DeadLetterRow]:
        values = _matching(ids, wanted)
        rows = await self.people.fetch("dead_letter_rows", values)
        named = [_named(DeadLetterRow, row) for row in rows]
        return [DeadLetterRow(**{**each, "reason": ReasonClass(each["reason"])}) for each in named]


def _matching(ids: Sequence[int], wanted: Filter) -> Mapping[str, object]:
    return {
        "ids": ids,
        "status": None if wanted.status is None else wanted.status.value,
        "type": wanted.type,
        "tenant": wanted.tenant,
        "destination": wanted.destination,
        "since": wanted.since,
        "reason": None if wanted.reason is None else wanted.reason.value,
        "limit": wanted.limit,
    }


def _named(record: type, row: Row) -> dict[str, Any]:
    """The row as keyword arguments: the queries name their columns in the order of the record's fields."""
    return dict(zip(record.__dataclass_fields__, row, strict=True))  # type: ignore[attr-defined]


def _is_enough(found: Sequence[object], wanted: Filter, ids: Sequence[int]) -> bool:
    return len(found) >= wanted.limit or not ids


def _one(rows: list[Record]) -> Record | None:
    return rows[0] if rows else None
