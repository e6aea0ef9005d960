"""What a worker says of itself, one line for each fact: the numbers in it, and who must look."""

import logging
from datetime import timedelta

import pytest

from sendonce.observability.facts import Audited, DatabaseLost, Settled
from sendonce.observability.logs import worded, write

SETTLED = {"completed": 3, "retrying": 0, "dead_lettered": 1, "in_doubt": 0, "already_applied": 0, "late": 0}


def settled(**changes: int) -> Settled:
    return Settled(**{**SETTLED, **changes}, took=timedelta(milliseconds=1234.5), attempts=(), look_ups=())


@pytest.mark.parametrize(
    ("fact", "level", "line"),
    [
        (settled(), logging.DEBUG, "settled completed=3 dead_lettered=1 took=1234.5ms"),
        (settled(late=2), logging.WARNING, "settled completed=3 dead_lettered=1 late=2 took=1234.5ms"),
    ],
    ids=["in time", "late"],
)
def test_batch_that_came_late_is_for_somebody_to_look_at(fact: Settled, level: int, line: str) -> None:
    assert worded(fact) == (level, line)


@pytest.mark.parametrize(("findings", "level"), [(0, logging.INFO), (1, logging.WARNING)])
def test_audit_that_found_something_is_for_somebody_to_look_at(findings: int, level: int) -> None:
    fact = Audited(looked_at=7, findings=findings, unanswered=2)

    told, line = worded(fact)

    assert told == level
    assert line.endswith(f"7 deliveries looked at, {findings} findings, 2 without an answer")


def test_line_holds_nothing_that_steers_a_terminal_or_begins_another(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "sendonce"):
        write(DatabaseLost(part="claims", reason="it said \x1b[2J\x9b\u202e100%\n2026 WARNING forged"))

    [line] = caplog.messages
    assert line.startswith("claims: it said \N{REPLACEMENT CHARACTER}[2J")
    assert line.isprintable()
