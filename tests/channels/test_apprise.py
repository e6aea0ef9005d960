"""The long tail through Apprise: a real service of its own on loopback; an address reaches no one else."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from sendonce.channels.apprise import POLICY, AppriseChannel, AppriseSettings, words_of
from sendonce.channels.protocol import Asking, Channel, Message
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import Delivered, Refused, Unknown
from sendonce.engine.attempt import message_of
from sendonce.errors import ConfigError
from sendonce.store.ports import Store
from tests.channels.contract import ChannelContract
from tests.channels.http_troubles import place_in_trouble
from tests.domain.values import a_claim
from tests.engine.conftest import sqlite, sqlite_store, sqlite_template
from tests.engine.rig import working
from tests.given import given_due_delivery
from tests.processes import until_async
from tests.receiver import Arrival, Receiver
from tests.store.databases import SqliteDatabase

__all__ = ["sqlite", "sqlite_store", "sqlite_template"]

# Apprise's plug-ins import what Python will lose; that is theirs to change.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def a_message(address: str = "sms:+41791234567", **changes: Any) -> Message:
    claim = a_claim(destination=address, address=address, **{"payload": '{"text": "Grüße"}', **changes})
    return message_of(claim, "here")


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[AppriseChannel]:
    channel = AppriseChannel(AppriseSettings(scheme="sms", url=url))
    yield channel
    await channel.close()


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def url_of(receiver: Receiver, rest: str = "/to/{address}") -> str:
    return f"{receiver.url.replace('http:', 'json:')}{rest}"


class TestAppriseInTrouble(ChannelContract):
    column = "Apprise"

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        async with (
            place_in_trouble(trouble) as place,
            serving(f"{place.replace('http', 'json')}/{{address}}") as channel,
        ):
            yield channel, a_message()


async def test_M15_message_reaches_its_address_through_a_service_of_apprise(receiver: Receiver) -> None:
    async with serving(url_of(receiver)) as channel:
        outcome = await channel.send(a_message(payload='{"title": "Shop", "text": "Grüße"}'), timeout=30)

    [arrival] = receiver.arrivals
    said = json.loads(arrival.body)
    assert outcome == Delivered()
    assert arrival.path == "/to/+41791234567"
    assert (said["title"], said["message"]) == ("Shop", "Grüße")
    assert not isinstance(channel, Asking)


@pytest.mark.parametrize("status", [302, 400, 404, 429, 500, 503])
async def test_refusal_by_apprise_is_unknown_because_it_gives_no_reason(status: int) -> None:
    def answer(arrival: Arrival) -> web.Response:
        return web.Response(status=status)

    with Receiver(answer=answer) as receiver:
        async with serving(url_of(receiver)) as channel:
            outcome = await channel.send(a_message(), timeout=30)

    assert isinstance(outcome, Unknown)
    assert len(receiver.arrivals) == 1


async def test_service_that_hangs_ends_in_time() -> None:
    with Receiver(delay=30) as receiver:
        async with serving(url_of(receiver)) as channel:
            outcome = await channel.send(a_message(), timeout=0.5)

    assert isinstance(outcome, Unknown)


@pytest.mark.parametrize(
    "address",
    [
        "sms:..",
        "sms:../admin",
        "sms:a/b",
        "sms:a,b",
        "sms:a;b",
        "sms:a b",
        "sms:a?method=GET",
        "sms:a&method=GET",
        "sms:a%2F..%2Fadmin",
        "sms:{address}",
        "sms:",
        "sms:" + "1" * 300,
    ],
)
async def test_address_that_could_mean_something_else_is_refused(receiver: Receiver, address: str) -> None:
    async with serving(url_of(receiver)) as channel:
        outcome = await channel.send(a_message(address), timeout=30)

    assert isinstance(outcome, Refused)
    assert outcome.code == "bad_address"
    assert receiver.arrivals == []


@pytest.mark.parametrize("address", ["user:password@127.0.0.2:9", "@evil.example", "#fragment", "a:b", "..a", "+1=2~3"])
@pytest.mark.parametrize("rest", ["/to/{address}", "/to/{address}/end", "/to?:to={address}", "?:to={address}"])
async def test_address_changes_neither_host_nor_credentials(receiver: Receiver, address: str, rest: str) -> None:
    async with serving(url_of(receiver, rest)) as channel:
        outcome = await channel.send(a_message(f"sms:{address}"), timeout=30)

    assert outcome == Delivered()
    [arrival] = receiver.arrivals
    if "?" in rest:
        assert json.loads(arrival.body)["to"] == address
    else:
        assert arrival.path == rest.format(address=address)


@pytest.mark.parametrize(
    "url",
    [
        "json://127.0.0.1/",
        "json://{address}",
        "json://{address}/",
        "json://{address}@127.0.0.1/",
        "json://user:{address}@127.0.0.1/",
        "{address}",
        "nosuchservice://127.0.0.1/{address}",
        "json://127.0.0.1/{address}?retry=3",
    ],
)
def test_url_in_which_an_address_could_do_harm_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="Apprise"):
        AppriseSettings(scheme="sms", url=url)


def test_url_is_never_shown() -> None:
    settings = AppriseSettings(scheme="sms", url="json://user:hidden@127.0.0.1/{address}")

    assert "hidden" not in repr(settings)


async def test_apprise_logs_nobodys_address(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(url_of(receiver)) as channel:
        await channel.send(a_message(), timeout=30)

    assert receiver.arrivals
    assert "41791234567" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"payload": '{"memo": 1}'}, ("memo.created", '{\n  "memo": 1\n}')),
        ({"payload": '{"text": "hi"}'}, ("", "hi")),
        ({"content": '{"subject": "Hi", "text": "hello"}'}, ("Hi", "hello")),
        ({"content": "plain words"}, ("", "plain words")),
        ({"payload": '{"text": "hi", "title": 1}'}, ("", "hi")),
    ],
)
def test_mail_parts_become_title_and_body(changes: dict[str, str], words: tuple[str, str]) -> None:
    assert words_of(a_message(**changes)) == words


async def test_message_without_words_is_refused(receiver: Receiver) -> None:
    async with serving(url_of(receiver)) as channel:
        outcome = await channel.send(a_message(payload='{"text": " "}'), timeout=30)

    assert isinstance(outcome, Refused)
    assert receiver.arrivals == []


async def test_refusal_by_apprise_is_held_for_a_person(sqlite: SqliteDatabase, sqlite_store: Store) -> None:
    given_due_delivery(sqlite, to="sms:+41791234567", payload={"text": "hi"})
    channels = Channels()

    with Receiver(answer=lambda arrival: web.Response(status=500)) as receiver:
        async with serving(url_of(receiver)) as channel:
            channels.add(channel, "sms", **POLICY)
            async with working(sqlite_store, channels):
                await until_async(lambda: sqlite.rows("dead_letters"), "it is given up")

    assert len(receiver.arrivals) == 1
    assert [row["reason"] for row in sqlite.rows("dead_letters")] == ["in_doubt"]


def test_apprise_is_imported_only_where_it_is_used() -> None:
    source = (Path(__file__).parents[2] / "src/sendonce/channels/apprise.py").read_text()

    assert "\nimport apprise" not in source
    assert "\nfrom apprise" not in source
