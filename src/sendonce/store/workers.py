"""Workers: registered, seen alive, gone; what they serve, and the newest claim that one of them has seen committed."""

import json
from collections.abc import Sequence

from sendonce.domain.attempts import Witness
from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.sql.steps import Steps, records, rows
from sendonce.store.records import ALIVE, LATELY, WorkerRow
from sendonce.store.served import served_of


def register(
    name: str,
    version: str,
    concurrency: int,
    *,
    is_listening: bool = False,
    serves: Sequence[str] | None = None,
) -> Steps[int]:
    """Enter a worker: what it serves (None: it does not say), and whether it shows metrics; its id."""
    [[worker_id]] = yield from rows(
        "register",
        name=clean(name, MESSAGE_LENGTH),
        version=clean(version, CODE_LENGTH),
        concurrency=concurrency,
        is_listening=is_listening,
        serves=None if serves is None else json.dumps(list(serves)),
    )
    return int(worker_id)


def served(worker_id: int) -> Steps[dict[str, bool]]:
    """What workers other than this one serve that were seen lately, each with whether one that is alive does."""
    return served_of((yield from rows("served", worker_id=worker_id, alive=ALIVE, lately=LATELY)))


def beat(worker_id: int, *, progressed: bool, witness: Witness | None = None) -> Steps[Witness | None]:
    """Say that this worker is alive, whether it has got something done since the last time, and which claim is the
    newest that it knows of; the newest of those that all workers have said, and that the database has."""
    said = yield from records(
        Witness,
        "beat",
        worker_id=worker_id,
        progressed=progressed,
        claimed_at=witness and witness.at,
        claim=witness and list(witness[:4]),
    )
    newest = said or (yield from records(Witness, "newest_claim"))
    return newest[0] if newest else None


def leave(worker_id: int) -> Steps[None]:
    """Say that this worker has stopped on purpose."""
    yield from rows("leave", worker_id=worker_id)


def live_workers() -> Steps[list[WorkerRow]]:
    """Those that were seen a moment ago and have not stopped."""
    return (yield from records(WorkerRow, "live_workers", alive=ALIVE))


def is_eldest(worker_id: int) -> Steps[bool]:
    """True for the one worker that serves what describes the database: the eldest live one that is listening."""
    return (yield from rows("eldest_worker", alive=ALIVE)) == [(worker_id,)]
