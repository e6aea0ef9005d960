import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sendonce.domain.events import DEEPEST_PAYLOAD, render_payload
from sendonce.errors import BadEvent

ID = UUID("12345678-1234-5678-1234-567812345678")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


class Colour(Enum):
    RED = "red"


class Size(StrEnum):
    BIG = "big"


@dataclass
class Line:
    name: str
    price: Decimal


class Memo(BaseModel):
    id: UUID
    at: datetime


@given(JSON)
def test_payload_comes_back_as_it_was(payload: object) -> None:
    assert json.loads(render_payload(payload)) == payload


@given(st.dictionaries(st.text(max_size=5), st.integers(), max_size=6))
def test_payload_of_equal_content_is_equal_bytes(payload: dict[str, int]) -> None:
    turned = dict(reversed(payload.items()))

    assert render_payload(turned) == render_payload(payload)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (ID, str(ID)),
        (Decimal("1.10"), "1.10"),
        (datetime(2030, 1, 2, 3, 4, tzinfo=UTC), "2030-01-02T03:04:00+00:00"),
        (date(2030, 1, 2), "2030-01-02"),
        (time(3, 4), "03:04:00"),
        (timedelta(seconds=90), 90.0),
        (Colour.RED, "red"),
        (Size.BIG, "big"),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ((1, 2), [1, 2]),
        (Line("tea", Decimal("2.50")), {"name": "tea", "price": "2.50"}),
        (Memo(id=ID, at=datetime(2030, 1, 2, tzinfo=UTC)), {"id": str(ID), "at": "2030-01-02T00:00:00Z"}),
        ({"lines": [Line("tea", Decimal(1))]}, {"lines": [{"name": "tea", "price": "1"}]}),
        ("a\0b", "a\0b"),
    ],
)
def test_values_of_a_backend_are_rendered(value: object, plain: object) -> None:
    assert json.loads(render_payload(value)) == plain


def test_nul_character_is_stored_escaped() -> None:
    assert "\0" not in render_payload("a\0b")


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"bytes", "holds a bytes"),
        ({"at": object()}, "holds a object"),
        (Line, "holds a type"),
        (Memo, "holds a ModelMetaclass"),
        (float("nan"), "not JSON"),
        (float("inf"), "not JSON"),
        ({1: "a", "b": 2}, "not JSON"),
        ({ID: 1}, "not JSON"),
        ({1, "a"}, "not JSON"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_payload_that_is_no_json_is_refused_with_the_reason(payload: object, words: str) -> None:
    with pytest.raises(BadEvent, match=words):
        render_payload(payload)


def test_payload_that_contains_itself_is_refused() -> None:
    around: list[object] = []
    around.append(around)

    with pytest.raises(BadEvent, match="not JSON"):
        render_payload(around)


def nested(levels: int) -> object:
    inner: object = 1
    for _ in range(levels):
        inner = [inner]
    return inner


def test_payload_nesting_is_bounded() -> None:
    render_payload(nested(DEEPEST_PAYLOAD))

    with pytest.raises(BadEvent, match="nested more than 100"):
        render_payload(nested(DEEPEST_PAYLOAD + 1))
    with pytest.raises(BadEvent, match="nested too deeply"):
        render_payload(nested(100_000))


@pytest.mark.parametrize("payload", [[[]] * 500, "[" * 500, {'\\"' + "{" * 200: 'a"['}, ["\\" + "[" * 200]])
def test_payload_with_many_brackets_is_not_deep(payload: object) -> None:
    assert json.loads(render_payload(payload)) == payload
