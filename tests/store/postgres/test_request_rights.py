"""Requests under the printed roles: the app asks and looks, readers look, and nobody changes what was asked for."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from sendonce.domain.outcomes import Delivered
from sendonce.domain.requests import RequestStatus
from sendonce.errors import RerunRefused
from sendonce.outbox.outbox import Outbox
from sendonce.store.filters import Filter
from sendonce.store.postgres import grants
from tests.given import given_lease, settle_with
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.roles import Roles, granted_roles

OUTBOX = Outbox()
CHANGES = [
    "update sendonce_requests set version = 9",
    "update sendonce_request_keys set request_id = 9",
    "update sendonce_recipients set is_required = false",
    "update sendonce_recipients set destination = 'null:other'",
]


@pytest.fixture(scope="module")
def roles(postgres_server: Server, postgres_template: str) -> Iterator[Roles]:
    with granted_roles(postgres_server, postgres_template) as roles:
        yield roles


@pytest.fixture
def database(roles: Roles) -> Iterator[PostgresDatabase]:
    with roles.database() as database:
        yield database


def ask(connection: psycopg.Connection, *, key: str, version: int, rerun: bool = False) -> int:
    return OUTBOX.request(
        connection, "review.finished", {}, key=key, subject="cl-7", version=version, required="null:a", rerun=rerun
    ).request_id


async def test_M10_app_requests_and_looks_and_readers_look(roles: Roles, database: PostgresDatabase) -> None:
    with roles.under(database.url, "app").connection() as connection:
        made = ask(connection, key="job-1", version=3)
        assert ask(connection, key="job-2", version=3) == made
        with pytest.raises(RerunRefused):
            ask(connection, key="job-3", version=4)
        ask(connection, key="job-3", version=4, rerun=True)
    await settle_with(await database.open(), await given_lease(await database.open()), Delivered("n-1"))

    with roles.under(database.url, "app").connection() as connection:
        state = OUTBOX.request_state(connection, made)
    assert state is not None
    assert (state.status, state.recipients[0].notification_id) == (RequestStatus.SUCCEEDED, "n-1")
    for role in ("operator", "reader"):
        seen = roles.under(database.url, role)
        store = await seen.open()
        assert await store.request(made) == state
        assert [each.version for each in await store.requests(Filter(subject="cl-7"))] == [4, 3]
        assert [each.id for each in await store.requests_by_key("job-2")] == [made]
        await seen.close()
    await database.close()


def test_M10_nobody_changes_what_was_asked_for(roles: Roles, database: PostgresDatabase) -> None:
    with database.connection() as connection:
        ask(connection, key="job-1", version=3)

    for change in CHANGES:
        for role in grants.ROLES:
            with pytest.raises(errors.InsufficientPrivilege):
                roles.under(database.url, role).execute(change)
        with pytest.raises(errors.CheckViolation):
            database.execute(change)


def test_M10_operator_points_a_recipient_elsewhere_and_the_janitor_prunes(
    roles: Roles, database: PostgresDatabase
) -> None:
    with database.connection() as connection:
        ask(connection, key="job-1", version=3)

    roles.under(database.url, "operator").execute("update sendonce_recipients set destination_hash = gen_random_uuid()")
    for table in ("recipients", "request_keys", "requests"):
        roles.under(database.url, "janitor").execute(f"delete from sendonce_{table} where true")

    assert database.rows("requests") == database.rows("recipients") == []
