"""What answers lead to, with a worker on a real store: a 500, Retry-After: 0, a limit that was lowered."""

from dataclasses import replace
from datetime import timedelta

import pytest
from aiohttp import web

from sendonce.channels.http.answers import outcome_of_status
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.guard import Guard
from sendonce.channels.http.webhook import Webhook
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import CannotTell, Delivered, Failed, Found, NotThere, Unknown
from sendonce.domain.policies import IfUnsure
from sendonce.store.ports import Store
from tests.engine.rig import QUICK, Asked, Told, serving, working
from tests.given import given_due_delivery, given_lease, settle_with
from tests.processes import until_async
from tests.receiver import Receiver
from tests.store.databases import Database

ALL_5XX = (500, 501, 502, 504, 505, 507, 511, 599)
LOWERED, HOLDING = replace(QUICK, max_attempts=2), replace(QUICK, if_unsure=IfUnsure.HOLD)


async def dead_letter(database: Database) -> tuple[str, bool, list[str]]:
    """The reason, whether it may have been sent, and the outcomes of all attempts."""
    await until_async(lambda: database.rows("dead_letters"), "a dead letter")
    [letter], [row] = database.rows("dead_letters"), database.rows("deliveries")
    attempts = sorted(database.rows("attempts"), key=lambda each: int(each["attempt"]))
    return letter["reason"], bool(row["in_doubt"]), [each["outcome"] for each in attempts]


@pytest.mark.parametrize("status", ALL_5XX)
async def test_hold_applies_after_any_5xx_but_503(database: Database, store: Store, status: int) -> None:
    given_due_delivery(database, to="test:a")
    channel = Told(outcome_of_status(status, None, None))

    async with working(store, serving(channel), policy=HOLDING):
        ended = await dead_letter(database)

    assert ended == ("in_doubt", True, ["Unknown"])
    assert len(channel.sent) == 1


async def test_status_503_is_sent_again_also_where_doubt_is_held(database: Database, store: Store) -> None:
    given_due_delivery(database, to="test:a")
    channel = Told(outcome_of_status(503, None, None))

    async with working(store, serving(channel), policy=HOLDING):
        ended = await dead_letter(database)

    assert ended == ("exhausted", False, ["Failed"] * 5)


@pytest.mark.parametrize(("last", "reason"), [(500, "exhausted"), (503, "exhausted"), (422, "refused")])
async def test_doubt_after_a_500_ends_when_the_resend_is_delivered(
    database: Database, store: Store, last: int, reason: str
) -> None:
    given_due_delivery(database, to="test:a")
    channel = Told(outcome_of_status(500, None, None), outcome_of_status(last, None, None))
    slow_to_ask = replace(QUICK, doubt_wait=timedelta(hours=1))

    async with working(store, serving(channel), policy=slow_to_ask):
        ended = await dead_letter(database)

    assert ended[:2] == (reason, True)
    assert len(channel.sent) == (2 if reason == "refused" else 5)


async def test_webhook_that_answers_500_is_held_with_one_request(database: Database, store: Store) -> None:
    channels = Channels()
    channels.add(Webhook(HttpClient(Guard.parse("127.0.0.0/8"))), "http")

    with Receiver(answer=lambda arrival: web.Response(status=500)) as receiver:
        given_due_delivery(database, to=receiver.url)
        async with working(store, channels, policy=HOLDING):
            ended = await dead_letter(database)
        await channels.close()

    assert ended == ("in_doubt", True, ["Unknown"])
    assert len(receiver.arrivals) == 1


async def test_retry_after_0_is_no_hot_loop_and_comes_to_an_end(database: Database, store: Store) -> None:
    """As often as it would have been tried, at the pace of the backoff: not some thousand times."""
    given_due_delivery(database, to="test:a")
    channel = Told(outcome_of_status(503, timedelta(0), None))

    async with working(store, serving(channel)):
        ended = await dead_letter(database)

    assert ended[:2] == ("exhausted", False)
    assert set(ended[2]) == {"Deferred"}
    assert QUICK.max_attempts <= len(channel.sent) <= 2 * QUICK.max_attempts


@pytest.mark.parametrize(("tried", "sends"), [(1, 1), (2, 0), (3, 0)])
async def test_W9_at_a_limit_that_was_lowered_no_request_goes_out(
    database: Database, store: Store, tried: int, sends: int
) -> None:
    given_due_delivery(database, to="test:a")
    for _ in range(tried):
        await settle_with(store, await given_lease(store), Failed("503"), QUICK)
        database.advance(timedelta(seconds=5))
    channel = Told(Failed("503"))

    async with working(store, serving(channel), policy=LOWERED):
        ended = await dead_letter(database)

    assert ended == ("exhausted", False, ["Failed"] * (tried + 1))
    assert len(channel.sent) == sends


@pytest.mark.parametrize("answer", [NotThere(), CannotTell("old"), CannotTell("known", is_safe_to_repeat=True)])
async def test_W9_at_a_limit_that_was_lowered_doubt_is_asked_about_and_nothing_is_sent(
    database: Database, store: Store, answer: NotThere | CannotTell
) -> None:
    given_due_delivery(database, to="test:a")
    for _ in range(2):
        await settle_with(store, await given_lease(store), Unknown("timeout"), QUICK, can_look_up=True)
        database.advance(timedelta(seconds=5))
    channel = Asked(Delivered("n-1"), answers=[answer])

    async with working(store, serving(channel), policy=LOWERED):
        reason, in_doubt, _ = await dead_letter(database)

    assert (reason, in_doubt) == ("exhausted", not isinstance(answer, NotThere))
    assert (len(channel.asked), channel.sent) == (1, [])


async def test_W9_at_a_limit_that_was_lowered_what_is_found_is_completed(database: Database, store: Store) -> None:
    given_due_delivery(database, to="test:a")
    for _ in range(2):
        await settle_with(store, await given_lease(store), Unknown("timeout"), QUICK, can_look_up=True)
        database.advance(timedelta(seconds=5))
    channel = Asked(Delivered("n-1"), answers=[Found("n-7")])

    async with working(store, serving(channel), policy=LOWERED):
        await until_async(lambda: database.rows("deliveries")[0]["status"] == "Completed", "it to be completed")

    assert channel.sent == []
