"""Consumers are declared beside their handlers, and what cannot be is refused at once, in a sentence."""

from datetime import timedelta

import pytest

from sendonce.consumer.registry import Consumer, Consumers, Mode
from sendonce.errors import ConfigError


async def handle(connection: object, message: object) -> None:
    """Handle nothing."""


def registered(source: str = "nats:main/payments", name: str = "wallet", **settings: object) -> Consumer:
    consumers = Consumers()
    consumers.consumer(name, source, **settings)(handle)  # type: ignore[arg-type]
    [found] = consumers
    return found


def test_consumer_has_what_its_address_says() -> None:
    consumer = registered("amqp:shop/payments.new", mode="once", max_attempts=3, first_delay="1s")

    assert (consumer.scheme, consumer.profile, consumer.path) == ("amqp", "shop", "payments.new")
    assert consumer.mode is Mode.ONCE
    assert consumer.policy.max_attempts == 3
    assert consumer.policy.first_delay == timedelta(seconds=1)
    assert consumer.is_async


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"name": "the wallet"}, "name has up to 100 letters"),
        ({"name": ""}, "name has up to 100 letters"),
        ({"source": "nats:payments"}, "source must be like nats:PROFILE/STREAM"),
        ({"source": "ntas:main/payments"}, "source must be like nats:PROFILE/STREAM"),
        ({"mode": "twice"}, "mode is once or retry, not 'twice'"),
        ({"prefetch": 0}, "prefetch must be from 1 to 10000, not 0"),
        ({"concurrency": True}, "concurrency must be from 1 to 1000, not True"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"first_daly": "1s"}, "first_daly"),
    ],
)
def test_consumer_that_cannot_be_is_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        registered(**settings)  # type: ignore[arg-type]


def test_consumer_is_refused_a_handler_that_cannot_be_called() -> None:
    def without_message(connection: object) -> None:
        """Handle nothing."""

    with pytest.raises(ConfigError, match=r"called as handler\(connection, message\)"):
        Consumers().consumer("wallet", "nats:main/payments")(without_message)


def test_consumer_name_is_given_once() -> None:
    consumers = Consumers()
    consumers.consumer("wallet", "nats:main/payments")(handle)

    with pytest.raises(ConfigError, match="two consumers named wallet"):
        consumers.consumer("wallet", "nats:main/refunds")(handle)


def test_consumer_that_nobody_has_is_refused_with_those_there_are() -> None:
    consumers = Consumers()
    consumers.consumer("wallet", "nats:main/payments")(handle)

    assert [each.name for each in consumers.named()] == ["wallet"]
    with pytest.raises(ConfigError, match="there is no consumer walet; do you mean wallet"):
        consumers.named(["walet"])


def test_consumer_settings_override_what_the_code_says() -> None:
    consumer = registered(mode="retry", max_attempts=5).override(
        {"mode": "once", "prefetch": 7, "policy": {"max_attempts": 2}}
    )

    assert (consumer.mode, consumer.prefetch, consumer.policy.max_attempts) == (Mode.ONCE, 7, 2)
