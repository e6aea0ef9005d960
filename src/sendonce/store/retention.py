"""Retention: what goes when its time has come: content, then history, then keys. Every step is one transaction."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sendonce.sql.steps import Query, Row, Steps, now, rows
from sendonce.store.archiving import OF_DELIVERIES, OF_EVENTS, Named, documents
from sendonce.store.upkeep import Archive, Stage, Step, Turn

# A step looks at no more events than have this many deliveries each, taken together.
DELIVERIES_EACH = 4


def take_turn(part: str, turn: Turn, *, whole: timedelta) -> Steps[int | None]:
    """For one worker, when a pass is due: the event after which to go on. It is 0 when the last pass that began at
    the first event is longer ago than `whole`. None for all others."""
    found = yield from rows("take_turn", part=part, worker_id=turn.worker_id, hold=turn.hold, whole=whole)
    return found[0][0] if found else None


def end_turn(part: str, turn: Turn, *, wait: timedelta) -> Steps[None]:
    """The pass is over; the next one is due after `wait`."""
    yield from rows("end_turn", part=part, worker_id=turn.worker_id, wait=wait)


def pass_by(stage: Stage, last_id: int) -> Steps[None]:
    """A person has gone as far as this event: the workers, and whoever asks how far retention is, need not look at
    what comes before it. Nothing where a worker is at it just now."""
    yield from rows("pass_by", part=stage.value, last_id=last_id)


def take_audit(turn: Turn) -> Steps[datetime | None]:
    """For one worker, when an audit is due: the database's time. None for all others."""
    taken = yield from rows("take_audit", worker_id=turn.worker_id, hold=turn.hold)
    return (yield from now()) if taken else None


def keep_audit(turn: Turn) -> Steps[bool]:
    """Go on with it; False when another worker has taken it over."""
    return bool((yield from rows("keep_audit", worker_id=turn.worker_id, hold=turn.hold)))


def end_audit(turn: Turn, *, wait: timedelta) -> Steps[None]:
    """It is over; the next one is due after `wait`."""
    yield from rows("end_audit", worker_id=turn.worker_id, wait=wait)


def retain(
    stage: Stage,
    after: int,
    *,
    limit: int,
    age: timedelta,
    turn: Turn | None = None,
    archive: Archive | None = None,
) -> Steps[Step]:
    """Look at up to `limit` events with ids above `after`, and take away what ended longer than `age` ago.

    Nothing goes of an event that has an open delivery or an open dead letter. The history of a request goes with
    its event.
    """
    ids = yield from _window(after, limit, age)
    if not ids or (turn is not None and not (yield from _keep(stage, turn, ids[-1]))):
        return Step(None)
    ripe = yield from _ripe(stage, ids, age)
    if ripe:
        # Looked at once more when they are locked: a generation may have been opened in between.
        ripe = yield from _ripe(stage, (yield from _locked(stage, ripe)), age)
    deliveries = (yield from _remove(stage, ripe, archive)) if ripe else 0
    return Step(ids[-1], len(ripe), deliveries)


def count_old(stage: Stage, after: int, *, limit: int, age: timedelta) -> Steps[Step]:
    """The same step, counted only."""
    ids = yield from _window(after, limit, age)
    if not ids:
        return Step(None)
    ripe = yield from _ripe(stage, ids, age)
    deliveries = yield from _deliveries(stage, ripe)
    return Step(ids[-1], len(ripe), len(deliveries))


def drop_rest(*, limit: int, workers: timedelta | None, operations: timedelta | None) -> Steps[int]:
    """Drop secrets that have ended, and rows of workers and of the operations log that old; how many were."""
    dropped = yield from rows("drop_all_ended_secrets", limit=limit)
    for name, age in (("drop_old_workers", workers), ("drop_old_operations", operations)):
        if age is not None:
            dropped += yield from rows(name, limit=limit, age=age)
    return len(dropped)


def _window(after: int, limit: int, age: timedelta) -> Steps[list[int]]:
    return _ids((yield from rows("retention_window", after=after, limit=limit, rows=limit * DELIVERIES_EACH, age=age)))


def _keep(stage: Stage, turn: Turn, last_id: int) -> Steps[bool]:
    kept = yield from rows("keep_turn", part=stage.value, worker_id=turn.worker_id, hold=turn.hold, last_id=last_id)
    return bool(kept)


def _ripe(stage: Stage, ids: Sequence[int], age: timedelta) -> Steps[list[int]]:
    return _ids((yield from rows("ripe_events", stage=stage.value, ids=ids, age=age)))


def _locked(stage: Stage, ids: Sequence[int]) -> Steps[list[int]]:
    """Those of these events that nobody else holds, with their deliveries and requests when these are to go. Waits for
    nobody."""
    if stage is not Stage.PAYLOADS:
        held = {*_ids((yield from rows("held_events", ids=ids))), *_ids((yield from rows("held_requests", ids=ids)))}
        ids = [each for each in ids if each not in held]
    return _ids((yield from rows("lock_events", ids=ids)))


def _deliveries(stage: Stage, ids: Sequence[int]) -> Steps[list[int]]:
    """Those of these events, where they go in this stage."""
    return [] if stage is Stage.PAYLOADS else _ids((yield from rows("deliveries_of_events", ids=ids)))


def _remove(stage: Stage, ids: Sequence[int], archive: Archive | None) -> Steps[int]:
    """Take it away, the archive first; how many deliveries went."""
    deliveries = yield from _deliveries(stage, ids)
    if archive is not None:
        archive((yield from _documents(stage, ids, deliveries)))
    if stage is Stage.PAYLOADS:
        yield from rows("blank_contents", ids=ids)
        yield from rows("blank_events", ids=ids)
        return 0
    for name in ("count_removed", "delete_attempts", "delete_findings", "delete_dead_letters", "delete_corrections"):
        yield from rows(name, ids=deliveries)
    yield from rows("delete_contents", ids=ids)
    yield from rows("delete_deliveries", ids=deliveries)
    if stage is Stage.HISTORY:
        yield from rows("mark_history_gone", ids=ids)
    else:
        yield from _remove_events(ids)
    return len(deliveries)


def _remove_events(ids: Sequence[int]) -> Steps[None]:
    requests = _ids((yield from rows("requests_of_events", ids=ids)))
    if requests:
        for name in ("delete_recipients", "delete_request_keys", "delete_requests"):
            yield from rows(name, ids=requests)
    yield from rows("delete_events", ids=ids)


def _documents(stage: Stage, ids: Sequence[int], deliveries: Sequence[int]) -> Steps[list[Named]]:
    found: dict[str, list[Named]] = {}
    for names, of in ((OF_EVENTS, ids), (OF_DELIVERIES, deliveries)):
        for name in names:
            found[name] = (yield Query(f"archive_{name}", {"ids": of}, dict)) if of else []
    return documents(stage, (yield from now()), found)


def _ids(found: Sequence[Row]) -> list[int]:
    return [row[0] for row in found]
