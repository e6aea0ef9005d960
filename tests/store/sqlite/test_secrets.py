"""A secret that is replaced leaves nothing in the file, whatever SQLite was built to do with what is deleted."""

import os
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from sendonce.store.sqlite.store import SqliteStore
from tests.store.databases import SqliteDatabase

SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def subscribe(store: SqliteStore) -> None:
    await store.add_subscription(
        tenant="",
        types=["*"],
        destination="null:hook",
        policy=None,
        description=None,
        operator="ada",
        secrets=lambda _: {"signing": SECRET},
    )


async def reseal(store: SqliteStore) -> None:
    await store.reseal(lambda _, __, stored: os.urandom(3 * len(stored)), operator="ada")


async def rotate(store: SqliteStore) -> None:
    for row in await store.subscriptions(None):
        await store.rotate_secret(row.id, b"new", overlap=timedelta(0), operator="ada", reason=None)


@pytest.mark.parametrize("replace", [reseal, rotate])
async def test_secret_that_was_replaced_leaves_nothing_in_the_file(
    database: SqliteDatabase, store: SqliteStore, replace: Callable[[SqliteStore], Awaitable[None]]
) -> None:
    await store.transact(lambda connection: connection.execute("pragma secure_delete = off").fetchall())
    for _ in range(20):
        await subscribe(store)

    await replace(store)
    await database.close()

    assert SECRET not in database.path.read_bytes()
    assert [file.name for file in database.path.parent.iterdir()] == [database.path.name]
