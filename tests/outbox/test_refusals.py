"""What cannot be recorded: one clear sentence, and nothing written."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy

from sendonce import (
    UNIQUE,
    BadDestination,
    BadEvent,
    ConfigError,
    Draft,
    Email,
    Outbox,
    PublishError,
    SchemaMismatch,
    SendonceError,
)
from tests.outbox.callers import Caller
from tests.outbox.conftest import Kind
from tests.outbox.databases import NOTHING, Address, recording, sqlite_connection

NOW = datetime.now(UTC)


@dataclass(frozen=True)
class Own:
    """A typed destination of the caller's own making."""

    uri: str
    text: str

    def content(self) -> str:
        return self.text


GOOD: dict[str, Any] = {"type": "memo.created", "payload": {}, "key": "a", "to": "null:a"}
BAD: dict[str, tuple[dict[str, Any], type[SendonceError], str]] = {
    "no type": ({"type": ""}, BadEvent, "event type"),
    "a type with a space": ({"type": "memo created"}, BadEvent, "like memo.created"),
    "a type that is no text": ({"type": 7}, BadEvent, "event type"),
    "a long type": ({"type": "a" * 129}, BadEvent, "up to 128"),
    "no key": ({"key": None}, BadEvent, "key is None"),
    "an empty key": ({"key": ""}, BadEvent, "key is empty"),
    "an empty tuple as key": ({"key": ()}, BadEvent, "empty tuple"),
    "None inside a key": ({"key": ("memo", None)}, BadEvent, r"key\[1\] is None"),
    "a float in a key": ({"key": ("memo", 1.5)}, BadEvent, r"key\[1\] is a float"),
    "UNIQUE inside a key": ({"key": ("memo", UNIQUE)}, BadEvent, r"key\[1\]"),
    "a long key": ({"key": "é" * 251}, BadEvent, "502 bytes"),
    "a NUL in a key": ({"key": "a\0b"}, BadEvent, "NUL"),
    "a lone surrogate in a key": ({"key": "\ud800"}, BadEvent, "Unicode"),
    "a payload that is not JSON": ({"payload": {"a": object()}}, BadEvent, "not JSON"),
    "not a number in a payload": ({"payload": float("nan")}, BadEvent, "not JSON"),
    "a lone surrogate in a payload": ({"payload": "\ud800"}, BadEvent, "Unicode"),
    "an oversized payload": ({"payload": "x" * 1000}, BadEvent, "1002 bytes"),
    "a deep payload": ({"payload": json.loads("[" * 101 + "]" * 101)}, BadEvent, "levels deep"),
    "nothing named": ({"to": []}, BadEvent, "to is empty; name a destination, or say to=None"),
    "an empty tuple as destination": ({"to": ()}, BadEvent, "to is empty"),
    "a scheme with a letter left out": ({"to": "htps://a.example/"}, BadDestination, "is one letter away from https:;"),
    "a scheme with a letter too many": (
        {"to": "mailtoo:ada@a.example"},
        BadDestination,
        "one letter away from mailto:",
    ),
    "a scheme with another letter": ({"to": "nuhl:a"}, BadDestination, "one letter away from null:"),
    "a scheme with two letters swapped": ({"to": "hTTSp://a.example/"}, BadDestination, "one letter away from https:"),
    "no channel": ({"to": "ada@example.com"}, BadDestination, "no channel"),
    "an empty destination": ({"to": [""]}, BadDestination, "no channel"),
    "a destination that is no text": ({"to": [7]}, BadDestination, "not int"),
    "a password in a destination": ({"to": "https://a:b@c.example/"}, BadDestination, "password"),
    "a space in a destination": ({"to": "https://a.example/b c"}, BadDestination, "spaces"),
    "a long destination": ({"to": "https://a.example/" + "x" * 2000}, BadDestination, "2000 bytes"),
    "a subscription as destination": ({"to": "subscription:1"}, BadDestination, "matching"),
    "no e-mail address": ({"to": "mailto:ada"}, BadDestination, "e-mail address"),
    "a destination with two contents": (
        {"to": [Email("a@b.example", text="1"), Email("a@B.example", text="2")]},
        BadDestination,
        "twice",
    ),
    "oversized content": ({"to": Email("a@b.example", text="x" * 1000)}, BadEvent, "1027 bytes"),
    "a NUL in content": ({"to": Own("sms:1", "a\0b")}, BadEvent, "NUL"),
    "a lone surrogate in content": ({"to": Email("a@b.example", text="\ud800")}, BadEvent, "Unicode"),
    "a long tenant": ({"tenant": "a" * 201}, BadEvent, "tenant is 201 bytes"),
    "a tenant that is no text": ({"tenant": None}, BadEvent, "tenant must be text"),
    "a long subject": ({"subject": "a" * 501}, BadEvent, "subject is 501 bytes"),
    "a version below zero": ({"version": -1}, BadEvent, "version"),
    "a version that is too large": ({"version": 2**63}, BadEvent, "version"),
    "a version that is no number": ({"version": "1"}, BadEvent, "version"),
    "headers that are no mapping": ({"headers": [("a", "b")]}, BadEvent, "headers must be texts by name"),
    "a header that is no text": ({"headers": {"a": 1}}, BadEvent, "headers must be texts by name"),
    "a header of two lines": ({"headers": {"a": "b\r\nc"}}, BadEvent, "one line"),
    "a time without zone": ({"deliver_at": datetime(2030, 1, 1)}, BadEvent, "deliver_at must be a datetime with"),  # noqa: DTZ001
    "a time that is no time": ({"expires_at": "tomorrow"}, BadEvent, "expires_at must be a datetime with"),
    "two times, one without zone": (
        {"deliver_at": NOW, "expires_at": datetime(2030, 1, 1)},  # noqa: DTZ001
        BadEvent,
        "expires_at must be a datetime with",
    ),
    "expired before it is due": (
        {"deliver_at": NOW, "expires_at": NOW - timedelta(seconds=1)},
        BadEvent,
        "later than deliver_at",
    ),
    "if_unsure": ({"if_unsure": "perhaps"}, BadEvent, "resend or hold"),
}
"""What is wrong, the argument, the error, and words of it."""


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_argument_that_is_invalid_is_named_and_nothing_is_written(
    address: Address, bad: tuple[dict[str, Any], type[SendonceError], str]
) -> None:
    change, error, words = bad
    outbox = Outbox(largest_payload=250)
    with recording(address) as connection:
        with pytest.raises(error, match=words) as raised:
            outbox.publish(connection, **(GOOD | change))
        with pytest.raises(error, match=words):
            outbox.publish_many(connection, [Draft(**(GOOD | {"key": "fine"})), Draft(**(GOOD | change))])

    assert "\n" not in str(raised.value)
    assert address.counts() == NOTHING


async def test_destination_is_never_left_out(kind: Kind, caller: Caller) -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'to'"):
        await caller.publish("memo.created", {}, key="a")
    with pytest.raises(TypeError, match="'to'"):
        Draft("memo.created", {}, key="a")  # type: ignore[call-arg]
    await caller.end("rollback")

    assert kind.address.counts() == NOTHING


async def test_scheme_that_nobody_knows_is_taken_unless_the_outbox_names_its_own(kind: Kind, caller: Caller) -> None:
    await caller.publish("memo.created", {}, key="a", to="pigeon:ada")
    caller.outbox = Outbox(schemes=("https", "sms"))
    for refused in ("pigeon:ada", ["sms:1", "null:a"]):
        with pytest.raises(
            BadDestination, match=r"^this outbox names no (pigeon|null): destinations, only: https, sms$"
        ):
            await caller.publish("memo.created", {}, key="b", to=refused)
    with pytest.raises(BadDestination, match="only: https, sms"):
        await caller.request("memo.created", {}, key="c", subject="a", version=1, required="mailto:ada@example.com")
    await caller.publish("memo.created", {}, key="b", to=["sms:1", "https://a.example/"])
    await caller.publish("memo.created", {}, key="c", to=None)
    await caller.end("commit")

    assert kind.address.counts() == {"events": 3, "deliveries": 3, "contents": 0}


@pytest.mark.parametrize("schemes", ["https", (), []])
def test_scheme_is_not_given_for_several(schemes: Any) -> None:
    with pytest.raises(ConfigError, match=r"^schemes must be several names"):
        Outbox(schemes=schemes)


def test_argument_if_different_is_one_of_two(sqlite_address: Address) -> None:
    with recording(sqlite_address) as connection, pytest.raises(BadEvent, match="keep_first"):
        Outbox().publish(connection, "a", {}, key="a", to=None, if_different="keep_last")  # type: ignore[arg-type]


def test_publish_many_takes_drafts(sqlite_address: Address) -> None:
    with recording(sqlite_address) as connection, pytest.raises(BadEvent, match="Draft"):
        Outbox().publish_many(connection, [("memo.created", {}, "a")])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "settings",
    [
        {"most_destinations": 0},
        {"most_destinations": "9"},
        {"largest_payload": 0},
        {"largest_payload": "1"},
        {"largest_payload": True},
        {"notify": 1},
    ],
)
def test_outbox_refuses_a_wrong_setting_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Outbox(**settings)


NO_CONNECTIONS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a text": lambda: "postgresql://localhost/app",
    "an engine": lambda: sqlalchemy.create_engine("sqlite://"),
    "a class": lambda: sqlite3.Connection,
}


@pytest.mark.parametrize("make", NO_CONNECTIONS.values(), ids=NO_CONNECTIONS)
def test_connection_of_another_type_is_refused(make: Callable[[], Any]) -> None:
    thing = make()

    with pytest.raises(PublishError, match=r"not a connection .* sqlite3, psycopg, .* SQLAlchemy"):
        Outbox().publish(thing, "a", {}, key="a", to=None)
    with pytest.raises(PublishError, match="not a connection"):
        asyncio.run(Outbox().apublish(thing, "a", {}, key="a", to=None))


async def test_connections_sync_and_async_are_told_apart(kind: Kind) -> None:
    async with kind.open(kind.address) as caller:
        if caller.is_async:
            with pytest.raises(PublishError, match=r"is async: say `await outbox\.apublish"):
                Outbox().publish(caller.connection, "a", {}, key="a", to=None)
        else:
            with pytest.raises(PublishError, match=r"is not async: say `outbox\.publish"):
                await Outbox().apublish(caller.connection, "a", {}, key="a", to=None)


def test_database_of_another_kind_is_refused() -> None:
    engine = sqlalchemy.create_mock_engine("mysql://", lambda *_: None)

    class Connection(sqlalchemy.Connection):
        def __init__(self) -> None:
            self.dialect = engine.dialect

    with pytest.raises(PublishError, match=r"mysql through .* use PostgreSQL"):
        Outbox().publish(Connection(), "a", {}, key="a", to=None)


async def test_tables_that_are_missing_are_named(kind: Kind) -> None:
    kind.address.change("drop table sendonce_events")
    async with kind.open(kind.address) as caller:
        with pytest.raises(SchemaMismatch, match="run: sendonce migrate") as raised:
            await caller.publish("memo.created", {"secret": "hunter2"}, key="a", to=None)
        await caller.end("rollback")

    assert "hunter2" not in str(raised.value) + str(raised.value.__cause__)


async def test_errors_of_the_driver_stay_and_show_no_payload(kind: Kind) -> None:
    if kind.address.dialect == "sqlite":
        kind.address.change(
            "create trigger no before insert on sendonce_deliveries begin select raise(abort, 'trouble'); end"
        )
    else:
        kind.address.change("alter table sendonce_deliveries add constraint trouble check (generation > 0)")
    async with kind.open(kind.address) as caller:
        with pytest.raises(Exception, match="trouble") as raised:
            await caller.publish("memo.created", {"secret": "hunter2"}, key="a", to="null:")
        await caller.end("rollback")

    assert not isinstance(raised.value, SendonceError)
    assert "hunter2" not in str(raised.value)


def test_connection_that_is_closed_is_reported_in_the_drivers_words(sqlite_address: Address) -> None:
    with closing(sqlite_connection(sqlite_address)) as connection:
        pass

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        Outbox().publish(connection, "a", {}, key="a", to=None)


BEYOND = datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))


@pytest.mark.parametrize("name", ["deliver_at", "expires_at"])
async def test_driver_records_no_time_that_cannot_be_read_again(kind: Kind, caller: Caller, name: str) -> None:
    beyond: dict[str, Any] = {name: BEYOND}
    with pytest.raises(BadEvent, match=f"{name} must lie between"):
        await caller.publish("memo.created", {}, key="a", to="null:", **beyond)
    with pytest.raises(BadEvent, match=f"{name} must lie between"):
        await caller.publish_many([Draft("memo.created", {}, key="a", to="null:", **beyond)])
    await caller.end("commit")

    assert kind.address.counts() == NOTHING
    await caller.publish("memo.created", {}, key="a", to="null:", **{name: datetime(9999, 12, 30, 23, tzinfo=UTC)})
    await caller.end("commit")
    assert kind.address.counts()["deliveries"] == 1
