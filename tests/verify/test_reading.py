"""verify reads, and can do nothing else; whoever may look may run it."""

from collections.abc import Iterator
from typing import Any

import pytest

from sendonce.errors import SendonceError
from sendonce.store.ports import Store
from sendonce.store.postgres.store import PostgresStore
from sendonce.store.sqlite.store import SqliteStore
from sendonce.store.verifying import Walk
from tests.servers.postgres import Server
from tests.store.postgres.roles import Roles, granted_roles
from tests.verify.conftest import Scene
from tests.verify.scene import looked

TABLES = ("events", "deliveries", "attempts", "leases", "dead_letters", "counters", "operations", "workers")


def rows(scene: Scene) -> dict[str, Any]:
    return {table: scene.database.rows(table) for table in TABLES}


@pytest.fixture
def roles(postgres_server: Server, postgres_scene: tuple[str, dict[str, int]]) -> Iterator[Roles]:
    with granted_roles(postgres_server, postgres_scene[0]) as roles:
        yield roles


async def test_nothing_is_changed_by_looking(scene: Scene, store: Store) -> None:
    before = rows(scene)

    await looked(store)

    assert rows(scene) == before


async def write(store: Store) -> None:
    """In the way that verify reads."""
    if isinstance(store, PostgresStore):
        async with store._snapshot() as connection:
            await connection.execute("delete from sendonce_counters")
    else:
        assert isinstance(store, SqliteStore)
        await store._reader.run(lambda transaction: transaction.connection.execute("delete from sendonce_counters"))


async def test_its_transactions_cannot_write(store: Store) -> None:
    with pytest.raises(SendonceError, match=r"only reads|cannot be written"):
        await write(store)


async def test_M10_the_reader_may_verify(roles: Roles) -> None:
    with roles.database() as database:
        reader = roles.under(database.url, "reader")

        report = await looked(await reader.open())

        await reader.close()
    assert report.findings == {}
    assert report.looked[Walk.DELIVERIES] > 10
