"""A message is handled once, in the caller's transaction, on every kind of connection."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from sendonce import BadMessage, NotAllowed, NotInTransaction, PublishError, Receipt
from tests.inbox.handling import EFFECT, INBOX, HandlerFailed, effects, handle, handle_many, receipts
from tests.outbox.callers import Caller
from tests.outbox.conftest import Kind

pytestmark = pytest.mark.requirement("P5")


async def test_message_is_handled_once(kind: Kind, caller: Caller) -> None:
    first = await handle(caller, "m-1")
    await caller.end("commit")
    again = await handle(caller, "m-1")
    await caller.end("commit")
    once_more = await handle(caller, "m-1")
    await caller.end("commit")

    assert [bool(each) for each in (first, again, once_more)] == [True, False, False]
    assert [each.duplicates for each in (first, again, once_more)] == [0, 1, 2]
    assert first.received_at is None
    assert again.received_at is not None
    assert abs(datetime.now(UTC) - again.received_at) < timedelta(hours=1)
    assert effects(kind.address) == 1
    assert receipts(kind.address) == [("mailer", "m-1", 2, None)]


async def test_receipt_and_effect_are_rolled_back_together(kind: Kind, caller: Caller) -> None:
    await handle(caller, "m-1")
    await caller.end("rollback")
    assert (effects(kind.address), receipts(kind.address)) == (0, [])

    again = await handle(caller, "m-1")
    await caller.end("commit")

    assert again.first
    assert (effects(kind.address), receipts(kind.address)) == (1, [("mailer", "m-1", None, None)])


async def test_message_that_is_not_committed_is_seen_by_nobody(kind: Kind, caller: Caller) -> None:
    await handle(caller, "m-1")

    assert receipts(kind.address) == []
    await caller.end("commit")
    assert receipts(kind.address) == [("mailer", "m-1", None, None)]


async def test_message_has_a_receipt_for_each_consumer(kind: Kind, caller: Caller) -> None:
    firsts = [(await handle(caller, "m-1", consumer=each)).first for each in ("mailer", "ledger", "mailer")]
    await caller.end("commit")

    assert firsts == [True, True, False]
    assert [each[0] for each in receipts(kind.address)] == ["ledger", "mailer"]


async def test_error_in_a_handler_leaves_neither_receipt_nor_effect(kind: Kind, caller: Caller) -> None:
    """Even where somebody goes on after it and commits."""
    with pytest.raises(HandlerFailed):
        await handle(caller, "m-1", fails=True)
    await caller.end("commit")

    assert (effects(kind.address), receipts(kind.address)) == (0, [])
    await caller.end("rollback")
    assert (await handle(caller, "m-1")).first


async def test_savepoint_rolled_back_takes_the_receipt_along_and_the_rest_lives(kind: Kind, caller: Caller) -> None:
    await handle(caller, "m-1")
    await caller.do("savepoint caller")
    with pytest.raises(HandlerFailed):
        await handle(caller, "m-2", fails=True)
    await caller.do("rollback to savepoint caller")
    await handle(caller, "m-3")
    await caller.end("commit")

    assert [each[1] for each in receipts(kind.address)] == ["m-1", "m-3"]
    assert effects(kind.address) == 2


async def test_commit_inside_the_block_is_the_callers_own(kind: Kind, caller: Caller) -> None:
    if caller.is_async:
        async with INBOX.aonce(caller.connection, "mailer", "m-1"):
            await caller.do(EFFECT.format(1))
            await caller.end("commit")
    else:
        with INBOX.once(caller.connection, "mailer", "m-1"):
            await caller.do(EFFECT.format(1))
            await caller.end("commit")
    await handle(caller, "m-2")
    await caller.end("commit")

    assert [each[1] for each in receipts(kind.address)] == ["m-1", "m-2"]
    assert effects(kind.address) == 2


async def test_result_is_kept_and_a_duplicate_has_it(kind: Kind, caller: Caller) -> None:
    await handle(caller, "m-1", result="deducted 12 \N{EURO SIGN}")
    await caller.end("commit")
    again = await handle(caller, "m-1")

    assert again.result == "deducted 12 \N{EURO SIGN}"
    with pytest.raises(NotAllowed, match="handled before"):
        again.result = "something else"


async def test_batch_is_handled_in_the_order_given(kind: Kind, caller: Caller) -> None:
    await handle(caller, "b")
    await caller.end("commit")
    found = await handle_many(caller, ["d", "b", "a", "d", 'c"\\', "b"])
    await caller.end("commit")

    assert [each.message_id for each in found] == ["d", "b", "a", "d", 'c"\\', "b"]
    assert [each.first for each in found] == [True, False, True, False, True, False]
    assert [each.duplicates for each in found] == [0, 1, 0, 1, 0, 2]
    assert effects(kind.address) == 4
    assert await handle_many(caller, []) == []


async def test_connection_that_commits_by_itself_is_refused(kind: Kind) -> None:
    async with kind.open(kind.address, autocommit=True) as caller:
        with pytest.raises(NotInTransaction):
            await handle(caller, "m-1")

    assert receipts(kind.address) == []


BAD_IDS = [None, "", "  \n", "x" * 501, "\u20ac" * 167, "a\0b", "a\ud800", b"raw", 1.5, True, ("a", 1)]


async def test_message_without_a_usable_id_is_refused(kind: Kind, caller: Caller) -> None:
    message_id: Any
    for message_id in BAD_IDS:
        with pytest.raises(BadMessage, match="a message's id"):
            await handle(caller, message_id)
        with pytest.raises(BadMessage, match="a message's id"):
            await handle_many(caller, ["good", message_id])
    await caller.end("commit")

    assert (effects(kind.address), receipts(kind.address)) == (0, [])


async def test_message_id_is_kept_as_it_is(kind: Kind, caller: Caller) -> None:
    for message_id in ("x" * 500, 7, UUID(int=7), "\N{PILE OF POO}" * 125, " padded "):
        assert await handle(caller, message_id)
        assert not await handle(caller, message_id)
        await caller.end("commit")

        assert str(message_id) in {each[1] for each in receipts(kind.address)}


async def test_consumer_without_a_name_is_refused(caller: Caller) -> None:
    consumer: Any
    for consumer in ("", "x" * 201, None):
        with pytest.raises(BadMessage, match="a consumer's name"):
            await handle(caller, "m-1", consumer=consumer)


async def test_handler_that_is_decorated_is_called_once_and_answers_again(kind: Kind, caller: Caller) -> None:
    calls: list[int] = []

    @INBOX.handler("mailer")
    def sync_deduct(connection: object, message_id: object, amount: int) -> str | None:
        calls.append(amount)
        return f"deducted {amount}"

    @INBOX.ahandler("mailer")
    async def deduct(connection: object, message_id: object, amount: int) -> str | None:
        calls.append(amount)
        return f"deducted {amount}"

    answers = []
    for amount in (12, 13):
        if caller.is_async:
            answers.append(await deduct(caller.connection, "m-1", amount))
        else:
            answers.append(sync_deduct(caller.connection, "m-1", amount=amount))
        await caller.end("commit")

    assert answers == ["deducted 12", "deducted 12"]
    assert calls == [12]


async def test_connection_of_the_other_kind_is_told_what_to_say(caller: Caller) -> None:
    wrong = INBOX.once if caller.is_async else INBOX.aonce

    with pytest.raises(PublishError, match="once"):
        wrong(caller.connection, "mailer", "m-1")


def test_result_that_is_too_long_is_refused() -> None:
    from sendonce.domain.messages import Name

    receipt = Receipt(Name("mailer", "m-1"))

    for result in ("x" * 2001, "", "a\0"):
        with pytest.raises(BadMessage, match="a result"):
            receipt.result = result
