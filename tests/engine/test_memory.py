"""What a worker remembers of its database, in memory and in its file, and what it does when that is gone."""

import json
import os
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from sendonce.domain.attempts import Lease
from sendonce.domain.outcomes import Delivered, Found, NotThere
from sendonce.engine.config import check_instance
from sendonce.engine.memory import Memory
from sendonce.errors import ConfigError
from sendonce.observability.facts import CommitsLost, OtherInstance
from sendonce.store.ports import Store
from tests.engine import rig
from tests.engine.rig import serving, working
from tests.given import given_due_delivery, given_lease
from tests.processes import until_async
from tests.store.databases import Database, SqliteDatabase


def completed(database: Database) -> object:
    return database.one("select count(*) from sendonce_deliveries where status = 'Completed'")


async def a_lease(database: Database, store: Store) -> Lease:
    given_due_delivery(database, to="test:a")
    return await given_lease(store)


async def test_newest_claim_is_known_again_by_the_next_worker(database: Database, store: Store, tmp_path: Path) -> None:
    lease = await a_lease(database, store)
    path = str(tmp_path / "worker.state")
    memory = Memory(path, namespace="n", instance="production")

    memory.note(lease)
    memory.close()

    again = Memory(path, namespace="n", instance="production")
    assert again.fence == memory.fence
    assert again.witness is not None
    assert again.witness.lease_id == lease.id
    assert Memory(path, namespace="of another database").witness is None
    assert [name for name in os.listdir(tmp_path) if "state" in name] == ["worker.state"]


async def test_newer_claim_that_it_heard_of_is_remembered_and_an_older_one_is_not(
    database: Database, store: Store, tmp_path: Path
) -> None:
    path = str(tmp_path / "worker.state")
    memory = Memory(path, namespace="n")
    memory.note(await a_lease(database, store))
    own = memory.witness
    assert own is not None
    newer, older = (own._replace(lease_id=7, at=own.at + timedelta(seconds=by)) for by in (1, -1))

    for heard in (older, None, newer):
        memory.hear(heard)
        memory.learn()
    memory.close()

    assert memory.witness == newer
    assert Memory(path, namespace="n").witness == newer
    memory.hear(newer)
    memory.forget()
    memory.learn()
    assert memory.witness is None


async def test_worker_knows_the_newest_claim_of_another(database: Database, store: Store) -> None:
    """So that whoever is the first to claim after commits were lost knows that they are."""
    lease = await a_lease(database, store)
    memory, other = Memory(), Memory()
    other.note(lease)

    async with working(store, serving(rig.Told(Delivered())), memory=memory):
        await store.beat(await store.register("other:1", "1", 10), progressed=True, witness=other.witness)
        await until_async(lambda: memory.witness == other.witness, "it heard of it")


def test_server_that_changed_is_noticed_once(tmp_path: Path) -> None:
    path = str(tmp_path / "worker.state")
    memory = Memory(path, namespace="n")

    assert memory.see(("7", "1", "noon")) == (False, False)
    again = Memory(path, namespace="n")
    assert again.see(("7", "2", "one")) == (True, True)
    assert again.see(("7", "2", "two")) == (False, True)
    assert again.see(("7", "2", "two")) == (False, False)
    assert again.see(None) == (False, False)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"namespace": "n", "claim": [1, 2], "server": null}', "\x00"])
def test_file_that_is_none_of_ours_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "worker.state"
    path.write_text(text)

    with pytest.raises(ConfigError, match="is not the state file of a worker; name another file, or remove it"):
        Memory(str(path), namespace="n")
    assert path.read_text() == text


def test_place_where_nothing_can_be_written_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"state file .* cannot be written \(No such file or directory\)"):
        Memory(str(tmp_path / "nowhere" / "worker.state"))


@pytest.mark.parametrize(("name", "ours"), [("production", "staging"), ("production", None)])
async def test_worker_does_not_begin_on_a_database_of_another_name(
    database: Database, store: Store, name: str, ours: str | None
) -> None:
    await store.name_instance(name, operator="ada", reason=None)

    with pytest.raises(ConfigError, match="this database is 'production' and the settings say"):
        await check_instance(store, ours)
    await check_instance(store, name)


async def test_copy_of_production_under_a_running_worker_of_staging_sends_nothing(
    database: Database, store: Store
) -> None:
    channel = rig.Told(Delivered())

    async with working(store, serving(channel)) as at_work:
        await store.name_instance("production", operator="ada", reason="a copy came in")
        given_due_delivery(database, to="test:a")
        await until_async(lambda: OtherInstance(instance=None) in at_work.facts, "it was said")
        assert channel.sent == []
        await store.name_instance(None, operator="ada", reason="it is ours")
        await until_async(lambda: len(channel.sent) == 1, "it was sent")

    assert at_work.facts.count(OtherInstance(instance=None)) == 1


async def test_database_of_another_name_is_told_again_when_it_was_ours_in_between(
    database: Database, store: Store
) -> None:
    channel = rig.Told(Delivered())

    async with working(store, serving(channel)) as at_work:
        for times in (1, 2):
            await store.name_instance("production", operator="ada", reason="a copy came in")
            given_due_delivery(database, to="test:a")
            await until_async(lambda: len(at_work.said(OtherInstance)) == times, "it was said")  # noqa: B023
            await store.name_instance(None, operator="ada", reason="it is ours")
            await until_async(lambda: len(channel.sent) == times, "it was sent")  # noqa: B023


async def test_file_copied_back_under_a_running_worker_doubles_nothing(
    sqlite: SqliteDatabase, sqlite_store: Store, tmp_path: Path
) -> None:
    """SQLite's own online copy, into the file that the worker has open."""
    given_due_delivery(sqlite, to="test:a", key="sent after the backup")
    with sqlite.connection(autocommit=True) as live, closing(sqlite3.connect(tmp_path / "backup.db")) as backup:
        live.backup(backup)
    channel = rig.Asked(Delivered("n-1"), answers=[Found("n-1")])

    async with working(sqlite_store, serving(channel, doubt_wait="1h")) as at_work:
        await until_async(lambda: len(channel.sent) == 1, "it was sent")
        await until_async(lambda: completed(sqlite) == 1, "settled")
        with closing(sqlite3.connect(tmp_path / "backup.db")) as backup, sqlite.connection(autocommit=True) as live:
            backup.backup(live)
        await until_async(lambda: CommitsLost(is_new=True) in at_work.facts, "the loss was noticed")
        await until_async(lambda: sqlite.one("select in_doubt from sendonce_deliveries") == 1, "in doubt")
        sqlite.advance(timedelta(minutes=59))
        given_due_delivery(sqlite, to="test:a", key="recorded since")
        await until_async(lambda: len(channel.sent) == 2, "what is new is sent")
        assert channel.asked == []
        sqlite.advance(timedelta(minutes=2))
        await until_async(
            lambda: sqlite.one("select count(*) from sendonce_deliveries where status = 'Completed'") == 2,
            "all settled",
        )

    assert [message.key for message in channel.sent] == ["sent after the backup", "recorded since"]
    assert [message.key for message in channel.asked] == ["sent after the backup"]


async def test_worker_that_begins_anew_knows_from_its_file_that_commits_were_lost(
    database: Database, store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "worker.state"
    delivery_id = given_due_delivery(database, to="test:a")
    claim = [delivery_id + 7, 1, 12345, 1, database.now().isoformat()]
    path.write_text(json.dumps({"namespace": "", "claim": claim, "server": None}))
    channel = rig.Asked(Delivered("n-1"), answers=[NotThere()])

    async with working(store, serving(channel, doubt_wait="1h"), memory=Memory(str(path))) as at_work:
        await until_async(lambda: CommitsLost(is_new=True) in at_work.facts, "the loss was noticed")
        await until_async(lambda: database.one("select marked_id from sendonce_losses") == delivery_id, "marked")
        assert channel.asked == []
        database.advance(timedelta(hours=1, seconds=1))
        await until_async(lambda: len(channel.sent) == 1, "it was sent")

    assert len(channel.asked) == 1
