"""An Admin opened for callers without an event loop, and in one: the same verbs, called or awaited."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

import sendonce
from sendonce import Admin, Filter, NotFound
from sendonce.admin.advice import MIGRATE
from sendonce.domain.outcomes import Refused
from sendonce.store.bulk import OperationRow
from sendonce.store.ports import Store
from tests.admin.test_admin import given
from tests.crash.accounts import url_of
from tests.store.conftest import database, postgres_template, sqlite_template, store
from tests.store.databases import Database

__all__ = ["database", "postgres_template", "sqlite_template", "store"]


@pytest.fixture
def admin(database: Database) -> Iterator[Admin]:
    with Admin.open(url_of(database), operator="ada") as admin:
        yield admin


async def test_verbs_are_called_from_any_thread(database: Database, store: Store, admin: Admin) -> None:
    delivery_id = await given(database, store, Refused("410"))
    [letter] = admin.dead_letters(type="memo.created")

    [reopened] = await asyncio.to_thread(admin.requeue, [letter.id], reason="it is back")

    assert admin.delivery(reopened.delivery_id).generation == 1
    assert admin.for_tenant("acme").delivery(delivery_id).tenant == "acme"
    with pytest.raises(NotFound, match="there is no delivery 99"):
        admin.delivery(99)


async def test_preview_of_an_operation_counts_step_by_step(
    database: Database, store: Store, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sendonce.admin.bulk.WINDOW", 2)
    for _ in range(5):
        await given(database, store, Refused("410"))
    wanted = Filter(type="memo.*")

    planned = admin.preview_operation("requeue", wanted)
    assert (planned.matching, planned.looked) == (2, 2)
    while planned.next_after is not None:
        planned += admin.preview_operation("requeue", wanted, after=planned.next_after)

    assert (planned.matching, planned.affected, planned.looked) == (5, 5, 5)
    assert admin.matches("requeue", Filter(type="memo.*"))
    assert not admin.matches("requeue", Filter(type="none"))


async def test_operation_by_filter_reports_its_progress(database: Database, store: Store, admin: Admin) -> None:
    await given(database, store, Refused("410"))
    wanted = Filter(type="memo.*")
    seen: list[OperationRow] = []

    planned = admin.preview_operation("requeue", wanted)
    begun = admin.begin_operation("requeue", wanted, reason="they are back")
    done = admin.run_operation(begun.id, on_progress=seen.append)

    assert (planned.matching, planned.affected) == (1, 1)
    assert (done.state, done.affected) == ("done", 1)
    assert seen[-1] == done
    assert admin.operation(done.id) == done
    assert [row.kind for row in admin.operations()] == ["requeue"]


async def test_verbs_of_an_open_admin_are_not_awaited_elsewhere(database: Database, admin: Admin) -> None:
    with pytest.raises(RuntimeError, match="this Admin belongs to another event loop"):
        await admin.astatus()


async def test_verbs_of_an_admin_in_a_loop_are_awaited(database: Database) -> None:
    async with Admin.aopen(url_of(database), operator="ada") as admin:
        with pytest.raises(RuntimeError, match="await its verbs"):
            admin.status()

        assert (await admin.astatus()).dead_letters == 0


def test_verb_within_a_verb_is_refused(admin: Admin) -> None:
    def again(_: object) -> None:
        admin.status()

    with pytest.raises(RuntimeError, match="call it afterwards"):
        admin.verify(on_progress=again)


def test_interrupted_verb_has_ended_when_it_is_raised(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless(self: Admin) -> None:
        begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0)
            ended.set()

    def interrupted(future: object) -> None:
        monkeypatch.undo()
        begun.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        admin.session.run(endless(admin))

    assert ended.is_set()


def test_doctor_needs_no_database_that_can_be_used(tmp_path: object) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    sendonce_file = f"{tmp_path}/new.db"
    open(sendonce_file, "w").close()
    with Admin.open(url, operator="ada", connect=False) as admin:
        assert admin.schema_version() == 0
        assert next(each.advice for each in admin.doctor() if each.name == "schema") == (MIGRATE,)
        with pytest.raises(sendonce.SchemaMismatch):
            admin.status()


def test_request_is_waited_for_no_longer_than_the_timeout(database: Database, admin: Admin) -> None:
    with pytest.raises(NotFound):
        admin.wait_for_request(1, timedelta(0))
