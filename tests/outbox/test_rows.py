"""The rows of one event: read back from both databases, and the same on each kind of connection."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import psycopg
import pydantic
import pytest

from sendonce import UNIQUE, Draft, Email, IfUnsure, Outbox
from sendonce.domain.destinations import destination_hash
from tests.outbox.callers import Caller
from tests.outbox.conftest import Kind
from tests.outbox.databases import Address, recording

LATER = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=timezone(timedelta(hours=2)))
LATEST = LATER + timedelta(days=1)
MAIL = Email("Ada@Example.COM", subject="Grüße 🎈", text="It's “saved”: 100% ?, :name, $1\n\\", html="<p>'\"</p>")


def moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromtimestamp(0, UTC) + timedelta(microseconds=value)


def as_bytes(value: Any) -> bytes:
    return value.bytes if isinstance(value, UUID) else bytes(value)


async def test_argument_arrives(kind: Kind, caller: Caller) -> None:
    arguments: dict[str, Any] = {
        "to": [MAIL, "HTTPS://Runner.Example:443/hook?a=%20b"],
        "tenant": "acme ✓",
        "subject": "order/1 'quoted'",
        "version": 2**63 - 1,
        "headers": {"x-reason": "tést %s :a $1"},
        "deliver_at": LATER,
        "expires_at": LATEST,
        "if_unsure": "hold",
    }
    payload = {"text": "it's %s %(a)s :a $1 ? \\ \u0000 \u2028 🎈", "deep": [{"n": 1.5}]}
    await caller.publish("order.created", payload, key=("order", "a/b%"), **arguments)
    await caller.publish_many([Draft("order.created", payload, key=key, **arguments) for key in ("b", "c")])
    await caller.end("commit")

    events = kind.address.look(
        "select key, routed, tenant, type, subject, version, payload, headers from sendonce_events order by key"
    )
    assert [key for key, *_ in events] == ["b", "c", "order/a%2Fb%25"]
    for _, *values, stored, headers in events:
        assert values == [2, "acme ✓", "order.created", "order/1 'quoted'", 2**63 - 1]
        assert json.loads(stored) == payload
        assert json.loads(headers) == {"x-reason": "tést %s :a $1"}
    check_deliveries(kind.address)


def check_deliveries(address: Address) -> None:
    rows = address.look(
        "select d.destination, d.destination_hash, d.has_content, d.next_attempt_at, d.expires_at, d.if_unsure,"
        " d.status, d.generation, d.attempt_count, d.subscription_id, c.content"
        " from sendonce_deliveries d left join sendonce_contents c"
        " on c.event_id = d.event_id and c.destination_hash = d.destination_hash and c.corrections = d.corrections"
        " order by d.event_id, d.destination"
    )
    uris = ["https://runner.example/hook?a=%20b", "mailto:Ada@example.com"]
    assert [row[0] for row in rows] == uris * 3
    for uri, hashed, has_content, next_attempt_at, expires_at, *rest, content in rows:
        assert as_bytes(hashed) == destination_hash(uri)
        assert bool(has_content) == (content is not None) == uri.startswith("mailto:")
        assert (moment(next_attempt_at), moment(expires_at)) == (LATER, LATEST)
        assert rest == ["hold", "Pending", 0, 0, None]
        assert content is None or content == MAIL.content()


async def test_event_without_options_has_empty_columns_and_is_due_at_once(kind: Kind, caller: Caller) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    await caller.publish("order.created", None, key="a", to="null:")
    await caller.publish_many([Draft("order.created", None, key=key, to="null:") for key in ("b", "c")])
    await caller.end("commit")

    events = kind.address.look("select tenant, subject, version, payload, headers from sendonce_events")
    assert events == [("", None, None, "null", None)] * 3
    rows = kind.address.look(
        "select expires_at, if_unsure, next_attempt_at, created_at, updated_at from sendonce_deliveries"
    )
    assert [row[:2] for row in rows] == [(None, None)] * 3
    for row in rows:
        assert all(before < moment(value) < before + timedelta(minutes=10) for value in row[2:])


async def test_event_for_nobody_is_recorded_too(kind: Kind, caller: Caller) -> None:
    published = await caller.publish("order.created", {}, key="a", to=None)
    batch = await caller.publish_many([Draft("order.created", {}, key=key, to=None) for key in ("b", "c")])
    await caller.end("commit")

    assert [each.deliveries for each in (published, *batch)] == [0, 0, 0]
    assert kind.address.counts() == {"events": 3, "deliveries": 0, "contents": 0}
    assert kind.address.look("select routed from sendonce_events") == [(0,)] * 3


def test_destination_in_two_spellings_gets_one_delivery(address: Address) -> None:
    with recording(address) as connection:
        to = ["mailto:Ada@Example.COM", "mailto:Ada@example.com", "HTTP://a.example:80", "http://a.example/"]
        published = Outbox().publish(connection, "memo.created", {}, key="a", to=to)

    assert published.deliveries == 2
    destinations = address.look("select destination from sendonce_deliveries order by destination")
    assert destinations == [("http://a.example/",), ("mailto:Ada@example.com",)]


def test_unique_key_is_new_every_time(address: Address) -> None:
    with recording(address) as connection:
        first, second = (Outbox().publish(connection, "a", {}, key=UNIQUE, to=None) for _ in range(2))
        batch = Outbox().publish_many(connection, [Draft("a", {}, key=UNIQUE, to=None) for _ in range(3)])

    assert len({first.event_id, second.event_id, *(each.event_id for each in batch)}) == 5
    keys = [key for (key,) in address.look("select key from sendonce_events")]
    assert all(len(key) == 39 and key.startswith("unique:") for key in keys)


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass
class Line:
    sku: UUID
    price: Decimal


class Order(pydantic.BaseModel):
    placed: datetime
    lines: list[int]


def test_values_backends_are_made_of_may_be_in_a_payload(address: Address) -> None:
    sku = UUID(int=7)
    payload = {
        "line": Line(sku, Decimal("12.50")),
        "order": Order(placed=datetime(2030, 1, 2, tzinfo=UTC), lines=[1]),
        "day": LATER.date(),
        "colour": Colour.RED,
        "took": timedelta(seconds=1.5),
        "tags": {"b", "a"},
    }
    with recording(address) as connection:
        Outbox().publish(connection, "a", payload, key="a", to=None)

    ((stored,),) = address.look("select payload from sendonce_events")
    assert json.loads(stored) == {
        "line": {"sku": str(sku), "price": "12.50"},
        "order": {"placed": "2030-01-02T00:00:00Z", "lines": [1]},
        "day": "2031-05-06",
        "colour": "red",
        "took": 1.5,
        "tags": ["a", "b"],
    }


def test_argument_if_unsure_may_be_the_value_itself(address: Address) -> None:
    with recording(address) as connection:
        Outbox().publish(connection, "a", {}, key="a", to="null:", if_unsure=IfUnsure.RESEND)

    assert address.look("select if_unsure from sendonce_deliveries") == [("resend",)]


@pytest.mark.parametrize("notify", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_workers_are_woken_by_the_commit_when_asked_for(postgres_address: Address, notify: bool, count: int) -> None:
    outbox = Outbox(notify=notify)
    with psycopg.connect(postgres_address.url, autocommit=True) as listener:
        listener.execute("listen sendonce")
        with recording(postgres_address) as connection:
            outbox.publish_many(connection, [Draft("a", {}, key=str(n), to="null:") for n in range(count)])
            connection.execute("notify sendonce, 'end'")
        heard = [each.payload for each in listener.notifies(timeout=50, stop_after=1 + notify)]

    assert heard == (["", "end"] if notify else ["end"])
