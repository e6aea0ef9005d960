"""The live table."""

import pytest

from sendonce.devtools.demo.processes import NOTHING
from sendonce.devtools.demo.screen import Span, StoryStep, draw, render
from tests.demo.values import a_view, marked, unpainted


def _picture(width: int = 79, height: int = 23, **changed: object) -> list[str]:
    return render(a_view(**changed), width, height, unpainted)


def test_picture_shows_the_progress_and_every_state() -> None:
    picture = "\n".join(_picture())

    assert "45 of 60: 41 committed, 4 rolled back" in picture
    ours = {"Pending": 7, "InProgress": 12, "PendingRetry": 9, "Completed": 13, "DeadLettered": 0, "in doubt": 3}
    naive = {"waiting": 17, "marked sent": 12, "given up": 12}
    for name, amount in {**ours, **naive}.items():
        assert f"  {name:<14}{amount:>4}" in picture


def test_picture_shows_what_the_receiver_has_counted() -> None:
    lines = {line[:40].strip(): line[40:].split() for line in _picture()}

    assert lines["acted upon twice or more"] == ["0", "8"]
    assert lines["asked about before a repeat"] == ["5", "0"]
    assert lines["found there, and not sent again"] == ["3", "0"]
    assert lines["in flight now"] == ["12", "0"]


def test_receiver_that_is_down_is_said_to_be() -> None:
    assert any("the receiver is down" in line for line in _picture(is_up=False, tallies=NOTHING, story=()))


@pytest.mark.parametrize(("width", "height"), [(63, 20), (79, 23), (119, 39), (200, 60)])
def test_picture_fits_the_terminal(width: int, height: int) -> None:
    story = tuple(StoryStep(number, "something long happens " * 5) for number in range(30))

    picture = _picture(width, height, story=story)

    assert len(picture) <= height
    assert max(len(line) for line in picture) <= width


def test_story_shows_its_newest_lines_always() -> None:
    story = tuple(StoryStep(number, f"step {number}") for number in range(30))

    picture = _picture(story=story)

    assert picture[-1] == " 29.0 s  step 29"
    assert not any(line.endswith("step 0") for line in picture)


def test_line_is_cut_before_it_is_painted() -> None:
    line = [Span("abc", "red"), Span("defgh", "green"), Span("never seen", "red")]

    assert draw(line, 5, marked) == "<red>abc</><green>de</>"
