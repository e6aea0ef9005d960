"""The table of answers: whole, the only place where outcomes are made, and the same for every HTTP status."""

import ast
from pathlib import Path

import pytest

import sendonce
from sendonce.domain import answers
from sendonce.domain.answers import TABLE, Row, http_answer
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Fault, Outcome, Refused, Unknown, fault_of

SRC = Path(sendonce.__file__).parent
ROWS = [row for rows in TABLE.values() for row in rows]
MADE = {name: each for name, each in vars(answers).items() if isinstance(each, Outcome)}


@pytest.mark.parametrize("name", MADE)
def test_answer_is_a_row_of_the_table(name: str) -> None:
    assert any(row.outcome is MADE[name] for row in ROWS)


def test_answers_are_listed_once() -> None:
    for title, rows in TABLE.items():
        assert len({row.said for row in rows}) == len(rows), title


def test_channels_and_engine_take_their_outcomes_from_the_table() -> None:
    """One that is made elsewhere would be in no table, and nobody would have said whose fault it is."""
    places = [path for path in SRC.rglob("*.py") if path.relative_to(SRC).parts[:2] not in TABLES]

    assert [f"{path.relative_to(SRC)}:{line}" for path in places for line in _making(path)] == []


TABLES = {("domain", "answers.py"), ("domain", "outcomes.py")}


def _making(path: Path) -> list[int]:
    names = {kind.__name__ for kind in (Refused, Failed, Unknown, Deferred, Accepted)}
    calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id in names]


@pytest.mark.parametrize("row", TABLE["The engine"], ids=lambda row: row.said)
def test_answer_of_the_engine_itself_is_no_fault_of_a_receiver(row: Row) -> None:
    """No breaker counts it: who stops many workers in the middle of their sends has not found a receiver that fails."""
    assert fault_of(row.outcome) is Fault.OURS


@pytest.mark.parametrize("asks_to_wait", [True, False])
def test_http_status_has_one_meaning(asks_to_wait: bool) -> None:
    kinds = {status: type(http_answer(status, asks_to_wait=asks_to_wait)) for status in range(100, 1000)}

    put_off = {429, 503}
    assert [status for status, kind in kinds.items() if kind is Delivered] == list(range(200, 300))
    assert {status for status, kind in kinds.items() if kind is Deferred} == (put_off if asks_to_wait else set())
    assert {status for status, kind in kinds.items() if kind is Failed} == {408, 425} | (
        set() if asks_to_wait else put_off
    )
    assert {status for status, kind in kinds.items() if kind is Unknown} == {*range(500, 1000)} - {503}
    assert {kind for kind in kinds.values()} <= {Delivered, Deferred, Failed, Unknown, Refused}
