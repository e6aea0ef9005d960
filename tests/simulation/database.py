"""The database of a run: the real SQLite store in memory, with a log of every change, behind doors that fail."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from functools import cache
from itertools import count
from random import Random
from typing import Any, TypeVar

from sendonce.errors import StoreBusy
from sendonce.store.sqlite.connection import MEMORY, QUERIES, OwnConnection, open_file
from sendonce.store.sqlite.migrate import apply_missing
from sendonce.store.sqlite.store import SqliteStore
from tests.simulation.loop import Process, SimulatedLoop

Answer = TypeVar("Answer")
# Well before today, so that no time in a run lies in the future of the machine it runs on.
EPOCH_SECONDS = 1_735_689_600
NAMESPACE = "0" * 32

# Everything that changes is written down in the order in which it was committed, and rolled back with the rest.
LOG = """
create temp table log (
  tick integer primary key, what text, id integer, attempt integer, lease integer, was text, became text, doubt integer,
  was_doubt integer, proven integer, detail text);
create temp trigger log_new_delivery after insert on main.sendonce_deliveries begin
  insert into log values (tick(), 'delivery', new.id, null, null, null, new.status, new.in_doubt, 0, 0, null); end;
create temp trigger log_delivery after update on main.sendonce_deliveries begin
  insert into log values (tick(), 'delivery', new.id, new.attempt_count, null, old.status, new.status, new.in_doubt,
    old.in_doubt, new.proven_at is not null, new.parked_on); end;
create temp trigger log_new_attempt after insert on main.sendonce_attempts begin
  insert into log values (tick(), 'attempt', new.delivery_id, new.attempt, new.lease_id, null, new.status, null, null,
    null, null); end;
create temp trigger log_attempt after update on main.sendonce_attempts begin
  insert into log values (tick(), 'attempt', new.delivery_id, new.attempt, new.lease_id, old.status, new.status, null,
    null, null, new.outcome); end;
create temp trigger log_lease_too_early after delete on main.sendonce_leases
  when exists (select 1 from sendonce_attempts where lease_id = old.id and status = 'Leased') begin
  insert into log values (tick(), 'lease', null, null, old.id, 'used', null, null, null, null, null); end;
create temp trigger log_subscription after update of state on main.sendonce_subscriptions begin
  insert into log values (tick(), 'subscription', new.id, null, null, old.state, new.state, null, null, null,
    null); end;
create temp trigger log_stop after insert on main.sendonce_stops begin
  insert into log values (tick(), 'stop', null, null, null, null, 'stopped', null, null, null,
    new.scope || ':' || new.value); end;
create temp trigger log_resume after delete on main.sendonce_stops begin
  insert into log values (tick(), 'stop', null, null, null, 'stopped', null, null, null, null,
    old.scope || ':' || old.value); end;
create temp trigger log_breaker after update on main.sendonce_breakers begin
  insert into log values (tick(), 'breaker', null, null, null, old.pause, new.pause, new.is_probing, old.is_probing,
    null, json_object('room', new.room, 'allowance', new.allowance, 'wait', (new.probe_at - new.updated_at) / 1e6,
                'outage', (new.updated_at - new.opened_at) / 1e6)); end;
"""


class FailingLane(OwnConnection):
    """The store's own lane; when told to, the database refuses the commit of the next transaction."""

    will_fail = False

    async def run(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        if self.will_fail:
            self.will_fail = False
            return self._transact(_then_fail, work, args, kwargs)
        return self._transact(work, *args, **kwargs)


def _then_fail(transaction: Any, work: Any, args: Any, kwargs: Any) -> None:
    work(transaction, *args, **kwargs)
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    raise error


class Database:
    """One database, shared by all processes. Its clock is the loop's, moved by the jumps so far."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._ticks = count(1)
        self.ahead = 0.0
        self.lane = FailingLane(MEMORY, self.now, inline=True)
        connection = open_file(MEMORY)
        connection.deserialize(template())
        connection.execute(QUERIES["make_results"])
        connection.create_function("tick", 0, self.tick)
        connection.executescript(LOG)
        self.lane._connection = self.connection = connection
        self.store: Any = SqliteStore(self.lane, self.lane)

    def now(self) -> int:
        return int((EPOCH_SECONDS + self._loop.time() + self.ahead) * 1e6)

    def tick(self) -> int:
        """The next number in the order of everything that happens, here and outside."""
        return next(self._ticks)

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """What is there now, for those who check."""
        cursor = self.connection.execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def one(self, sql: str, *values: object) -> Any:
        row = self.connection.execute(sql, values).fetchone()
        return None if row is None else row[0]


@cache
def template() -> bytes:
    """A migrated, empty database; the namespace of its tokens is the same in every run."""
    connection = open_file(MEMORY)
    apply_missing(connection)
    connection.execute("update sendonce_meta set value = ? where name = 'namespace'", (NAMESPACE,))
    return connection.serialize()


class Trouble:
    """How likely the database fails, how slow it is, and how likely its callers die at its door. All seeded."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.refused = 0.0
        self.unsaid = 0.0
        self.slow = 0.0
        self.death = 0.0
        self.is_away = False
        self.failures = 0


class Door:
    """A process's own way to the store: each call is awaited before and after, and may fail, hang or be its last."""

    def __init__(
        self, database: Database, trouble: Trouble, process: Process, loop: SimulatedLoop,
        note: Callable[..., None], watch: Callable[[str, tuple[Any, ...], Any], None],
    ) -> None:  # fmt: skip
        self._database = database
        self._trouble = trouble
        self._process = process
        self._loop = loop
        self._note = note
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._database.store, name)

        async def through(*args: Any, **kwargs: Any) -> Any:
            return await self._pass(name, call, args, kwargs)

        setattr(self, name, through)
        return through

    async def _pass(self, name: str, call: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        trouble, dice = self._trouble, self._trouble.dice.random
        await self._wait(dice())
        await self._perhaps_die(name, "before")
        chance = dice()
        is_away = trouble.is_away or self._loop.time() < self._process.cut_off_until
        if is_away or chance < trouble.refused:
            trouble.failures += 1
            if chance < trouble.refused / 2 and not is_away:
                await self._refused_commit(call, args, kwargs)
            self._note(self._process, f"{name}: the database did not do it")
            raise StoreBusy("simulated: it cannot answer now")
        answer = await call(*args, **kwargs)
        self._watch(name, args, answer)
        self._note(self._process, name, answer)
        await self._wait(dice())
        await self._perhaps_die(name, "after")
        if dice() < trouble.unsaid:
            trouble.failures += 1
            self._note(self._process, f"{name}: done, and reported as failed")
            raise StoreBusy("simulated: the answer was lost")
        return answer

    async def _refused_commit(self, call: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> None:
        """All of the work, and no commit: the store's own way to roll back."""
        self._database.lane.will_fail = True
        try:
            await call(*args, **kwargs)
        finally:
            self._database.lane.will_fail = False

    async def _wait(self, chance: float) -> None:
        if chance < self._trouble.slow:
            await asyncio.sleep(0.001 + 3.0 * (chance / self._trouble.slow) ** 8)
        else:
            await asyncio.sleep(0)

    async def _perhaps_die(self, name: str, side: str) -> None:
        trouble = self._trouble
        if trouble.death and trouble.dice.random() < trouble.death:
            self._note(self._process, f"dies {side} {name}")
            self._loop.kill(self._process)
            await asyncio.sleep(0)
