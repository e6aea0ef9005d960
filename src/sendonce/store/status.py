"""The database at a glance: what waits, who works, what is held back, and which database it is."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sendonce.sql.steps import Steps, one, records, rows
from sendonce.store import alerts as alert_verbs
from sendonce.store import parking
from sendonce.store import workers as worker_verbs
from sendonce.store.inbox import inbox_counts
from sendonce.store.migrations import Backfill
from sendonce.store.records import ALIVE, COUNT_CAP, ROOM_CAP, ROOMS_SHOWN, LossRow, Status, StopRow, WorkerRow
from sendonce.store.served import known_served
from sendonce.store.upkeep import Reached


class _Counts(NamedTuple):
    now: datetime
    schema_version: int
    due: int
    oldest_due_at: datetime | None
    scheduled: int
    retrying: int
    in_flight: int
    in_doubt: int
    dead_letters: int
    completed: int


def status() -> Steps[Status]:
    """Count everything once, each along its own index."""
    [counts] = yield from records(_Counts, "status_counts", cap=COUNT_CAP)
    workers = yield from records(WorkerRow, "live_workers", alive=ALIVE)
    stops = yield from records(StopRow, "stops")
    rooms = yield from parking.rooms(after="", limit=ROOMS_SHOWN)
    served = yield from worker_verbs.served(0)
    parked_by = yield from rows("parked_by", cap=COUNT_CAP)
    alerts = yield from alert_verbs.alerts()
    return Status(
        **counts._asdict(),
        workers=tuple(workers),
        stops=tuple(stops),
        rooms=known_served(rooms, served),
        alerts=tuple(each for each in alerts if each.is_raised),
        instance=(yield from instance()),
        loss=(yield from one(LossRow, "open_loss")),
        parked=sum(count for _, count in parked_by),
        inbox=(yield from inbox_counts()),
        parked_by=tuple((cause, count) for cause, count in parked_by),
    )


def instance() -> Steps[str | None]:
    """Return the name of this database, if it has one."""
    found = yield from rows("instance")
    return str(found[0][0]) if found else None


def server() -> Steps[tuple[str, str, str] | None]:
    """Return which server the database is on, and which of its lives: they change with a failover or a restore."""
    found = yield from rows("server")
    return (found[0][0], found[0][1], found[0][2]) if found else None


def backfills() -> Steps[list[Backfill]]:
    """Return how far the back-fill of each migration that has one has come."""
    return [Backfill.read(*row) for row in (yield from rows("backfills"))]


def retention_reached() -> Steps[list[Reached]]:
    """Return how far retention has come, part by part."""
    return records(Reached, "retention_reached")


def waiting_in(rooms: Sequence[str]) -> Steps[dict[str, int]]:
    """Count the deliveries that are parked on each of these, up to ROOM_CAP."""
    return dict((yield from rows("waiting_in", rooms=list(rooms), cap=ROOM_CAP)))
