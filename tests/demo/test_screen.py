"""Where the demonstration is shown."""

import io
import re
from types import SimpleNamespace

import pytest

from sendonce.devtools.demo import screen as screens
from sendonce.devtools.demo.screen import HIDE_CURSOR, SHOW_CURSOR, LiveScreen, PlainScreen, StoryStep, paint, screen
from tests.demo.values import a_view


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 by 24 as standard output."""
    made = Terminal()
    for name, value in {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(screens, "sys", SimpleNamespace(stdout=made))
    return made


def test_screen_without_a_terminal_prints_one_line_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    with screen() as shown:
        shown.tell(StoryStep(1.25, "the receiver is down"))
        shown.show(a_view())

    assert isinstance(shown, PlainScreen)
    assert capsys.readouterr().out == "  1.2 s  the receiver is down\n"


def test_cursor_is_hidden_and_comes_back_whatever_happens(terminal: Terminal) -> None:
    def interrupted() -> None:
        with screen() as shown:
            assert isinstance(shown, LiveScreen)
            shown.show(a_view())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert terminal.getvalue().startswith(HIDE_CURSOR)
    assert terminal.getvalue().endswith(SHOW_CURSOR)


def test_picture_is_drawn_over_the_one_before(terminal: Terminal) -> None:
    with screen() as shown:
        shown.show(a_view())
        first = terminal.getvalue()
        shown.show(a_view())

    assert terminal.getvalue()[len(first) :].startswith(f"\x1b[{first.count(chr(10))}F")


def test_screen_starts_anew_after_a_change_of_size(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    with screen() as shown:
        shown.show(a_view())
        first = terminal.getvalue()
        monkeypatch.setenv("COLUMNS", "100")
        shown.show(a_view())

        assert terminal.getvalue()[len(first) :].startswith("\x1b[2J\x1b[H")


def test_story_stays_on_the_screen_at_the_end(terminal: Terminal) -> None:
    with screen() as shown:
        shown.tell(StoryStep(0.0, "the receiver is down"))
        shown.show(a_view())

    assert terminal.getvalue().split("\x1b[J")[-1] == f"  0.0 s  the receiver is down\n{SHOW_CURSOR}"


@pytest.mark.parametrize(
    ("name", "value"), [("TERM", "dumb"), ("COLUMNS", "40"), ("LINES", "10")]
)  # fmt: skip
def test_terminal_that_cannot_do_it_gets_plain_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    with screen() as shown:
        assert isinstance(shown, PlainScreen)


def test_colours_are_for_terminals_that_want_them(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paint("3", "red") == "\x1b[31m3\x1b[0m"

    monkeypatch.setenv("NO_COLOR", "1")
    with screen() as shown:
        shown.show(a_view())

    assert paint("3", "red") == "3"
    assert not re.search(r"\x1b\[[0-9;]*m", terminal.getvalue())
    assert screens.has_colours() is False
