"""verify reads, and can do nothing else; whoever may look may run it."""

from collections.abc import Iterator
from typing import Any

import pytest

from sendonce.admin.verify import SHORTEST_PAUSE, STEP, VerifyPlan, _pause
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


async def test_verify_changes_nothing(scene: Scene, store: Store) -> None:
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


async def test_verify_uses_transactions_that_cannot_write(store: Store) -> None:
    with pytest.raises(SendonceError, match=r"only reads|cannot be written"):
        await write(store)


async def test_M10_reader_may_verify(roles: Roles) -> None:
    with roles.database() as database:
        reader = roles.under(database.url, "reader")

        report = await looked(await reader.open())

        await reader.close()
    assert report.findings == {}
    assert report.looked[Walk.DELIVERIES] > 10


@pytest.mark.parametrize(("rate", "rows"), [(None, STEP), (1e9, STEP), (STEP - 0.5, STEP - 1), (7.9, 7), (0.01, 1)])
def test_step_is_no_more_than_a_seconds_worth_and_always_something(rate: float | None, rows: int) -> None:
    assert VerifyPlan(rate=rate).rows == rows


@pytest.mark.parametrize(
    ("rate", "looked", "seconds", "pause"),
    [(None, STEP, 0.25, 0.25), (None, 1, 0.0, SHORTEST_PAUSE), (10.0, 10, 0.25, 0.75), (0.5, 1, 0.25, 1.75),
     (1000.0, 10, 0.25, 0.25)],
)  # fmt: skip
def test_verify_rests_as_long_as_it_worked_or_as_the_rate_says(
    rate: float | None, looked: int, seconds: float, pause: float
) -> None:
    assert _pause(VerifyPlan(rate=rate), looked, seconds) == pytest.approx(pause)
