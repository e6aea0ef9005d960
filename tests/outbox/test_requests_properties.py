"""Whatever is asked for in whatever order: what comes back and what is written is what a small model says."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendonce import KeyReused, PublishError, RerunRefused
from sendonce.store.migrations import available
from tests.outbox.requesting import OUTBOX, TYPE


class Ask(NamedTuple):
    key: str
    subject: str
    version: int
    content: int
    rerun: bool
    keep_first: bool


@dataclass
class Model:
    """The rules in their plainest form: requests by subject and version, and keys that lead to them."""

    requests: dict[tuple[str, int], int] = field(default_factory=dict)
    keys: dict[str, tuple[str, int]] = field(default_factory=dict)

    def ask(self, ask: Ask) -> tuple[tuple[str, int], bool] | type[PublishError]:
        """Which request comes back, and whether it was there; or the error."""
        wanted = (ask.subject, ask.version)
        if ask.key in self.keys:
            first = self.keys[ask.key]
            is_same = (first, self.requests[first]) == (wanted, ask.content)
            return (first, True) if is_same or ask.keep_first else KeyReused
        newest = max((version for subject, version in self.requests if subject == ask.subject), default=None)
        if newest is not None:
            if ask.version < newest and (ask.rerun or wanted not in self.requests):
                return RerunRefused
            if ask.version > newest and not ask.rerun:
                return RerunRefused
        was_there = wanted in self.requests
        if was_there and self.requests[wanted] != ask.content and not ask.keep_first:
            return KeyReused
        self.requests.setdefault(wanted, ask.content)
        self.keys[ask.key] = wanted
        return wanted, was_there


ASKS = st.builds(
    Ask,
    key=st.sampled_from("abcdef"),
    subject=st.sampled_from(["cl-7", "cl-8"]),
    version=st.integers(0, 4),
    content=st.integers(0, 1),
    rerun=st.booleans(),
    keep_first=st.booleans(),
)


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    for migration in available("sendonce.store.sqlite"):
        connection.executescript(migration.sql)
    yield connection
    connection.close()


def ask_for(connection: sqlite3.Connection, ask: Ask) -> tuple[tuple[str, int], bool] | type[PublishError]:
    try:
        made = OUTBOX.request(
            connection, TYPE, {"content": ask.content}, key=ask.key, subject=ask.subject, version=ask.version,
            required="null:a", rerun=ask.rerun, if_different="keep_first" if ask.keep_first else "raise",
        )  # fmt: skip
    except PublishError as error:
        return type(error)
    state = OUTBOX.request_state(connection, made.request_id)
    assert state is not None
    assert state.event_id == made.event_id
    return (state.subject, state.version), made.duplicate


@settings(max_examples=150)
@given(asks=st.lists(ASKS, max_size=12))
def test_R5_requests_follow_the_model(connection: sqlite3.Connection, asks: list[Ask]) -> None:
    model = Model()
    try:
        for ask in asks:
            assert ask_for(connection, ask) == model.ask(ask)
        requests = connection.execute("select subject, version from sendonce_requests").fetchall()
        keys = connection.execute("select key from sendonce_request_keys").fetchall()
        events = connection.execute("select subject, version from sendonce_events").fetchall()
        deliveries = connection.execute("select count(*) from sendonce_deliveries").fetchone()
    finally:
        connection.rollback()

    assert set(requests) == set(events) == set(model.requests)
    assert {key for (key,) in keys} == set(model.keys)
    assert deliveries == (len(events),) == (len(requests),)
