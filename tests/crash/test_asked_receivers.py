"""SIGKILL around the send to a receiver that can be asked: what arrived is found by asking, and sent only once."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from sendonce.admin import subscriptions
from sendonce.compose import open_store
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.sealing import SecretBox
from tests.crash import killing
from tests.crash.accounts import Limits, all_completed, end_leases, in_flight, url_of, worker
from tests.inbox.asking import CONSUMER, AskedReceiver
from tests.processes import sendonce
from tests.store.databases import Database

AMOUNT = 12
VICTIM = Limits(lease="120s", timeout="60s")


@pytest.fixture
def asked(database: Database) -> Iterator[AskedReceiver]:
    with AskedReceiver(database, at_once=AMOUNT) as receiver:  # an audit asks about all of them at once
        yield receiver


async def subscribe(database: Database, receiver: AskedReceiver, *, ask: str | None) -> None:
    store = await open_store(url_of(database))
    try:
        wanted = subscriptions.new_subscription(types=["*"], to=f"{receiver.url}/hook", ask=ask)
        secrets = subscriptions.Secrets(signing=receiver.secret).sealed(SecretBox(()))
        await subscriptions.add(store, wanted, secrets=secrets, operator="ada")
    finally:
        await store.close()


def publish(database: Database) -> None:
    drafts = [Draft("memo.created", {"memo": number}, key=f"memo-{number}", to=None) for number in range(AMOUNT)]
    with database.connection() as connection:
        Outbox().publish_many(connection, drafts)


@pytest.mark.parametrize(
    ("point", "nth"),
    [("sender.after_send", 3), pytest.param("worker.before_settle", 1, marks=pytest.mark.more)],
)
def test_receiver_that_can_be_asked_gets_nothing_twice_when_the_worker_is_killed(
    database: Database, asked: AskedReceiver, point: str, nth: int
) -> None:
    asyncio.run(subscribe(database, asked, ask=asked.ask))
    publish(database)

    environment = {killing.POINT: point, killing.PASS: str(nth)}
    app = f"{killing.__name__}:channels"
    with worker(database, "--concurrency", "4", "--app", app, environment=environment, **VICTIM) as victim:
        assert victim.ended() == -signal.SIGKILL
    lost, arrived = in_flight(database), sum(asked.posts.values())
    end_leases(database)
    with worker(database) as heir:
        all_completed(database, AMOUNT)
        heir.send(signal.SIGTERM)
        assert heir.ended() == 0

    assert lost
    assert arrived >= 1
    assert len(asked.posts) == AMOUNT
    assert set(asked.posts.values()) == {1}
    assert set(asked.asked) <= set(asked.posts)
    assert sum(asked.asked.values()) >= len(lost)
    rows = database.rows("deliveries")
    assert {(row["status"], bool(row["in_doubt"])) for row in rows} == {("Completed", False)}
    assert {row["notification_id"] for row in rows} == set(asked.posts)
    assert [row["duplicates"] for row in database.rows("receipts")] == [None] * AMOUNT


@pytest.mark.sqlite_later
def test_audit_confirms_what_a_receiver_that_can_be_asked_has_and_finds_what_it_lost(
    database: Database, asked: AskedReceiver
) -> None:
    asyncio.run(subscribe(database, asked, ask=asked.ask))
    publish(database)
    with worker(database) as sender:
        all_completed(database, AMOUNT)
        sender.send(signal.SIGTERM)
        assert sender.ended() == 0
    [forgotten] = database.execute("select message_id from sendonce_receipts order by message_id limit 1")
    database.execute("delete from sendonce_receipts where message_id = ? and consumer = ?", forgotten[0], CONSUMER)

    audit = sendonce("reconcile", "--audit", "--since", "1h", "--policy", '{"doubt_wait": 0}',
                     database=url_of(database))  # fmt: skip
    with audit as auditing:
        code = auditing.ended()

    assert [row["kind"] for row in database.rows("findings")] == ["no_evidence"], (code, auditing.said)
