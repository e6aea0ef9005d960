"""What every channel says of every trouble: one suite for all of them, and the table that the documentation shows.

A channel's test module has a class that inherits from ChannelContract (AskingContract where its other side can be
asked), names its column of EXPECTED, and says how the channel meets each trouble.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from sendonce.channels.protocol import Asking, Channel, Message
from sendonce.domain.outcomes import CannotTell, Deferred, Delivered, Failed, NotThere, Outcome, Unknown
from tests.channels.troubles import SHORT_SECONDS, running_out

PATIENCE = 25.0  # a loaded machine must fail in the way that is meant

Expected = tuple[type[Outcome], str | None]  # the outcome and its code

TROUBLES = (
    "connection refused",
    "connect timeout",
    "TLS error",
    "DNS error",
    "reset before the request went out",
    "reset after the request went out",
    "read timeout",
    "cut in the body of the answer",
    "malformed answer",
    "accepted, then dropped",
)

_HTTP: dict[str, Expected] = {
    "connection refused": (Failed, "connection_refused"),
    "connect timeout": (Failed, "connect_timeout"),
    "TLS error": (Failed, "tls_error"),
    "DNS error": (Failed, "dns_error"),
    "reset before the request went out": (Failed, "cannot_connect"),
    "reset after the request went out": (Unknown, "connection_lost"),
    "read timeout": (Unknown, "read_timeout"),
    "cut in the body of the answer": (Delivered, None),
    "malformed answer": (Unknown, "malformed_answer"),
    "accepted, then dropped": (Unknown, "connection_lost"),
}

# The provider is our own server, and its status alone is no proof: that is its id for the mail.
_MAIL_PROVIDER: dict[str, Expected] = {
    trouble: (Deferred, "our_server") if kind is Failed else (kind, code) for trouble, (kind, code) in _HTTP.items()
} | {"cut in the body of the answer": (Unknown, "bad_answer")}

_SMTP: dict[str, Expected] = _MAIL_PROVIDER | {
    "reset before the request went out": (Failed, "connection_lost"),
    "cut in the body of the answer": (Unknown, "connection_lost"),
}

_BROKER: dict[str, Expected] = _HTTP | {
    "read timeout": (Unknown, "no_confirm"),
    "cut in the body of the answer": (Unknown, "connection_lost"),
    "malformed answer": (Unknown, "connection_lost"),
}

# librdkafka connects by itself, tries again by itself, and says at the end that it has given up.
_KAFKA: dict[str, Expected] = {
    trouble: (Failed, "tls_error" if trouble == "TLS error" else "cannot_connect")
    if kind is Failed
    else (Unknown, "no_confirm")
    for trouble, (kind, _) in _BROKER.items()
}

EXPECTED: dict[str, dict[str, Expected]] = {
    "SMTP": _SMTP,
    "mail provider": _MAIL_PROVIDER,
    "Apprise": dict.fromkeys(TROUBLES, (Unknown, "not_confirmed")),
    "webhook": _HTTP,
    "HTTP endpoint": _HTTP,
    "amqp:": _BROKER,
    "nats:": _BROKER,
    "kafka:": _KAFKA,
    "redis:": _BROKER,
}


class ChannelContract:
    """Inherit, name the column, and say how to get the channel into trouble."""

    column: ClassVar[str]

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        """A channel and a message that will meet this trouble."""
        raise NotImplementedError
        yield

    @pytest.mark.parametrize("trouble", TROUBLES)
    async def test_which_failure_is_which_and_it_tells_neither_address_nor_content(self, trouble: str) -> None:
        kind, code = EXPECTED[self.column][trouble]

        async def sent(seconds: float) -> Outcome:
            async with self.in_trouble(trouble) as (channel, message):
                outcome = await channel.send(message, timeout=seconds)
            assert message.body not in repr(outcome)
            assert message.address not in repr(outcome)
            return outcome

        def is_meant(outcome: Outcome) -> bool:
            return (type(outcome), getattr(outcome, "code", None)) == (kind, code)

        assert is_meant(await (running_out(sent, is_meant) if trouble.endswith("timeout") else sent(PATIENCE)))


class AskingContract(ChannelContract):
    """The same, and more, for a channel whose other side can be asked."""

    @pytest.mark.parametrize("trouble", TROUBLES)
    async def test_R16_no_trouble_makes_a_look_up_say_that_it_was_not_sent(self, trouble: str) -> None:
        async with self.in_trouble(trouble) as (channel, message):
            assert isinstance(channel, Asking)
            answer = await channel.look_up(message, timeout=SHORT_SECONDS[0] if "timeout" in trouble else PATIENCE)

        assert not isinstance(answer, NotThere | CannotTell)
