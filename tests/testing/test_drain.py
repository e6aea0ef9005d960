"""What a drain does and what it leaves alone, on both databases."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import Any

import aiosqlite
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from sendonce import Delivered, Email, Failed, Outbox, Refused, SchemaMismatch, StoreError, testing
from sendonce.channels import Channels, Deferred, Message, Outcome
from sendonce.testing import box as box_module
from tests.outbox.callers import SQLITE
from tests.outbox.databases import Address, sqlite_connection
from tests.testing.conftest import OPENERS, without_tables_in
from tests.testing.recording import HOOK, MAIL, publish


def test_message_is_shown_as_its_receiver_gets_it(connection: Any) -> None:
    box = testing.outbox(connection)
    mail = Email("ada@example.com", subject="Saved", text="Memo 7 is saved.")
    Outbox().publish(
        connection, "memo.created", {"id": 7}, key="7", to=[HOOK, mail], tenant="acme", subject="memo", version=2,
        headers={"trace": "abc"},
    )  # fmt: skip

    hook, letter = box.drain()

    assert (hook.type, hook.key, hook.tenant, hook.subject, hook.version) == ("memo.created", "7", "acme", "memo", 2)
    assert (hook.destination, hook.content, hook.headers) == (HOOK, {"id": 7}, {"trace": "abc"})
    assert (letter.destination, letter.content) == (MAIL, {"subject": "Saved", "text": "Memo 7 is saved."})
    assert (hook.attempt, hook.arrived, type(hook.outcome)) == (1, True, Delivered)
    assert len({hook.token, letter.token}) == 2


def test_callers_own_rows_are_untouched_and_its_transaction_stays_open(connection: Any, address: Address) -> None:
    box = testing.outbox(connection)
    connection.execute("insert into memos (id, body) values (1, 'mine')")
    publish(connection)

    box.drain()

    assert connection.execute("select id, body from memos").fetchall() == [(1, "mine")]
    assert address.look("select count(*) from memos") == [(0,)]
    connection.rollback()
    assert connection.execute("select count(*) from memos").fetchall() == [(0,)]


def test_rollback_leaves_nothing_in_the_database(connection: Any, address: Address) -> None:
    box = testing.outbox(connection)
    publish(connection)
    box.drain()

    connection.rollback()

    tables = "select name from sqlite_master" if address.dialect == "sqlite" else "select relname from pg_class"
    assert [name for (name,) in address.look(tables) if name.startswith("sendonce")] == []


def test_drain_works_as_well_when_the_caller_commits(pg_dsn: str, tmp_path: Any) -> None:
    for connection in (sqlite3.connect(tmp_path / "own.db"), psycopg.connect(pg_dsn)):
        with closing(connection):
            box = testing.outbox(connection)
            connection.commit()
            publish(connection)
            connection.commit()

            sent = box.drain()
            connection.commit()

            assert [each.destination for each in sent] == [HOOK]
            assert box.drain() == []
            assert [each.status for each in box.deliveries()] == ["Completed"]


@pytest.mark.parametrize("kind", ["sqlite3", "aiosqlite", "psycopg", "psycopg-async", "psycopg2", "asyncpg"])
async def test_connection_that_commits_by_itself_commits_what_the_engine_writes(
    request: pytest.FixtureRequest, tmp_path: Any, kind: str
) -> None:
    address = (
        without_tables_in(tmp_path) if kind in SQLITE else Address(request.getfixturevalue("pg_dsn"), "postgresql")
    )
    async with OPENERS[kind](address, autocommit=True) as caller:
        box = await testing.aoutbox(caller.connection)
        await caller.do("begin")
        await caller.publish("memo.created", {}, key="1", to=HOOK)
        await caller.do("commit")

        sent = await box.adrain()

        assert [each.key for each in sent] == ["1"]
        assert address.look("select status from sendonce_deliveries") == [("Completed",)]


async def test_transaction_that_the_caller_has_begun_by_hand_is_theirs_to_end(without_tables: Address) -> None:
    for kind in ("psycopg", "psycopg2", "asyncpg"):
        async with OPENERS[kind](without_tables, autocommit=True) as caller:
            await caller.do("begin")
            box = await testing.aoutbox(caller.connection)
            await caller.publish("memo.created", {}, key="1", to=HOOK)

            assert len(await box.adrain()) == 1
            await caller.do("rollback")
            assert without_tables.look("select to_regclass('sendonce_events')") == [(None,)]


def test_savepoint_of_the_callers_takes_back_what_was_drained_within_it(connection: Any) -> None:
    box = testing.outbox(connection)
    publish(connection, "1")
    connection.execute("savepoint mine")
    publish(connection, "2")
    first = box.drain()

    connection.execute("rollback to savepoint mine")
    second = box.drain()

    assert [each.key for each in first] == ["1", "2"]
    assert [each.key for each in second] == ["1"]


def test_session_of_savepoints_over_one_connection_is_drained(address: Address) -> None:
    engine = sqlalchemy.create_engine(address.url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection, connection.begin() as outer:
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            box = testing.outbox(session)
            publish(session)
            session.commit()

            assert [each.destination for each in box.drain()] == [HOOK]
        outer.rollback()
    engine.dispose()


def test_boxes_on_one_connection_send_everything_once(connection: Any) -> None:
    one, two = testing.outbox(connection), testing.outbox(connection)
    publish(connection, "1")
    first = one.drain()
    publish(connection, "2")

    second = two.drain()

    assert ([each.key for each in first], [each.key for each in second]) == (["1"], ["2"])
    assert (one.received(HOOK), two.received(HOOK)) == (1, 1)


@pytest.mark.parametrize("level", ["SERIALIZABLE", "REPEATABLE_READ"])
def test_drain_works_at_every_level_of_isolation(without_tables: Address, level: str) -> None:
    with psycopg.connect(without_tables.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel[level]
        box = testing.outbox(connection)
        publish(connection)

        assert len(box.drain()) == 1
        connection.rollback()


def test_row_factory_of_the_caller_does_not_matter_and_stays(without_tables: Address) -> None:
    lite = sqlite3.connect(":memory:")
    lite.row_factory, lite.text_factory = sqlite3.Row, bytes
    with closing(lite), psycopg.connect(without_tables.url, row_factory=dict_row) as postgres:
        postgres.cursor_factory = psycopg.RawCursor
        for connection in (lite, postgres):
            box = testing.outbox(connection)
            publish(connection)

            assert [each.content for each in box.drain()] == [{"memo": "1"}]
        assert lite.execute("select 'a' as a").fetchone()["a"] == b"a"
        assert postgres.execute("select 'a' as a").fetchone() == {"a": "a"}
        postgres.rollback()


async def test_row_factory_of_aiosqlite_does_not_matter_and_stays() -> None:
    async with aiosqlite.connect(":memory:") as connection:
        connection.row_factory, connection.text_factory = sqlite3.Row, bytes
        box = await testing.aoutbox(connection)
        await Outbox().apublish(connection, "memo.created", {"memo": "1"}, key="1", to=HOOK)

        assert [each.content for each in await box.adrain()] == [{"memo": "1"}]
        async with connection.execute("select 'a' as a") as cursor:
            assert [row["a"] for row in await cursor.fetchall()] == [b"a"]


def test_table_of_the_callers_is_not_hidden_by_ours() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table results (id integer)")
        box = testing.outbox(connection)
        publish(connection)
        box.drain()

        assert [column[1] for column in connection.execute("pragma table_info(results)")] == ["id"]


def test_search_path_is_as_it_was(without_tables: Address) -> None:
    with psycopg.connect(without_tables.url) as connection:
        connection.execute("create schema mine; set search_path = mine, public")

        box = testing.outbox(connection)
        publish(connection)
        box.drain()

        assert connection.execute("show search_path").fetchall() == [("mine, public",)]
        assert connection.execute("select count(*) from mine.sendonce_events").fetchall() == [(1,)]
        connection.rollback()


def test_retry_comes_when_its_time_has_come(connection: Any) -> None:
    box = testing.outbox(connection, policy={"jitter": 0, "first_delay": "20m"})
    box.receiver.answer(Failed("busy"), times=2)
    publish(connection)

    tried = [[type(each.outcome) for each in box.drain()]]
    for wait in (10, 10, 30, 10):
        box.clock.advance(minutes=wait)
        tried.append([type(each.outcome) for each in box.drain()])

    assert tried == [[Failed], [], [Failed], [], [Delivered]]
    assert (len(box.sent), box.received(HOOK)) == (3, 1)


def test_drain_sends_many_to_one_destination(connection: Any) -> None:
    box = testing.outbox(connection)
    for n in range(250):
        publish(connection, str(n))

    sent = box.drain()

    assert sorted(int(each.key) for each in sent) == list(range(250))


def test_own_channel_is_used_and_what_it_has_none_for_is_recorded(connection: Any) -> None:
    channels, closed = Channels(), []

    @channels.channel("sms")
    class Sms:
        async def send(self, message: Message, *, timeout: float) -> Outcome:
            return Delivered(f"sms to {message.address}")

        async def close(self) -> None:
            closed.append(True)

    box = testing.outbox(connection, channels=channels)
    publish(connection, to=["sms:+41791234567", HOOK])

    outcomes = {each.destination: each.outcome for each in box.drain()}

    assert outcomes["sms:+41791234567"] == Delivered("sms to sms:+41791234567")
    assert isinstance(outcomes[HOOK], Delivered)
    assert closed == [True]


def test_channel_that_always_wants_it_again_at_once_has_it_again_after_the_backoff(connection: Any) -> None:
    channels = Channels()

    @channels.channel("sms")
    async def send(message: Message, *, timeout: float) -> Outcome:
        return Deferred("connections_busy", again_in=timedelta(0))

    box = testing.outbox(connection, channels=channels)
    publish(connection, to="sms:1")

    assert len(box.drain()) == 1
    assert box.drain() == []


def test_drain_does_not_wait_for_what_a_rate_or_a_stop_holds_back(connection: Any) -> None:
    box = testing.outbox(connection)
    box.admin(lambda admin: admin.aadd_subscription(types=["memo.*"], to=HOOK, rate="1/h"))
    for key in ("1", "2", "3"):
        publish(connection, key, to=None)

    drained = [len(box.drain())]
    box.clock.advance(hours=1)
    drained += [len(box.drain()), len(box.drain())]

    assert drained == [1, 1, 0]


def test_subscription_is_served(connection: Any) -> None:
    box = testing.outbox(connection)
    entered = box.subscribe(["memo.*"], HOOK, tenant="acme")
    publish(connection, to=None, tenant="acme")

    [sent] = box.drain()

    assert (sent.destination, sent.tenant, entered.tenant) == (HOOK, "acme", "acme")


def test_subscription_whose_receiver_is_gone_is_disabled(connection: Any) -> None:
    box = testing.outbox(connection)
    entered = box.subscribe(["memo.*"], HOOK)
    box.receiver.answer(Refused("http_410"))
    publish(connection, to=None)

    box.drain()

    assert box.admin(lambda admin: admin.asubscription(entered.id)).state == "disabled"


def test_own_channel_is_given_what_a_subscription_is_signed_with(connection: Any) -> None:
    channels, given = Channels(), []

    @channels.channel("https")
    async def send(message: Message, *, timeout: float) -> Outcome:
        given.append(message.credentials)
        return Delivered()

    box = testing.outbox(connection, channels=channels)
    box.subscribe(["memo.*"], HOOK)
    publish(connection, to=None)
    box.drain()

    assert [len(each.signing) for each in given] == [1]


def test_request_is_seen_through_admin(connection: Any) -> None:
    box = testing.outbox(connection)
    made = Outbox().request(connection, "memo.shared", {}, key="1", subject="7", version=1, required=[HOOK, MAIL])
    box.drain()

    state = box.admin(lambda admin: admin.arequest(made.request_id))

    assert (state.status, {each.destination for each in state.recipients}) == ("succeeded", {HOOK, MAIL})


def test_worker_is_gone_after_a_drain(connection: Any) -> None:
    box = testing.outbox(connection)

    box.drain()

    assert box.admin(lambda admin: admin.astatus()).workers == ()


def test_database_of_a_newer_program_is_refused_in_one_sentence(connection: Any) -> None:
    testing.outbox(connection)
    connection.execute("update sendonce_meta set value = '999' where name = 'schema_version'")

    with pytest.raises(SchemaMismatch):
        testing.outbox(connection)


def test_transaction_that_cannot_write_is_an_error_and_not_waited_for(without_tables: Address) -> None:
    with psycopg.connect(without_tables.url) as connection:
        connection.read_only = True

        with pytest.raises(StoreError, match="PostgreSQL cannot answer now") as raised:
            testing.outbox(connection)
        assert raised.type is StoreError


def test_database_that_others_write_to_is_an_error_and_not_waited_for(tmp_path: Any) -> None:
    address = Address(f"sqlite:///{tmp_path / 'own.db'}", "sqlite")
    with closing(sqlite_connection(address, timeout=0)) as mine, closing(sqlite_connection(address)) as other:
        other.execute("begin immediate")

        with pytest.raises(StoreError, match="another process is writing") as raised:
            testing.outbox(mine)
        assert raised.type is StoreError


def test_drain_counts_only_its_own_tries_against_a_loop(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_module, "MOST_TRIES", 3)
    channels = Channels()

    @channels.channel("sulking")
    async def send(message: Message, *, timeout: float) -> Outcome:
        return Failed("busy")

    box = testing.outbox(connection, channels=channels)
    publish(connection, to="sulking:a")

    attempts = []
    for _ in range(5):
        attempts += [each.attempt for each in box.drain()]
        box.clock.advance(days=1)

    assert attempts == [1, 2, 3, 4, 5]
