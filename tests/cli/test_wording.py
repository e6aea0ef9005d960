from datetime import UTC, datetime, timedelta

import pytest

from sendonce.admin.text import ago, counted, one_line, ordinal, relative, stamp, until

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (0.4, "now"),
        (-1, "1s ago"),
        (20, "in 20s"),
        (-200, "3m ago"),
        (-7199, "1h ago"),
        (3 * 86400, "in 3d"),
        (-400 * 86400, "400d ago"),
    ],
)
def test_times_that_are_relative_have_one_unit(seconds: float, text: str) -> None:
    assert relative(NOW + timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_text_of_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


def test_sentences_say_how_long_ago_and_how_soon() -> None:
    assert ago(NOW - timedelta(seconds=200), NOW) == "3m 20s ago"
    assert ago(NOW + timedelta(seconds=2), NOW) == "just now"
    assert until(NOW + timedelta(seconds=40), NOW) == "in 40s"
    assert until(NOW - timedelta(seconds=1), NOW) == "now"
    assert stamp(NOW.astimezone(None)) == "2026-01-31 12:00:00 UTC"


def test_counts() -> None:
    assert counted(1, "delivery", "deliveries") == "1 delivery"
    assert counted(12041, "delivery", "deliveries") == "12,041 deliveries"


def test_text_from_outside_becomes_one_harmless_line() -> None:
    assert one_line("a\r\n\x1b[2Jb\0" + "\N{RIGHT-TO-LEFT OVERRIDE}c") == "a [2Jb c"
    assert one_line("x" * 400) == "x" * 299 + "…"
