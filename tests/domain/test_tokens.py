import inspect

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sendonce.domain.texts import provider_token

INTENT = ("namespace", "tenant", "memo.created", "memo-1", "mailto:ada@example.com", 0)


def test_token_is_the_same_in_every_version_of_this_program() -> None:
    assert provider_token(*INTENT) == "f9822a28fc3414df095cd8debc01306e9d57d06e"


def test_token_knows_no_generation_and_no_row() -> None:
    assert list(inspect.signature(provider_token).parameters) == [
        "namespace",
        "tenant",
        "type",
        "key",
        "destination",
        "corrections",
    ]


@pytest.mark.parametrize("position", range(6))
def test_part_of_the_intent_counts(position: int) -> None:
    other = list(INTENT)
    other[position] = 1 if position == 5 else str(other[position]) + "x"

    assert provider_token(*other) != provider_token(*INTENT)  # type: ignore[arg-type]


@given(st.tuples(*[st.text(min_size=1, max_size=6)] * 5), st.integers(0, 3))
def test_token_differs_when_a_character_moves_between_fields(
    parts: tuple[str, str, str, str, str], position: int
) -> None:
    moved = list(parts)
    moved[position + 1] = moved[position][-1] + moved[position + 1]
    moved[position] = moved[position][:-1]

    one, two, three, four, five = moved
    assert provider_token(one, two, three, four, five, 0) != provider_token(*parts, 0)


@given(st.tuples(*[st.text(max_size=3)] * 5), st.tuples(*[st.text(max_size=3)] * 5))
def test_tokens_of_different_intents_differ(
    one: tuple[str, str, str, str, str], other: tuple[str, str, str, str, str]
) -> None:
    assume(one != other)

    assert provider_token(*one, 0) != provider_token(*other, 0)
