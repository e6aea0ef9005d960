"""What goes when its time has come: content, then history, then keys. Every step is one transaction."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed
from sendonce.store.archiving import OF_DELIVERIES, OF_EVENTS, Named, documents, named
from sendonce.store.sqlite.lanes import QUERIES, Lane, Transaction
from sendonce.store.sqlite.times import microseconds, moment
from sendonce.store.upkeep import Archive, Stage, Step, Turn

# A step looks at no more events than have this many deliveries each, taken together.
DELIVERIES_EACH = 4
_YES_OR_NO = ("has_content", "in_doubt")


class Retaining:
    """See `RetentionStore`."""

    _writer: Lane
    _reader: Lane

    async def take_turn(self, part: str, turn: Turn, *, whole: timedelta) -> int | None:
        return await self._writer.run(_take_turn, part, turn, whole)

    async def end_turn(self, part: str, turn: Turn, *, wait: timedelta) -> None:
        await self._writer.run(_end_turn, part, turn, wait)

    async def pass_by(self, stage: Stage, last_id: int) -> None:
        await self._writer.run(Transaction.change, "pass_by", {"part": stage.value, "last_id": last_id})

    async def take_audit(self, turn: Turn) -> datetime | None:
        return await self._writer.run(_take_audit, turn)

    async def keep_audit(self, turn: Turn) -> bool:
        values = {"worker_id": turn.worker_id, "hold": microseconds(turn.hold)}
        return bool(await self._writer.run(Transaction.fetch, "keep_audit", values))

    async def end_audit(self, turn: Turn, *, wait: timedelta) -> None:
        values = {"worker_id": turn.worker_id, "wait": microseconds(wait)}
        await self._writer.run(Transaction.change, "end_audit", values)

    async def retain(
        self,
        stage: Stage,
        after: int,
        *,
        limit: int,
        age: timedelta,
        turn: Turn | None = None,
        archive: Archive | None = None,
    ) -> Step:
        return await self._writer.run(_retain, stage, after, limit, age, turn, archive)

    async def count_old(self, stage: Stage, after: int, *, limit: int, age: timedelta) -> Step:
        return await self._reader.run(_count_old, stage, after, limit, age)

    async def drop_rest(self, *, limit: int, workers: timedelta | None, operations: timedelta | None) -> int:
        return await self._writer.run(_drop_rest, limit, workers, operations)

    async def log_upkeep(
        self, kind: str, *, operator: str, reason: str, subject: str, affected: int, details: str
    ) -> int:
        values = {
            "kind": clean(kind, CODE_LENGTH),
            "operator": clean(operator, MESSAGE_LENGTH),
            "reason": clean(reason, MESSAGE_LENGTH),
            "subject": subject,
            "affected": affected,
            "details": details,
        }
        return await self._writer.run(_log, values)


def check_contents(transaction: Transaction, old_ids: Sequence[int], new_ids: Sequence[int]) -> None:
    """NotAllowed when one of these new generations has nothing to send."""
    for (gone,) in transaction.fetch("without_content", {"delivery_ids": json.dumps(list(new_ids))}):
        old_id = old_ids[new_ids.index(gone)]
        raise NotAllowed(f"the content of delivery {old_id} is no longer kept, so it cannot be sent again")


def change_each(transaction: Transaction, name: str, ids: Sequence[int], **values: object) -> None:
    """Run a query once for each id."""
    transaction.change_many(QUERIES[name], [{"now": transaction.now, "id": each, **values} for each in ids])


def _take_audit(transaction: Transaction, turn: Turn) -> datetime | None:
    values = {"worker_id": turn.worker_id, "hold": microseconds(turn.hold)}
    return moment(transaction.now) if transaction.fetch("take_audit", values) else None


def _take_turn(transaction: Transaction, part: str, turn: Turn, whole: timedelta) -> int | None:
    values = {
        "part": part,
        "worker_id": turn.worker_id,
        "hold": microseconds(turn.hold),
        "whole": microseconds(whole),
    }
    rows = transaction.fetch("take_turn", values)
    return rows[0][0] if rows else None


def _end_turn(transaction: Transaction, part: str, turn: Turn, wait: timedelta) -> None:
    transaction.change("end_turn", {"part": part, "worker_id": turn.worker_id, "wait": microseconds(wait)})


def _retain(
    transaction: Transaction,
    stage: Stage,
    after: int,
    limit: int,
    age: timedelta,
    turn: Turn | None,
    archive: Archive | None,
) -> Step:
    ids = _window(transaction, after, limit, age)
    if not ids or (turn is not None and not _keep(transaction, stage, turn, ids[-1])):
        return Step(None)
    ripe = _ripe(transaction, stage, ids, age)
    deliveries = _remove(transaction, stage, ripe, archive) if ripe else 0
    return Step(ids[-1], len(ripe), deliveries)


def _count_old(transaction: Transaction, stage: Stage, after: int, limit: int, age: timedelta) -> Step:
    ids = _window(transaction, after, limit, age)
    if not ids:
        return Step(None)
    ripe = _ripe(transaction, stage, ids, age)
    deliveries = [] if stage is Stage.PAYLOADS else _ids(transaction, "deliveries_of_events", ripe)
    return Step(ids[-1], len(ripe), len(deliveries))


def _window(transaction: Transaction, after: int, limit: int, age: timedelta) -> list[int]:
    values = {"after": after, "limit": limit, "rows": limit * DELIVERIES_EACH, "age": microseconds(age)}
    return [row[0] for row in transaction.fetch("retention_window", values)]


def _keep(transaction: Transaction, stage: Stage, turn: Turn, last_id: int) -> bool:
    values = {
        "part": stage.value,
        "worker_id": turn.worker_id,
        "hold": microseconds(turn.hold),
        "last_id": last_id,
    }
    return bool(transaction.fetch("keep_turn", values))


def _ripe(transaction: Transaction, stage: Stage, ids: Sequence[int], age: timedelta) -> list[int]:
    values = {"stage": stage.value, "ids": json.dumps(ids), "age": microseconds(age)}
    return [row[0] for row in transaction.fetch("ripe_events", values)]


def _ids(transaction: Transaction, name: str, ids: Sequence[int]) -> list[int]:
    return [row[0] for row in transaction.fetch(name, {"ids": json.dumps(ids)})]


def _remove(transaction: Transaction, stage: Stage, ids: Sequence[int], archive: Archive | None) -> int:
    """Take it away, the archive first; how many deliveries went."""
    deliveries = [] if stage is Stage.PAYLOADS else _ids(transaction, "deliveries_of_events", ids)
    if archive is not None:
        archive(_documents(transaction, stage, ids, deliveries))
    of_events, of_deliveries = {"ids": json.dumps(ids)}, {"ids": json.dumps(deliveries)}
    if stage is Stage.PAYLOADS:
        transaction.fetch("blank_contents", of_events)
        change_each(transaction, "blank_events", ids)
        return 0
    for name in ("count_removed", "delete_attempts", "delete_findings", "delete_dead_letters", "delete_corrections"):
        transaction.change(name, of_deliveries)
    transaction.change("delete_contents", of_events)
    transaction.change("delete_deliveries", of_deliveries)
    if stage is Stage.HISTORY:
        change_each(transaction, "mark_history_gone", ids)
    else:
        requests = {"ids": json.dumps(_ids(transaction, "requests_of_events", ids))}
        for name in ("delete_recipients", "delete_request_keys", "delete_requests"):
            transaction.change(name, requests)
        change_each(transaction, "delete_events", ids)
    return len(deliveries)


def _drop_rest(transaction: Transaction, limit: int, workers: timedelta | None, operations: timedelta | None) -> int:
    dropped = transaction.change("drop_all_ended_secrets", {"limit": limit})
    for name, age in (("drop_old_workers", workers), ("drop_old_operations", operations)):
        if age is not None:
            dropped += transaction.change(name, {"limit": limit, "age": microseconds(age)})
    return dropped


def _log(transaction: Transaction, values: dict[str, object]) -> int:
    return int(transaction.fetch("log_upkeep", values)[0][0])


def _documents(transaction: Transaction, stage: Stage, ids: Sequence[int], delivery_ids: Sequence[int]) -> list[Named]:
    rows = {name: _named(transaction, name, ids) for name in OF_EVENTS}
    rows |= {name: _named(transaction, name, delivery_ids) for name in OF_DELIVERIES}
    return documents(stage, moment(transaction.now), rows)


def _named(transaction: Transaction, name: str, ids: Sequence[int]) -> list[Named]:
    if not ids:
        return []
    cursor = transaction.connection.execute(QUERIES[f"archive_{name}"], {"ids": json.dumps(list(ids))})
    names = [column[0] for column in cursor.description]
    return [named(names, list(map(_value, names, row))) for row in cursor.fetchall()]


def _value(name: str, value: Any) -> Any:
    """A column as PostgreSQL has it."""
    if name.endswith("_at") and value is not None:
        return moment(value)
    return bool(value) if name in _YES_OR_NO else value
