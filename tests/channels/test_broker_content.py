"""What a broker is given of a message: its headers, its trace context, its token, and CloudEvents 1.0."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from sendonce.admin.subscriptions import new_subscription
from sendonce.channels.brokers.amqp import AmqpProfile
from sendonce.channels.brokers.content import CLOUD_EVENT, Writer
from sendonce.channels.brokers.kafka import KafkaProfile
from sendonce.channels.brokers.nats import NatsProfile
from sendonce.channels.brokers.profile import BrokerProfile
from sendonce.channels.brokers.redis import RedisProfile
from sendonce.channels.protocol import Message
from sendonce.domain.answers import BROKER_ADDRESS
from sendonce.domain.destinations import BROKERS
from sendonce.errors import ConfigError
from tests.channels.sending import PAYLOAD, message_to
from tests.channels.troubles import free_port

MOMENT = datetime(2026, 11, 19, 13, 30, 15, 250_000, tzinfo=timezone(timedelta(hours=1)))
HEADERS = json.dumps({"Traceparent": "00-1-2-01", "tracestate": "a=b", "X-Team": "shop"})


def new_message(**changes: Any) -> Message:
    return message_to(
        "nats:main/orders", **{"recorded_at": MOMENT, "headers": HEADERS, "subject": "Größe 1", **changes}
    )


def attributes(message: Message) -> dict[str, str]:
    """What CloudEvents 1.0 asks for, and its extension for distributed tracing."""
    return {
        "specversion": "1.0",
        "id": message.token,
        "source": "/shop",
        "type": message.type,
        "time": "2026-11-19T12:30:15.250000Z",
        "datacontenttype": "application/json",
        "subject": "Größe 1",
        "traceparent": "00-1-2-01",
        "tracestate": "a=b",
    }


def test_cloud_event_in_structured_mode_has_the_payload_as_its_data() -> None:
    message = new_message()

    wire = Writer("cloudevents", "/shop", prefix="ce-").wire(message, message.token)

    assert json.loads(wire.body) == {**attributes(message), "data": json.loads(PAYLOAD)}
    assert wire.content_type == CLOUD_EVENT
    assert wire.headers["x-team"] == "shop"


@pytest.mark.parametrize("prefix", ["ce-", "ce_", "cloudEvents_"])
def test_cloud_event_in_binary_mode_has_its_attributes_in_headers(prefix: str) -> None:
    message = new_message()

    wire = Writer("cloudevents-binary", "/shop", prefix=prefix).wire(message, message.token)

    assert wire.body == PAYLOAD.encode()
    assert wire.content_type == "application/json"
    found = {name.removeprefix(prefix): value for name, value in wire.headers.items() if name.startswith(prefix)}
    assert found == attributes(message)


def test_cloud_event_has_ascii_headers_where_the_broker_takes_no_others() -> None:
    message = new_message()

    wire = Writer("cloudevents-binary", "/shop", prefix="ce-", is_ascii=True).wire(message, message.token)

    assert wire.headers["ce-subject"] == "Gr%C3%B6%C3%9Fe%201"
    assert all(value.isascii() for value in wire.headers.values())


@pytest.mark.parametrize(("content", "data"), [('{"a": 1}', {"a": 1}), ("Dear Ada,", "Dear Ada,")])
def test_content_of_a_destination_is_the_data_whether_it_is_json_or_not(content: str, data: object) -> None:
    message = new_message(content=content)

    wire = Writer("cloudevents", "/shop", prefix="ce-").wire(message, message.token)

    assert json.loads(wire.body)["data"] == data


@pytest.mark.parametrize(
    "name", ["Nats-Rollup", "nats-ttl", "Sendonce-Id", "ce-id", "ce_id", "CloudEvents_id", "Content-Type", "a b", ""]
)
def test_header_that_is_ours_or_that_a_broker_obeys_is_left_out(name: str) -> None:
    message = new_message(headers=json.dumps({name: "forged", "fine": "kept", "two": "a\nb", "number": 7}))

    for format in ("plain", "cloudevents", "cloudevents-binary"):
        wire = Writer(format, "/shop", prefix="ce-").wire(message, message.token)

        assert "forged" not in wire.headers.values()
        assert wire.headers["fine"] == "kept"
        assert not {"two", "number"} & set(wire.headers)


def profiles() -> list[BrokerProfile]:
    port = free_port()
    return [
        AmqpProfile(name="main", url=f"amqp://127.0.0.1:{port}"),
        NatsProfile(name="main", url=f"nats://127.0.0.1:{port}"),
        KafkaProfile(name="main", servers=(f"127.0.0.1:{port}",)),
        RedisProfile(name="main", url=f"redis://127.0.0.1:{port}"),
    ]


@pytest.mark.parametrize("scheme", BROKERS)
async def test_subscription_cannot_go_to_a_broker_of_ours(scheme: str) -> None:
    with pytest.raises(ConfigError, match=f"a subscription cannot go to {scheme}:, a broker of ours"):
        new_subscription(types=["*"], to=f"{scheme}:main/orders/placed", tenant="t")

    [profile] = [each for each in profiles() if each.scheme == scheme]
    channel = profile.channel()
    message = message_to(f"{scheme}:main/orders/placed", subscription_id=1, recorded_at=datetime.now(UTC))
    assert message.is_for_subscription
    assert await channel.send(message, timeout=5) == BROKER_ADDRESS


def test_profile_shows_no_secret() -> None:
    for profile in profiles():
        assert repr(profile) == f"{type(profile).__name__}(name='main')"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"name": "a/b"}, "[redis.a/b]: a broker's name has letters, digits, dots, - and _ only"),
        ({"source": ""}, "[redis.main] source must be a URI without spaces"),
        ({"certificate": "nonsense"}, "[redis.main] the client certificate cannot be read"),
        ({"policy": {"max_attempts": 0}}, "max_attempts must be between 1 and 10000"),
    ],
)
def test_settings_of_every_broker_are_checked(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        RedisProfile(**{"name": "main", "url": "redis://h", **settings})

    assert str(error.value).startswith(sentence)
