"""What people see of the inbox, what they decide about it, and how long things are kept there."""

from datetime import timedelta

import pytest

from sendonce.domain.deliveries import DeliveryState
from sendonce.errors import NotAllowed, NotFound
from sendonce.store.inbox import MessageFilter
from sendonce.store.ports import Store
from tests.store.databases import REFUSED, Database
from tests.store.messages import given_message, given_receipt

pytestmark = pytest.mark.requirement("P3")

ADA = {"operator": "ada", "reason": "the wallet is there now"}
KEEP = timedelta(days=90)
DAY = 86_400


async def test_messages_are_listed_newest_first_and_by_filter(database: Database, store: Store) -> None:
    first = given_message(database, "m-1")
    second = given_message(database, "m-2", status="PendingRetry", consumer="mailer")
    third = given_message(database, "m-2", status="Completed", source="webhook:shop")

    async def found(**wanted: object) -> list[int]:
        return [each.id for each in await store.messages(MessageFilter(**wanted))]  # type: ignore[arg-type]

    assert await found() == [third, second, first]
    assert await found(dead=True) == [first]
    assert await found(consumer="mailer") == [second]
    assert await found(message_id="m-2") == [third, second]
    assert await found(status=DeliveryState.COMPLETED) == [third]
    assert await found(source="webhook:shop") == [third]
    assert await found(reason="exhausted") == [first]
    page = await store.messages(MessageFilter(limit=2))
    assert ([each.id for each in page], page.next_before) == ([third, second], second)
    assert await found(before=second) == [first]


async def test_message_is_shown_with_its_tries_and_receipts(database: Database, store: Store) -> None:
    row_id = given_message(database)
    given_receipt(database, "m-1", consumer="mailer", seen=0)

    row = await store.message(row_id)
    [tried] = await store.tries_of(row_id)
    [receipt] = await store.receipts_of("m-1")

    assert row is not None
    assert (row.consumer, row.reason, row.begun, row.finished) == ("wallet", "exhausted", 1, 1)
    assert (tried.number, tried.outcome, tried.error_message) == (1, "Failed", "wallet.py line 7")
    assert (receipt.consumer, receipt.duplicates) == ("mailer", 1)
    assert await store.message(99) is None


async def test_retry_opens_the_next_generation(database: Database, store: Store) -> None:
    row_id = given_message(database)

    acted = await store.retry_messages([row_id], **ADA)

    old, new = await store.message(row_id), await store.message(acted.ids[0])
    assert old is not None
    assert new is not None
    assert (old.status, old.closed_as, old.closed_by) == (DeliveryState.DEAD_LETTERED, "retried", "ada")
    assert (new.status, new.generation, new.begun, new.message_id) == (DeliveryState.PENDING, 1, 0, "m-1")
    assert database.one("select body from sendonce_messages where generation = 1") == b"12"
    assert [row["kind"] for row in database.rows("operations")] == ["retry"]
    with pytest.raises(NotAllowed, match="was retried by ada"):
        await store.retry_messages([row_id], **ADA)


async def test_retry_of_what_cannot_be_handled_again_is_refused(database: Database, store: Store) -> None:
    handled = given_message(database, "m-1")
    given_receipt(database, "m-1")
    cases = {
        handled: "has handled message",
        given_message(database, None, reason="malformed"): "no usable id",
        given_message(database, "m-2", status="PendingRetry"): "is PendingRetry",
        given_message(database, "m-3", status="Completed"): "is Completed",
    }

    for row_id, why in cases.items():
        with pytest.raises(NotAllowed, match=why):
            await store.retry_messages([row_id], **ADA)
    with pytest.raises(NotFound):
        await store.retry_messages([99], **ADA)
    assert database.rows("operations") == []


async def test_messages_that_are_dead_or_wait_can_be_discarded(database: Database, store: Store) -> None:
    dead, waiting = given_message(database, "m-1"), given_message(database, "m-2", status="PendingRetry")
    handled = given_message(database, "m-3", status="InProgress")

    await store.discard_messages([dead, waiting], **ADA)

    rows = [await store.message(each) for each in (dead, waiting)]
    assert [(row.reason, row.closed_as) for row in rows if row] == [
        ("exhausted", "discarded"),
        ("cancelled", "discarded"),
    ]
    with pytest.raises(NotAllowed, match="is InProgress"):
        await store.discard_messages([handled], **ADA)
    assert (await store.inbox_counts()).dead == 0


async def test_erasure_takes_away_content_and_what_handlers_have_said(database: Database, store: Store) -> None:
    row_id = given_message(database)
    given_receipt(database, "m-1", consumer="mailer")

    await store.erase_message("m-1", **ADA)

    [row] = database.rows("messages")
    assert (row["body"], row["headers"], row["error_message"]) == (None, None, None)
    assert row["content_gone_at"] is not None
    assert row["closed_as"] == "erased"
    assert [each.error_message for each in await store.tries_of(row_id)] == [None]
    assert [each["result"] for each in database.rows("receipts")] == [None]


async def test_counts_are_of_what_waits_is_dead_and_came_again(database: Database, store: Store) -> None:
    assert (await store.inbox_counts()).oldest_due_at is None
    given_message(database, "m-1")
    given_message(database, "m-2", status="PendingRetry", age=60)
    given_message(database, "m-3", status="Pending", consumer="mailer", age=90)
    given_receipt(database, "m-4")
    database.execute("update sendonce_receipts set duplicates = 3, seen_at = received_at")

    counts = await store.inbox_counts()

    assert (counts.waiting, counts.dead, counts.duplicates) == (2, 1, 3)
    assert counts.oldest_due_at is not None
    assert counts.late_consumer == "mailer"
    assert (await store.status()).now - counts.oldest_due_at > timedelta(seconds=80)


async def test_retention_goes_by_the_last_sight(database: Database, store: Store) -> None:
    given_receipt(database, "old", age=91 * DAY)
    given_receipt(database, "seen-again", age=91 * DAY, seen=89 * DAY)
    given_receipt(database, "seen-long-ago", age=200 * DAY, seen=91 * DAY)
    given_receipt(database, "young", age=89 * DAY)

    assert await store.drop_inbox(limit=10, keep=None) == 0
    assert await store.drop_inbox(limit=1, keep=KEEP) == 1
    assert await store.drop_inbox(limit=10, keep=KEEP) == 1

    assert sorted(row["message_id"] for row in database.rows("receipts")) == ["seen-again", "young"]
    assert await store.drop_inbox(limit=10, keep=KEEP) == 0


async def test_retention_leaves_what_waits_for_a_person(database: Database, store: Store) -> None:
    given_message(database, "dead", age=200 * DAY)
    given_message(database, "waiting", status="PendingRetry", age=200 * DAY)
    given_message(database, "done", status="Completed", age=91 * DAY)
    given_message(database, "young", status="Completed", age=80 * DAY)
    given_receipt(database, "done", age=91 * DAY)

    # Messages go before their receipts.
    assert await store.drop_inbox(limit=10, keep=KEEP) == 1
    assert len(database.rows("receipts")) == 1
    assert await store.drop_inbox(limit=10, keep=KEEP) == 1

    assert sorted(row["message_id"] for row in database.rows("messages")) == ["dead", "waiting", "young"]
    assert {row["message"] for row in database.rows("tries")} == {row["id"] for row in database.rows("messages")}


async def test_retention_takes_content_before_the_message(database: Database, store: Store) -> None:
    given_message(database, "dead", age=40 * DAY)
    given_message(database, "done", status="Completed", age=40 * DAY)
    given_message(database, "young", status="Completed", age=20 * DAY)

    assert await store.drop_inbox(limit=10, keep=KEEP, contents=timedelta(days=30)) == 1
    assert await store.drop_inbox(limit=10, keep=KEEP, contents=timedelta(days=30)) == 0

    kept = {row["message_id"]: row["body"] for row in database.rows("messages")}
    assert kept == {"dead": b"12", "done": None, "young": b"12"}


REFUSALS = {
    "messages_move_as_drawn": "update sendonce_messages set status = 'Completed', ended_at = created_at,"
    " next_attempt_at = null where message_id = 'waiting'",
    "ended_messages_are_frozen": "update sendonce_messages set begun = 9 where message_id = 'dead'",
    "messages_keep_their_identity": "update sendonce_messages set consumer = 'other' where message_id = 'waiting'",
    "messages_keep_their_content": "update sendonce_messages set body = {} where message_id = 'waiting'",
    "generation": "insert into sendonce_messages (consumer, message_id, generation, source, next_attempt_at,"
    " created_at, updated_at, seen_at) select consumer, message_id, 1, source, created_at, created_at, created_at,"
    " created_at from sendonce_messages where message_id = 'dead'",
    "tries_end_once": "update sendonce_tries set outcome = 'Completed'",
    "receipts_keep_what_they_say": "update sendonce_receipts set result = 'something else'",
    "receipts_have_names": "insert into sendonce_receipts (consumer, message_id, received_at)"
    " select consumer, '', received_at from sendonce_receipts",
}


@pytest.mark.parametrize("rule", REFUSALS)
def test_rule_of_the_inbox_is_held_by_the_database(database: Database, rule: str) -> None:
    given_message(database, "dead")
    given_message(database, "waiting", status="PendingRetry")
    given_receipt(database, "handled")
    other = "'other'::bytea" if "Postgres" in type(database).__name__ else "x'00'"
    before = [database.rows(each) for each in ("messages", "tries", "receipts")]

    with pytest.raises(REFUSED, match=rule):
        database.execute(REFUSALS[rule].replace("{}", other))

    assert [database.rows(each) for each in ("messages", "tries", "receipts")] == before
