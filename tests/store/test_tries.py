"""Tries of messages: counted before they are made where that matters, tried again later, given up with a reason."""

from datetime import timedelta

import pytest

from sendonce.inbox.inbox import Inbox
from sendonce.store.ports import Store
from sendonce.store.tries import NEVER_AGAIN, Arrived, Content, Failure, Standing
from tests.store.databases import Database

MINUTE = timedelta(minutes=1)
BODY = Content(body=b'{"amount": 5}', headers={"x-tenant": "acme"}, subject="payments.new")
LATER = Failure("ValueError", "ValueError in wallet.py, line 3", again_in=MINUTE)
OVER = Failure("ValueError", "ValueError in wallet.py, line 3", reason="exhausted")


def arrived(id: str | None = "m-1", consumer: str = "wallet") -> Arrived:
    return Arrived(consumer=consumer, id=id, position="nats:payments:7", source="nats:main/payments")


def handled(database: Database, id: str = "m-1") -> None:
    """Write the receipt of a message, as its handler's transaction does."""
    with database.connection() as connection, Inbox().once(connection, "wallet", id):
        pass


async def begin(store: Store, message: Arrived | None = None, most_lost: int = 3) -> tuple[Standing, int]:
    begun = await store.begin_message(message or arrived(), most_lost=most_lost, worker="w:1")
    return begun.standing, begun.tries


async def due(store: Store, limit: int = 10) -> list[tuple[str | None, int, int]]:
    found = await store.due_messages("wallet", limit, hold=MINUTE, worker="w:1")
    return [(each.arrived.id, each.tries, each.lost) for each in found]


async def fail(store: Store, message: Arrived, row_id: int | None = None, failure: Failure = LATER) -> bool:
    return await store.fail_message(message, row_id, BODY, failure, worker="w:1")


async def test_message_given_again_has_its_try_counted_first(database: Database, store: Store) -> None:
    assert await begin(store) == (Standing.BEGUN, 1)

    [row] = database.rows("messages")
    assert (row["consumer"], row["message_id"], row["status"]) == ("wallet", "m-1", "InProgress")
    assert (row["begun"], row["finished"], row["body"]) == (1, 0, None)
    assert [each["outcome"] for each in database.rows("tries")] == [None]


async def test_message_that_was_handled_is_known(database: Database, store: Store) -> None:
    handled(database)

    assert await begin(store) == (Standing.KNOWN, 0)
    assert database.rows("messages") == []


async def test_message_whose_tries_end_with_their_process_is_poison(database: Database, store: Store) -> None:
    for tries in (1, 2, 3):
        assert await begin(store) == (Standing.BEGUN, tries)

    assert await begin(store) == (Standing.POISON, 3)
    assert [each["outcome"] for each in database.rows("tries")] == ["Lost", "Lost", None]


async def test_message_handled_after_its_try_was_counted_is_completed(database: Database, store: Store) -> None:
    begun = await store.begin_message(arrived(), most_lost=3, worker="w:1")
    assert begun.row_id is not None

    await store.complete_message(begun.row_id)
    await store.complete_message(begun.row_id)

    [row] = database.rows("messages")
    assert (row["status"], row["begun"], row["finished"], row["next_attempt_at"]) == ("Completed", 1, 1, None)
    assert [each["outcome"] for each in database.rows("tries")] == ["Completed"]


async def test_message_whose_consumer_died_after_its_commit_is_known(database: Database, store: Store) -> None:
    await begin(store)
    handled(database)

    assert await begin(store) == (Standing.KNOWN, 0)
    assert [row["status"] for row in database.rows("messages")] == ["Completed"]


async def test_message_that_failed_is_due_again_when_its_time_has_come(database: Database, store: Store) -> None:
    assert await fail(store, arrived())

    assert await due(store) == []
    assert await begin(store) == (Standing.KNOWN, 0)
    database.advance(MINUTE)
    assert await due(store) == [("m-1", 2, 0)]
    assert await due(store) == []


async def test_message_comes_again_with_all_that_it_had(database: Database, store: Store) -> None:
    await fail(store, arrived())
    database.advance(MINUTE)

    [waiting] = await store.due_messages("wallet", 1, hold=MINUTE, worker="w:1")

    assert waiting.content == BODY
    assert waiting.arrived == arrived()


async def test_message_of_another_consumer_is_not_due_here(database: Database, store: Store) -> None:
    await fail(store, arrived(consumer="ledger"))
    database.advance(MINUTE)

    assert await due(store) == []


async def test_message_that_fails_again_is_given_up_with_its_reason(database: Database, store: Store) -> None:
    await fail(store, arrived())
    database.advance(MINUTE)
    [waiting] = await store.due_messages("wallet", 1, hold=MINUTE, worker="w:1")

    assert await fail(store, arrived(), waiting.row_id, OVER)

    [row] = database.rows("messages")
    assert (row["status"], row["reason"], row["error_code"]) == ("DeadLettered", "exhausted", "ValueError")
    assert (row["begun"], row["finished"]) == (2, 2)
    assert [each["outcome"] for each in database.rows("tries")] == ["Failed", "Failed"]
    assert await begin(store) == (Standing.KNOWN, 0)


async def test_message_whose_consumer_died_while_it_was_tried_again_is_due_with_a_lost_try(
    database: Database, store: Store
) -> None:
    await fail(store, arrived())
    database.advance(MINUTE)
    assert await due(store) == [("m-1", 2, 0)]

    database.advance(MINUTE)

    assert await due(store) == [("m-1", 3, 1)]
    assert [each["outcome"] for each in database.rows("tries")] == ["Failed", "Lost", None]


async def test_message_that_is_held_is_nobody_elses(database: Database, store: Store) -> None:
    await fail(store, arrived())
    database.advance(MINUTE)
    [waiting] = await store.due_messages("wallet", 1, hold=MINUTE, worker="w:1")
    database.advance(MINUTE / 2)

    await store.hold_messages([waiting.row_id], MINUTE)
    database.advance(MINUTE / 2)

    assert await due(store) == []


async def test_message_whose_consumer_stops_is_due_at_once_and_no_try_is_lost(database: Database, store: Store) -> None:
    await fail(store, arrived())
    database.advance(MINUTE)
    [waiting] = await store.due_messages("wallet", 1, hold=MINUTE, worker="w:1")

    await store.return_messages([waiting.row_id])

    assert await due(store) == [("m-1", 3, 0)]


async def test_message_that_was_not_kept_is_returned_to_its_broker_alone(database: Database, store: Store) -> None:
    begun = await store.begin_message(arrived(), most_lost=1, worker="w:1")
    assert begun.row_id is not None

    await store.return_messages([begun.row_id])

    assert await due(store) == []
    assert await begin(store, most_lost=1) == (Standing.BEGUN, 2)


async def test_message_that_its_broker_never_gives_again_is_due_without_content(
    database: Database, store: Store
) -> None:
    await begin(store)
    database.advance(NEVER_AGAIN)

    [waiting] = await store.due_messages("wallet", 1, hold=MINUTE, worker="w:1")

    assert waiting.content is None


async def test_failure_of_a_message_that_was_committed_after_all_is_none(database: Database, store: Store) -> None:
    handled(database)

    assert not await fail(store, arrived())
    assert database.rows("messages") == []


async def test_message_that_fails_twice_at_its_broker_keeps_its_first_row(database: Database, store: Store) -> None:
    await fail(store, arrived())

    assert await fail(store, arrived(), failure=OVER)

    [row] = database.rows("messages")
    assert (row["status"], row["sightings"]) == ("PendingRetry", 2)


async def test_messages_without_an_id_are_kept_each_by_itself(database: Database, store: Store) -> None:
    nameless = Failure("malformed", "it has no id", reason="malformed")
    for _ in range(2):
        assert await fail(store, arrived(None), failure=nameless)

    rows = database.rows("messages")
    assert [(row["message_id"], row["reason"], row["error_message"]) for row in rows] == [
        (None, "malformed", "it has no id")
    ] * 2
    assert {each["outcome"] for each in database.rows("tries")} == {"Refused"}


@pytest.mark.parametrize("text", ["a\0b", "x" * 700, "\udcff"])
async def test_error_of_a_message_is_cleaned_alike(database: Database, store: Store, text: str) -> None:
    content = Content(body=b"", headers={"x": text}, subject=text)

    assert await store.fail_message(arrived(), None, content, Failure(text, text, again_in=MINUTE), worker=text)

    [row] = database.rows("messages")
    assert "\0" not in row["error_message"]
    assert len(row["error_message"]) <= 500
