"""Remove at once what retention would remove in its own time, and archive it first if asked."""

import gzip
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from sendonce.admin.text import plain
from sendonce.domain.durations import format_duration
from sendonce.engine.retention import RetentionSettings
from sendonce.errors import ConfigError, SendonceError
from sendonce.store.upkeep import Archive, RetentionStore, Stage


class ArchiveFile:
    """A new file that only its owner may read. Compressed when its name ends in .gz, each step by itself, so that a
    crash spoils no more than the last one."""

    def __init__(self, path: Path) -> None:
        self._is_compressed = path.suffix == ".gz"
        self._file = _new(path)
        self.documents = 0

    def write(self, documents: Sequence[Mapping[str, object]]) -> None:
        """Write a step; when this returns it is on the disk."""
        lines = "".join(f"{json.dumps(plain(each), ensure_ascii=False)}\n" for each in documents).encode()
        try:
            self._file.write(gzip.compress(lines) if self._is_compressed else lines)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            said = error.strerror or type(error).__name__
            raise SendonceError(f"the archive cannot be written ({said}); what was to go next is still there") from None
        self.documents += len(documents)

    def close(self) -> None:
        self._file.close()


def _new(path: Path) -> BinaryIO:
    try:
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        folder = os.open(path.parent, os.O_RDONLY)
    except FileExistsError:
        raise ConfigError(f"{path} is there already; name a new file, nothing is added to an old archive") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror or type(error).__name__})") from None
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return file


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan:
    """How long after its end each thing goes, and how long workers and the operations log are remembered. `about` is
    that in words, for the operations log."""

    about: str
    ages: Mapping[Stage, timedelta]
    workers: timedelta | None = None
    operations: timedelta | None = None
    inbox: timedelta | None = None
    batch: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneProgress:
    """What has gone so far, and up to which event was looked in this stage. `events`: those deleted, key and all."""

    stage: Stage | None = None
    last_id: int = 0
    contents: int = 0
    deliveries: int = 0
    events: int = 0
    rest: int = 0
    archived: int = 0


def plan_of(settings: RetentionSettings) -> PrunePlan:
    """Return what the settings of retention say."""
    return PrunePlan(
        about=about(settings),
        ages=settings.stages,
        workers=settings.workers,
        operations=settings.operations,
        inbox=settings.inbox.keep,
        batch=settings.batch,
    )


def about(settings: RetentionSettings) -> str:
    """payloads 30d, history 90d, keys never."""
    ages = {"payloads": settings.payloads, "history": settings.history, "keys": settings.keys}
    return ", ".join(f"{name} {'never' if age is None else format_duration(age)}" for name, age in ages.items())


async def prune(
    store: RetentionStore, plan: PrunePlan, *, operator: str, reason: str, archive: Archive | None = None
) -> AsyncGenerator[PruneProgress, None]:
    """Remove what is old enough, in steps; how far it has come after each. Logged, also when interrupted."""
    done = PruneProgress()
    try:
        async for done in _steps(store, plan, archive, acts=True):
            yield done
        while step := await store.drop_rest(limit=plan.batch, workers=plan.workers, operations=plan.operations):
            done = _with(done, rest=done.rest + step)
            yield done
        while step := await store.drop_inbox(limit=plan.batch, keep=plan.inbox, contents=plan.ages.get(Stage.PAYLOADS)):
            done = _with(done, rest=done.rest + step)
            yield done
    finally:
        counts = {"contents": done.contents, "deliveries": done.deliveries, "events": done.events, "rest": done.rest}
        await store.log_upkeep(
            "prune",
            operator=operator,
            reason=reason,
            subject=plan.about,
            affected=sum(counts.values()),
            details=json.dumps(counts),
        )


def count(store: RetentionStore, plan: PrunePlan) -> AsyncGenerator[PruneProgress, None]:
    """Count what `prune` would remove. What would lose its history and then its key is counted for both."""
    return _steps(store, plan, None, acts=False)


async def _steps(
    store: RetentionStore, plan: PrunePlan, archive: Archive | None, *, acts: bool
) -> AsyncGenerator[PruneProgress, None]:
    done = PruneProgress()
    for stage, age in plan.ages.items():
        after: int | None = 0
        while after is not None:
            if acts:
                step = await store.retain(stage, after, limit=plan.batch, age=age, archive=archive)
            else:
                step = await store.count_old(stage, after, limit=plan.batch, age=age)
            after = step.last_id
            if after is None:
                break
            done = PruneProgress(
                stage=stage,
                last_id=after,
                contents=done.contents + (step.events if stage is Stage.PAYLOADS else 0),
                deliveries=done.deliveries + step.deliveries,
                events=done.events + (step.events if stage is Stage.KEYS else 0),
            )
            yield done
        if acts and done.stage is stage:
            await store.pass_by(stage, done.last_id)


def _with(done: PruneProgress, *, rest: int) -> PruneProgress:
    return PruneProgress(contents=done.contents, deliveries=done.deliveries, events=done.events, rest=rest)
