"""The inbox under the printed roles: the app handles messages once and counts its tries, and changes nothing else."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from psycopg import errors

from sendonce import Inbox
from sendonce.store.inbox import MessageFilter
from sendonce.store.ports import Store
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.messages import given_message, given_receipt
from tests.store.postgres.roles import Roles, granted_roles

INBOX = Inbox()
FORBIDDEN = [
    "delete from sendonce_receipts",
    "update sendonce_receipts set received_at = received_at",
    "update sendonce_messages set closed_as = 'discarded'",
    "delete from sendonce_tries",
    "insert into sendonce_counters (name, amount) values ('duplicates', 1)",
    "select * from sendonce_evidence",
]


@pytest.fixture(scope="module")
def roles(postgres_server: Server, postgres_template: str) -> Iterator[Roles]:
    with granted_roles(postgres_server, postgres_template) as roles:
        yield roles


@pytest.fixture
def database(roles: Roles) -> Iterator[PostgresDatabase]:
    with roles.database() as database:
        yield database


@asynccontextmanager
async def opened(roles: Roles, database: PostgresDatabase, role: str) -> AsyncIterator[Store]:
    seen = roles.under(database.url, role)
    yield await seen.open()
    await seen.close()


def test_M10_app_handles_messages_once(roles: Roles, database: PostgresDatabase) -> None:
    firsts = []
    for _ in range(3):
        with (
            roles.under(database.url, "app").connection() as connection,
            INBOX.once(connection, "wallet", "m-1") as first,
        ):
            firsts.append(first.first)
            if first:
                first.result = "done"
    with roles.under(database.url, "app").connection() as connection, INBOX.once_many(connection, "wallet", ["b", "a"]):
        pass

    assert firsts == [True, False, False]
    assert database.one("select sum(amount)::int from sendonce_counters where name = 'duplicates'") == 2


@pytest.mark.parametrize("change", FORBIDDEN)
def test_M10_app_changes_nothing_else_of_the_inbox(roles: Roles, database: PostgresDatabase, change: str) -> None:
    given_message(database)
    given_receipt(database, "m-1")

    with pytest.raises(errors.InsufficientPrivilege):
        roles.under(database.url, "app").execute(change)


async def test_M10_operator_decides_and_reader_looks_without_content(roles: Roles, database: PostgresDatabase) -> None:
    first, second = given_message(database, "m-1"), given_message(database, "m-2")

    async with opened(roles, database, "operator") as operator, opened(roles, database, "reader") as reader:
        await operator.retry_messages([first], operator="ada", reason="again")
        await operator.discard_messages([second], operator="ada", reason="a test")

        assert len(await reader.messages(MessageFilter())) == 3
        assert (await reader.tries_of(first))[0].outcome == "Failed"
        assert (await reader.inbox_counts()).waiting == 1
    with pytest.raises(errors.InsufficientPrivilege):
        roles.under(database.url, "reader").execute("select body from sendonce_messages")


async def test_M10_janitor_drops_what_is_old_and_erases(roles: Roles, database: PostgresDatabase) -> None:
    given_message(database, "old", status="Completed", age=200 * 86_400)
    given_receipt(database, "old", age=200 * 86_400)
    given_message(database, "dead")

    async with opened(roles, database, "janitor") as janitor:
        for _ in ("the content", "the message", "the receipt"):
            assert await janitor.drop_inbox(limit=10, keep=timedelta(days=90), contents=timedelta(days=30)) == 1
        await janitor.erase_message("dead", operator="ada", reason="asked for")

    assert [row["body"] for row in database.rows("messages")] == [None]
    assert database.rows("receipts") == []
