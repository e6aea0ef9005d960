from datetime import UTC, date, datetime
from typing import cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendonce.domain.events import LONGEST_KEY, UNIQUE, Key, render_key
from sendonce.errors import BadEvent

ID = UUID("12345678-1234-5678-1234-567812345678")
PARTS = st.lists(
    st.text(
        st.sampled_from("a/%25F") | st.characters(codec="utf-8", exclude_characters="\0"),
        min_size=1,
        max_size=5,
    ),
    min_size=1,
    max_size=4,
).map(tuple)


@given(PARTS, PARTS)
def test_key_differs_for_different_tuples(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (render_key(one) == render_key(other)) == (one == other)


@given(PARTS, st.data())
def test_key_differs_when_a_character_moves_to_the_next_part(parts: tuple[str, ...], data: st.DataObject) -> None:
    text = "/".join(parts)
    cut = data.draw(st.integers(1, max(1, len(text) - 1)))
    split = tuple(part for part in (text[:cut], text[cut:]) if part)

    assert (render_key(split) == render_key(parts)) == (split == parts)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("memo-1", "memo-1"),
        (42, "42"),
        (ID, str(ID)),
        (("memo", 42, ID), f"memo/42/{ID}"),
        (("a/b", "c%d"), "a%2Fb/c%25d"),
        ((date(2030, 1, 2), "x"), "2030-01-02/x"),
        ((datetime(2030, 1, 2, 3, tzinfo=UTC),), "2030-01-02T03:00:00+00:00"),
    ],
)
def test_keys_are_made_of_texts_numbers_uuids_and_dates(key: Key, text: str) -> None:
    assert render_key(key) == text


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "key is None"),
        (("memo", None), r"key\[1\] is None"),
        ((None, 1), r"key\[0\] is None"),
        ((), "empty tuple"),
        ("", "key is empty"),
        (("a", ""), r"key\[1\] is empty"),
        (True, "key is a bool"),
        (1.5, "key is a float"),
        (("a", [1]), r"key\[1\] is a list"),
        (b"a", "key is a bytes"),
        ("a\0", "NUL"),
        ("\ud800", "valid Unicode"),
        ("x" * (LONGEST_KEY + 1), "501 bytes"),
        (("ü" * 200, "ü" * 200), "801 bytes"),
        (UNIQUE, "whole key"),
        (("a", UNIQUE), r"key\[1\]"),
    ],
)
def test_key_that_is_invalid_is_refused_by_name(key: object, words: str) -> None:
    with pytest.raises(BadEvent, match=words):
        render_key(cast(Key, key))


def test_key_that_asks_for_no_deduplication_shows_its_name() -> None:
    assert repr(UNIQUE) == "sendonce.UNIQUE"
