"""A worker of the version before and a new one have the same breakers: neither's statements trip over the other's."""

import zipfile
from datetime import timedelta
from typing import Any

from sendonce.domain.breakers import Answers, Pauses
from sendonce.sql.queries import split, with_parameters
from sendonce.store.ports import Store
from tests.given import HOLD, WORKER, given_due_deliveries
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.upgrade.freeze import release

S = timedelta(seconds=1)
HOOK = "https://slow.example/hook"
ROOM = f"destination:{HOOK}"
PAUSES = Pauses(first=10 * S, longest=60 * S)


class Before:
    """The statements of schema 2, asked as its program does."""

    def __init__(self, database: Database) -> None:
        self._database = database
        kind = "postgres" if isinstance(database, PostgresDatabase) else "sqlite"
        with zipfile.ZipFile(release(2)) as archive:
            self._queries = split(archive.read(f"sendonce/stores/{kind}/sql/rooms.sql").decode())

    def ask(self, name: str, **values: object) -> list[Any]:
        sql = self._queries[name]
        if isinstance(self._database, SqliteDatabase):
            values["now"] = self._database.microseconds()
        else:
            sql = with_parameters(sql.replace("%", "%%"), lambda parameter: f"%({parameter})s")
        with self._database.connection() as connection:
            return list(connection.execute(sql, values).fetchall())

    def trip(self) -> bool:
        return bool(self.ask("trip", room=ROOM, pause=10.0, longest=300.0, code="http_503"))

    def take_probe(self) -> bool:
        return bool(self.ask("take_probe", room=ROOM, hold=30.0))

    def ease(self) -> int:
        return int(self.ask("ease", room=ROOM)[0][0])

    def breaker(self) -> tuple[bool, int]:
        """Whether a probe is due, and how many are let out."""
        [row] = self.ask("rooms", after="", limit=10, cap=100)
        return bool(row[4]), int(row[6])


async def a_room(database: Database, store: Store) -> None:
    given_due_deliveries(database, 3, to=HOOK)
    await store.start(WORKER, 10, HOLD)


async def test_breaker_opened_by_the_version_before_is_probed_and_closed(database: Database, store: Store) -> None:
    before = Before(database)
    assert before.trip()
    await a_room(database, store)
    database.advance(11 * S)
    assert before.breaker() == (True, 0)

    probe = await store.let_out(ROOM, 1, HOLD)
    assert not before.take_probe(), "one of them probes"
    await store.learn(ROOM, probe.turn, Answers(through=1), PAUSES)
    assert before.breaker() == (False, 2)
    while (out := await store.let_out(ROOM, 64, HOLD)).amount:
        await store.learn(ROOM, out.turn, Answers(through=out.amount), PAUSES)

    assert (await store.rooms(after="", limit=1))[0].breaker is None


async def test_breaker_is_probed_by_the_version_before(database: Database, store: Store) -> None:
    before = Before(database)
    await store.trip(ROOM, pause=10 * S, code=None)
    await a_room(database, store)
    database.advance(11 * S)

    assert before.take_probe()
    assert (await store.let_out(ROOM, 1, HOLD)).amount == 0, "one of them probes"
    assert before.ease() == 2
    assert (await store.let_out(ROOM, 5, HOLD)).amount == 2
    assert before.trip(), "for twice as long, as it does"
    assert (await store.let_out(ROOM, 5, HOLD)).amount == 0
    database.advance(21 * S)
    assert (await store.let_out(ROOM, 5, HOLD)).amount == 1
