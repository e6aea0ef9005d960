"""A worker says when another side forgets a message sooner than it may be sent again."""

import logging
from datetime import timedelta

import pytest

from sendonce.channels.protocol import Message
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import Delivered, LookUp, NotThere, Outcome
from sendonce.engine.memories import Memories
from sendonce.engine.orchestrator import Policies
from sendonce.observability.facts import Fact, MemoryTooShort
from sendonce.observability.logs import worded

LEASE = timedelta(seconds=30)


class Forgetful:
    def __init__(self, remembers: timedelta | None) -> None:
        self.remembers = remembers

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        return Delivered("1")

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        return NotThere()


def looked_at(channel: Forgetful, facts: list[Fact], **policy: object) -> Memories:
    channels = Channels()
    channels.add(channel, "pager", **policy)
    return Memories(channels, Policies(by_channel=channels.settings(), serving=channels.serving), LEASE, facts.append)


@pytest.mark.parametrize(
    ("remembers", "needed"),
    [
        (timedelta(seconds=119), timedelta(seconds=120)),
        (timedelta(seconds=120), None),
        (timedelta(hours=1), None),
        (None, None),
    ],
)
def test_channel_memory_that_is_shorter_than_a_resend_may_take_is_said(
    remembers: timedelta | None, needed: timedelta | None
) -> None:
    """A lease of 30 s, 80 s of doubt, 10 s for the send itself."""
    facts: list[Fact] = []

    looked_at(Forgetful(remembers), facts, timeout="10s", doubt_wait="80s").look()

    assert [each.needed for each in facts if isinstance(each, MemoryTooShort)] == ([] if needed is None else [needed])


def test_channel_memory_is_said_once_and_again_when_it_has_changed() -> None:
    facts: list[Fact] = []
    channel = Forgetful(None)
    memories = looked_at(channel, facts, timeout="10s", doubt_wait="80s")

    for seconds in (None, 60, 60, 50, 3600, 50):
        channel.remembers = None if seconds is None else timedelta(seconds=seconds)
        memories.look()

    assert [each.remembers.total_seconds() for each in facts if isinstance(each, MemoryTooShort)] == [60, 50, 50]


def test_line_about_a_memory_names_what_to_make_longer() -> None:
    fact = MemoryTooShort(channel="nats:main/", remembers=timedelta(minutes=2), needed=timedelta(minutes=3))

    assert worded(fact) == (
        logging.WARNING,
        "nats:main/ recognises a message for 2m, and it may be sent again after 3m: then it is there twice;"
        " make that longer (JetStream: duplicate_window)",
    )
