import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendonce.domain.texts import clean, digest

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=50)


@given(ANY_TEXT | st.binary(max_size=50), st.integers(1, 40))
def test_cleaned_text_can_be_stored_anywhere(text: object, limit: int) -> None:
    cleaned = clean(text, limit)

    cleaned.encode("utf-8")
    assert "\0" not in cleaned
    assert len(cleaned) <= limit
    assert clean(cleaned, limit) == cleaned


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30))
def test_good_text_stays_as_it_is(text: str) -> None:
    assert clean(text, 30) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("\ud800ü", "?ü"),
        (b"\xff\0ok", "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}ok"),
        (404, "404"),
        (None, "None"),
        ("x" * 1_000_000, "x" * 20),
    ],
)
def test_text_that_a_database_cannot_hold_is_replaced(text: object, cleaned: str) -> None:
    assert clean(text, 20) == cleaned


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_digest_differs_for_different_lists_of_parts(one: list[str], other: list[str]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


def test_digest_differs_when_a_character_moves_to_the_next_part() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", ""), digest("", "abc")}) == 5
