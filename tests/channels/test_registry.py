"""Which channel serves which scheme; users' own by a decorator; mistakes are found when they are registered."""

from collections.abc import Callable
from typing import Any

import pytest

from sendonce.channels import Channels, Delivered, Found, LookUp, Message, Outcome
from sendonce.channels.registry import builtin
from sendonce.engine.attempt import message_of
from sendonce.errors import ConfigError
from tests.domain.values import a_claim

MESSAGE = message_of(a_claim(), "here")


class Sms:
    async def send(self, message: Message, *, timeout: float) -> Outcome:
        return Delivered("sms")


class Asking(Sms):
    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        return Found()


def test_worker_has_null_and_http() -> None:
    channels = builtin()

    assert sorted(channels.settings()) == ["http", "https", "null"]
    assert channels.find("http") is channels.find("https")


async def test_null_accepts_everything() -> None:
    channel = builtin().find("null")

    assert channel is not None
    assert await channel.send(MESSAGE, timeout=1) == Delivered()


async def test_function_becomes_a_channel_and_stays_a_function() -> None:
    channels = Channels()

    @channels.channel("sms", "mms", if_unsure="hold")
    async def send_sms(message: Message, *, timeout: float) -> Outcome:
        return Delivered(f"{message.key} in {timeout:g}")

    for scheme in ("sms", "mms"):
        channel = channels.find(scheme)
        assert channel is not None
        assert await channel.send(MESSAGE, timeout=2) == Delivered("memo-1 in 2")
    assert channels.settings() == {"sms": {"if_unsure": "hold"}, "mms": {"if_unsure": "hold"}}
    assert await send_sms(MESSAGE, timeout=1) == Delivered("memo-1 in 1")


def test_class_is_made_once() -> None:
    channels = Channels()
    channels.channel("sms", "mms")(Sms)

    assert isinstance(channels.find("sms"), Sms)
    assert channels.find("sms") is channels.find("mms")


def test_channel_that_can_be_asked_is_known() -> None:
    channels = Channels()
    channels.add(Sms(), "sms")
    channels.add(Asking(), "asked")

    assert [channels.can_look_up(scheme) for scheme in ("sms", "asked", "fax")] == [False, True, None]
    assert channels.find_asking("sms") is None
    asking: object = channels.find_asking("asked")
    assert asking is channels.find("asked")


def test_later_channel_replaces_an_earlier_one() -> None:
    channels = Channels()
    channels.add(Asking(), "sms", max_attempts=2)
    channels.add(Sms(), "sms")

    assert channels.can_look_up("sms") is False
    assert channels.settings() == {"sms": {}}


def test_channel_that_replaces_an_open_one_is_not_open_to_subscriptions() -> None:
    """It has secrets of its own, and tenants choose where these addresses lead."""
    beginning, address = "https://runner.example/", "https://runner.example/jobs"
    channels = Channels()
    channels.add(Sms(), beginning)
    channels.open_to_subscriptions(beginning)
    assert channels.find(address, is_subscription=True) is channels.find(address)

    channels.add(Asking(), beginning)

    assert channels.find(address, is_subscription=True) is None
    assert channels.find(address) is not None
    assert channels.names == (beginning,)


def test_users_registry_is_taken_over_with_its_settings() -> None:
    own, all_channels = Channels(), builtin()
    own.add(Asking(), "http", max_attempts=2)

    all_channels.update(own)

    assert all_channels.find("http") is own.find("http")
    assert all_channels.settings()["http"] == {"max_attempts": 2}
    assert all_channels.find("https") is not own.find("http")


def plain(message: Message, *, timeout: float) -> Outcome:
    return Delivered()


class Plain:
    def send(self, message: Message, *, timeout: float) -> Outcome:
        return Delivered()


class PlainLookUp(Sms):
    def look_up(self, message: Message, *, timeout: float) -> LookUp:
        return Found()


@pytest.mark.parametrize("wrong", [plain, Plain, Plain(), PlainLookUp, object(), None])
@pytest.mark.parametrize("how", ["decorator", "add"])
def test_channel_that_is_not_async_is_refused_before_it_sends(wrong: Any, how: str) -> None:
    channels = Channels()
    register: Callable[[Any], object] = (
        channels.channel("sms") if how == "decorator" else lambda each: channels.add(each, "sms")
    )

    with pytest.raises(ConfigError, match=r"async def|async function"):
        register(wrong)
    assert channels.find("sms") is None


@pytest.mark.parametrize("scheme", ["", "SMS", "sms:", "1sms", "s ms", "s" * 40])
def test_scheme_that_no_destination_can_have_is_refused(scheme: str) -> None:
    with pytest.raises(ConfigError, match="scheme"):
        Channels().add(Sms(), scheme)


@pytest.mark.parametrize(("scheme", "known"), [("httpz", "https"), ("mailtos", "mailto"), ("nulll", "null")])
def test_scheme_that_would_be_taken_for_a_mistake_is_refused(scheme: str, known: str) -> None:
    with pytest.raises(ConfigError, match=f"one letter away from {known}:"):
        Channels().add(Sms(), scheme)


def test_channel_without_a_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match="scheme"):
        Channels().channel()(Sms)
