"""Numbered migrations, what each fills in afterwards, and which schema this program can run on."""

import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple, Self, TypeAlias

from sendonce.checkpoints import checkpoint
from sendonce.errors import SchemaMismatch
from sendonce.sql.queries import split
from sendonce.sql.steps import Steps, rows

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_STATE = re.compile(r"(\d+)/(\d+)")
# What is filled in by one transaction. Between two of them others have at least as long as one took.
BACKFILL_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Migration:
    """One file NNNN_name.sql. What has to be filled in afterwards is beside it, as named queries in
    NNNN_name.backfill.sql:

    bound     the highest id there is
    late      whether an older program has left something to fill in above `:bound`
    upto      the highest of the next `:rows` ids above `:after`, up to `:bound`; null when there are none
    fill      fill in what is not yet, above `:after` and up to `:upto`
    hold      PostgreSQL only: keep writers out, so that nothing below the bound is still to be committed
    """

    number: int
    name: str
    sql: str
    backfill: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The name in sendonce_meta under which it is written how far the back-fill has come."""
        return f"backfill:{self.name}"

    @property
    def closed(self) -> str:
        """The name in sendonce_meta that is there when no older program can leave anything to fill in any more."""
        return f"closed:{self.name}"


@dataclass(frozen=True, slots=True)
class Backfill:
    """How far the back-fill of a migration has come: up to and with the row `done`, of those up to `bound`."""

    migration: str
    done: int
    bound: int

    @property
    def is_finished(self) -> bool:
        return self.done >= self.bound

    @property
    def value(self) -> str:
        """As it is written in sendonce_meta."""
        return f"{self.done}/{self.bound}"

    @classmethod
    def read(cls, name: str, value: str) -> Self:
        """From a row of sendonce_meta."""
        found = _STATE.fullmatch(value)
        if found is None:
            raise SchemaMismatch(f"sendonce_meta has a row {name} that this program cannot read; install a newer one")
        return cls(name.removeprefix("backfill:"), int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class Waiting:
    """Somebody's transaction holds this table, which is needed: by the pid of its session where it has one.

    Neither is known when it has just ended, or holds something else.
    """

    pid: int | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class Applying:
    """All of these have run, and are about to be committed."""

    names: tuple[str, ...]


News: TypeAlias = Backfill | Waiting | Applying
Told: TypeAlias = Callable[[News], None]
"""Called while somebody is waited for, before the tables' change is committed, and after each step of a back-fill."""


def silent(_: News) -> None:
    return None


class Work(NamedTuple):
    """One transaction of a back-fill, begun anew when it has to be tried again; also in the migration's own queries."""

    migration: Migration
    steps: Callable[[], Steps[Any]]
    only_reads: bool = False


# A transaction, or how long others have the database for themselves.
Backfilling: TypeAlias = Generator[Work | timedelta, Any, None]


def backfill(migrations: Sequence[Migration], told: Told, *, late: bool) -> Backfilling:
    """Fill in what every migration needs, from where the last run came to. Two at once share the work.

    `late`: also what programs of the version before have written since the migration. Under the next schema they cannot
    run any more, so that they are looked for once more, and never again.
    """
    for migration in migrations:
        if not migration.backfill:
            continue
        is_open = late and not (yield Work(migration, partial(_is_closed, migration), only_reads=True))
        if is_open and (yield Work(migration, partial(_is_late, migration), only_reads=True)):
            yield Work(migration, partial(_lift, migration))
        yield from _fill(migration, told)
        if is_open and migration is not migrations[-1]:
            yield Work(migration, partial(rows, "close_backfill", name=migration.closed))


def _fill(migration: Migration, told: Told) -> Backfilling:
    while True:
        begun = time.monotonic()
        state = yield Work(migration, partial(_step, migration))
        checkpoint("backfill.after_commit")
        if state is None:
            return
        told(state)
        yield timedelta(seconds=time.monotonic() - begun)


def _step(migration: Migration) -> Steps[Backfill | None]:
    """Fill in a bounded step, and say how far that has come; None when there was nothing left to do."""
    state = yield from _state(migration)
    if state.is_finished:
        return None
    [[upto]] = yield from rows("upto", after=state.done, bound=state.bound, rows=BACKFILL_ROWS)
    if upto is not None:
        yield from rows("fill", after=state.done, upto=upto)
    done = Backfill(migration.name, state.bound if upto is None else upto, state.bound)
    yield from rows("set_backfill", name=migration.state, value=done.value)
    checkpoint("backfill.before_commit")
    return done


def _is_closed(migration: Migration) -> Steps[bool]:
    return bool((yield from rows("backfill", name=migration.closed)))


def _is_late(migration: Migration) -> Steps[bool]:
    state = yield from _state(migration)
    [[late]] = yield from rows("late", bound=state.bound)
    return bool(late)


def _lift(migration: Migration) -> Steps[None]:
    """Take in what older programs have written since the migration. Nothing below the new bound is open any more."""
    state = yield from _state(migration)
    if "hold" in migration.backfill:
        yield from rows("hold")
    [[bound]] = yield from rows("bound")
    lifted = Backfill(migration.name, state.done, max(state.bound, int(bound)))
    yield from rows("set_backfill", name=migration.state, value=lifted.value)


def _state(migration: Migration) -> Steps[Backfill]:
    """How far it has come. Whoever comes at the same time waits here for the end of this transaction."""
    found = yield from rows("backfill", name=migration.state)
    return Backfill.read(migration.state, found[0][0]) if found else Backfill(migration.name, 0, 0)


def available(package: str) -> list[Migration]:
    """A database's migrations, in order, without a gap."""
    folder = files(package).joinpath("migrations")
    found = []
    for file in folder.iterdir():
        if match := _NAME.fullmatch(file.name):
            beside = folder.joinpath(file.name.removesuffix(".sql") + ".backfill.sql")
            backfill = split(beside.read_text("utf-8")) if beside.is_file() else {}
            found.append(Migration(int(match[1]), f"{match[1]}_{match[2]}", file.read_text("utf-8"), backfill))
    found.sort(key=lambda each: each.number)
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {package} are not numbered 1, 2, 3 …")
    return found


def check_version(found: int, known: int) -> None:
    """A program of version N runs on schema N and N+1, and says clearly when it cannot."""
    if found == 0:
        raise SchemaMismatch("this database has no sendonce tables yet; run: sendonce migrate")
    if found < known:
        raise SchemaMismatch(f"the database's schema is {found} and this program needs {known}; run: sendonce migrate")
    if found > known + 1:
        raise SchemaMismatch(
            f"the database's schema is {found}, too new for this program, which knows {known}; install a newer sendonce"
        )
