"""Some of what is sent fails: what is somebody's own fault stops nobody else, and a share of failures stops nobody."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from sendonce.channels.protocol import Message
from sendonce.domain.outcomes import Delivered, Failed, Fault, Outcome
from sendonce.observability.facts import Tripped
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import Store
from tests.engine.rig import QUICK, Told, serving, working
from tests.processes import until_async
from tests.store.databases import Database

MS = timedelta(milliseconds=1)
GREYLISTED = Failed("smtp_450", "greylisted", fault=Fault.RECIPIENT)
UNEXPLAINED = Failed("no_route")


class Answering(Told):
    """Answers as it is asked to."""

    def __init__(self, answer: Callable[[Message], Outcome]) -> None:
        super().__init__()
        self._answer = answer

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        self.script = [self._answer(message)]
        return await super().send(message, timeout=timeout)


def publish(database: Database, tenant: str, destinations: list[str]) -> None:
    with database.connection() as connection:
        drafts = [Draft("memo.created", {}, key=to, to=to, tenant=tenant) for to in destinations]
        Outbox().publish_many(connection, drafts)


def completed(database: Database, tenant: str) -> int:
    sql = (
        "select count(*) from sendonce_deliveries d join sendonce_events e on e.id = d.event_id"
        " where e.tenant = ? and d.status = 'Completed'"
    )
    return int(database.one(sql, tenant))


@pytest.mark.parametrize(("scheme", "fails_with"), [("mailto", GREYLISTED), ("sms", UNEXPLAINED)])
async def test_tenants_bad_recipients_stop_nobody_elses_messages(
    database: Database, store: Store, scheme: str, fails_with: Failed
) -> None:
    """Forty in a row, in front of everybody else, over one channel without hosts."""
    publish(database, "a", [f"{scheme}:a{number}@example.com" for number in range(40)])
    publish(database, "b", [f"{scheme}:b{number}@example.com" for number in range(60)])
    channel = Answering(lambda message: fails_with if f"{scheme}:a" in message.address else Delivered())
    async with working(store, serving(channel, scheme), breaker_pause=timedelta(minutes=5)) as at_work:
        await until_async(lambda: completed(database, "b") == 60, "all of those that can be reached")
        await until_async(lambda: open_ones(database) == 0, "the others to be given up")

    assert at_work.said(Tripped) == []
    assert int(database.one("select count(*) from sendonce_breakers")) == 0


async def test_channel_that_is_down_is_left_alone_and_found_again(database: Database, store: Store) -> None:
    publish(database, "a", [f"mailto:a{number}@example.com" for number in range(60)])
    is_down = True

    def answer(message: Message) -> Outcome:
        return Failed("smtp_421", fault=Fault.CHANNEL) if is_down else Delivered()

    channel = Answering(answer)
    settings: dict[str, Any] = {"breaker_pause": 50 * MS, "breaker_longest": timedelta(minutes=5)}
    async with working(store, serving(channel, "mailto"), **settings) as at_work:
        await until_async(lambda: len(at_work.said(Tripped)) >= 4, "some probes")
        assert len(channel.sent) < 40, "nobody knocks at a closed door all the time"
        is_down = False
        await until_async(lambda: completed(database, "a") == 60, "everything to arrive")

    assert int(database.one("select count(*) from sendonce_dead_letters")) == 0


async def test_receiver_that_answers_seven_of_ten_gets_everything_soon(database: Database, store: Store) -> None:
    """Its breaker opens, because two failures in a row are enough here; it is not left alone for minutes after that."""
    with database.connection() as connection:
        drafts = [Draft("memo.created", {}, key=f"k-{n}", to="test://shop.example/", tenant="b") for n in range(80)]
        Outbox().publish_many(connection, drafts)
    numbers = count()
    channel = Answering(lambda message: Failed("http_503") if next(numbers) % 10 in (3, 4, 8) else Delivered())
    settings: dict[str, Any] = {"breaker_pause": 20 * MS, "breaker_longest": timedelta(minutes=5), "breaker_after": 2}
    policy = replace(QUICK, max_attempts=50)
    async with working(store, serving(channel), policy=policy, concurrency=20, **settings) as at_work:
        await until_async(lambda: completed(database, "b") == 80, "all of them", 100.0)

    assert at_work.said(Tripped)


def open_ones(database: Database) -> int:
    sql = "select count(*) from sendonce_deliveries where status not in ('Completed', 'DeadLettered')"
    return int(database.one(sql))
