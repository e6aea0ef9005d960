"""Whatever JSON and whatever text: it comes back as it went in."""

import json
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendonce import Draft, Outbox
from sendonce.domain.events import LONGEST_KEY
from sendonce.store.migrations import available

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
KEYS = TEXTS.filter(lambda text: len(text.encode()) <= LONGEST_KEY)
PAYLOADS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    for migration in available("sendonce.store.sqlite"):
        connection.executescript(migration.sql)
    yield connection
    connection.close()


@settings(max_examples=150)
@given(events=st.dictionaries(KEYS, PAYLOADS, min_size=1, max_size=5))
def test_payloads_and_keys_come_back(connection: sqlite3.Connection, events: dict[str, object]) -> None:
    drafts = [Draft("memo.created", payload, key=key, to="null:a") for key, payload in events.items()]
    try:
        published = Outbox().publish_many(connection, drafts)
        again = Outbox().publish_many(connection, drafts)
        rows = dict(connection.execute("select key, payload from sendonce_events").fetchall())
    finally:
        connection.rollback()

    assert [each.duplicate for each in published] == [False] * len(events)
    assert again == [(each.event_id, True, 0) for each in published]
    assert {key: json.loads(payload) for key, payload in rows.items()} == events
