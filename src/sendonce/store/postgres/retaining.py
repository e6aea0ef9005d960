"""What goes when its time has come: content, then history, then keys. Every step is one transaction."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.errors import NotAllowed
from sendonce.store.archiving import OF_DELIVERIES, OF_EVENTS, Named, documents, named
from sendonce.store.postgres.lanes import QUERIES, Connection, Lanes, fetch
from sendonce.store.upkeep import Archive, Stage, Step, Turn

# A step looks at no more events than have this many deliveries each, taken together.
DELIVERIES_EACH = 4


class Retaining(Lanes):
    """See `RetentionStore`. On a connection of its own, which is closed between the passes."""

    async def take_turn(self, part: str, turn: Turn, *, whole: timedelta) -> int | None:
        """See RetentionStore."""
        values = {
            "part": part,
            "worker_id": turn.worker_id,
            "hold": turn.hold.total_seconds(),
            "whole": whole.total_seconds(),
        }
        rows = await self.upkeep.fetch("take_turn", values)
        if not rows:
            await self.upkeep.close()
        return rows[0][0] if rows else None

    async def end_turn(self, part: str, turn: Turn, *, wait: timedelta) -> None:
        """See RetentionStore."""
        values = {"part": part, "worker_id": turn.worker_id, "wait": wait.total_seconds()}
        await self.upkeep.fetch("end_turn", values)
        await self.upkeep.close()

    async def pass_by(self, stage: Stage, last_id: int) -> None:
        """See RetentionStore."""
        await self.upkeep.fetch("pass_by", {"part": stage.value, "last_id": last_id})

    async def take_audit(self, turn: Turn) -> datetime | None:
        """See AuditStore."""
        rows = await self.people.fetch("take_audit", {"worker_id": turn.worker_id, "hold": turn.hold.total_seconds()})
        return rows[0][0] if rows else None

    async def keep_audit(self, turn: Turn) -> bool:
        """See AuditStore."""
        values = {"worker_id": turn.worker_id, "hold": turn.hold.total_seconds()}
        return bool(await self.people.fetch("keep_audit", values))

    async def end_audit(self, turn: Turn, *, wait: timedelta) -> None:
        """See AuditStore."""
        await self.people.fetch("end_audit", {"worker_id": turn.worker_id, "wait": wait.total_seconds()})

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
        """See RetentionStore."""
        async with self.upkeep.transaction() as connection:
            ids = await _window(connection, after, limit, age)
            if not ids or (turn is not None and not await _keep(connection, stage, turn, ids[-1])):
                return Step(None)
            ripe = await _ripe(connection, stage, ids, age)
            if ripe:
                # Looked at once more when they are locked: a generation may have been opened in between.
                ripe = await _ripe(connection, stage, await _locked(connection, stage, ripe), age)
            deliveries = await _remove(connection, stage, ripe, archive) if ripe else 0
            return Step(ids[-1], len(ripe), deliveries)

    async def count_old(self, stage: Stage, after: int, *, limit: int, age: timedelta) -> Step:
        """See RetentionStore."""
        async with self.upkeep.transaction() as connection:
            ids = await _window(connection, after, limit, age)
            if not ids:
                return Step(None)
            ripe = await _ripe(connection, stage, ids, age)
            deliveries = 0
            if stage is not Stage.PAYLOADS:
                deliveries = len(await fetch(connection, "deliveries_of_events", {"ids": ripe}))
            return Step(ids[-1], len(ripe), deliveries)

    async def drop_rest(self, *, limit: int, workers: timedelta | None, operations: timedelta | None) -> int:
        """See RetentionStore."""
        ages = {"drop_old_workers": workers, "drop_old_operations": operations}
        async with self.upkeep.transaction() as connection:
            dropped = int((await fetch(connection, "drop_all_ended_secrets", {"limit": limit}))[0][0])
            for name, age in ages.items():
                if age is not None:
                    values = {"limit": limit, "age": age.total_seconds()}
                    dropped += int((await fetch(connection, name, values))[0][0])
            return dropped

    async def log_upkeep(
        self, kind: str, *, operator: str, reason: str, subject: str, affected: int, details: str
    ) -> int:
        """See RetentionStore."""
        values = {
            "kind": clean(kind, CODE_LENGTH),
            "operator": clean(operator, MESSAGE_LENGTH),
            "reason": clean(reason, MESSAGE_LENGTH),
            "subject": subject,
            "affected": affected,
            "details": details,
        }
        return int((await self.upkeep.fetch("log_upkeep", values))[0][0])


async def check_contents(connection: Connection, old_ids: Sequence[int], new_ids: Sequence[int]) -> None:
    """NotAllowed when one of these new generations has nothing to send: by now retention cannot take it away."""
    for (gone,) in await fetch(connection, "without_content", {"delivery_ids": list(new_ids)}):
        old_id = old_ids[new_ids.index(gone)]
        raise NotAllowed(f"the content of delivery {old_id} is no longer kept, so it cannot be sent again")


async def _window(connection: Connection, after: int, limit: int, age: timedelta) -> list[int]:
    values = {"after": after, "limit": limit, "rows": limit * DELIVERIES_EACH, "age": age.total_seconds()}
    return [row[0] for row in await fetch(connection, "retention_window", values)]


async def _keep(connection: Connection, stage: Stage, turn: Turn, last_id: int) -> bool:
    values = {
        "part": stage.value,
        "worker_id": turn.worker_id,
        "hold": turn.hold.total_seconds(),
        "last_id": last_id,
    }
    return bool(await fetch(connection, "keep_turn", values))


async def _ripe(connection: Connection, stage: Stage, ids: Sequence[int], age: timedelta) -> list[int]:
    values = {"stage": stage.value, "ids": list(ids), "age": age.total_seconds()}
    return [row[0] for row in await fetch(connection, "ripe_events", values)]


async def _locked(connection: Connection, stage: Stage, ids: Sequence[int]) -> list[int]:
    """Those of these events that nobody else holds, with their deliveries and requests when these are to go. Waits for
    nobody."""
    if stage is not Stage.PAYLOADS:
        held = {row[0] for row in await fetch(connection, "held_events", {"ids": list(ids)})}
        held |= {row[0] for row in await fetch(connection, "held_requests", {"ids": list(ids)})}
        ids = [each for each in ids if each not in held]
    return [row[0] for row in await fetch(connection, "lock_events", {"ids": list(ids)})]


async def _remove(connection: Connection, stage: Stage, ids: Sequence[int], archive: Archive | None) -> int:
    """Take it away, the archive first; how many deliveries went."""
    deliveries: list[int] = []
    if stage is not Stage.PAYLOADS:
        rows = await fetch(connection, "deliveries_of_events", {"ids": list(ids)})
        deliveries = [row[0] for row in rows]
    if archive is not None:
        archive(await _documents(connection, stage, ids, deliveries))
    if stage is Stage.PAYLOADS:
        await fetch(connection, "blank_contents", {"ids": list(ids)})
        await fetch(connection, "blank_events", {"ids": list(ids)})
        return 0
    for name in ("count_removed", "delete_attempts", "delete_findings", "delete_dead_letters", "delete_corrections"):
        await fetch(connection, name, {"ids": deliveries})
    await fetch(connection, "delete_contents", {"ids": list(ids)})
    await fetch(connection, "delete_deliveries", {"ids": deliveries})
    if stage is Stage.HISTORY:
        await fetch(connection, "mark_history_gone", {"ids": list(ids)})
    else:
        await _remove_events(connection, ids)
    return len(deliveries)


async def _remove_events(connection: Connection, ids: Sequence[int]) -> None:
    requests = [row[0] for row in await fetch(connection, "requests_of_events", {"ids": list(ids)})]
    if requests:
        for name in ("delete_recipients", "delete_request_keys", "delete_requests"):
            await fetch(connection, name, {"ids": requests})
    await fetch(connection, "delete_events", {"ids": list(ids)})


async def _documents(
    connection: Connection, stage: Stage, ids: Sequence[int], delivery_ids: Sequence[int]
) -> list[Named]:
    rows = {name: await _named(connection, name, ids) for name in OF_EVENTS}
    rows |= {name: await _named(connection, name, delivery_ids) for name in OF_DELIVERIES}
    return documents(stage, datetime.now(UTC), rows)


async def _named(connection: Connection, name: str, ids: Sequence[int]) -> list[Named]:
    if not ids:
        return []
    cursor = await connection.execute(QUERIES[f"archive_{name}"], {"ids": list(ids)})
    names = [column.name for column in cursor.description or ()]
    return [named(names, row) for row in await cursor.fetchall()]
