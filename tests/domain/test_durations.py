from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendonce.domain.durations import format_duration, parse_duration, spell_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("2h", 7200),
        ("1.5d", 129_600),
        ("250ms", 0.25),
        ("1w", 604_800),
        ("45", 45),
        (" 3 s ", 3),
        (45, 45),
        (0.5, 0.5),
        (timedelta(seconds=9), 9),
    ],
)
def test_durations_are_read_as_people_write_them(text: object, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "s", "-5s", "5 minutes", "1h30m", "٣s", "1e3", None, True, "9" * 400, 1e300, float("nan"), "1..5s"],
)
def test_duration_that_is_invalid_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.85, "850ms"),
        (12, "12s"),
        (59.6, "1m"),
        (200, "3m 20s"),
        (7500, "2h 5m"),
        (7200, "2h"),
        (3599.7, "1h"),
        (349_200, "4d 1h"),
        (-5, "-5s"),
    ],
)
def test_durations_are_written_shortly(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.integers(0, 59), st.sampled_from(["s", "m", "ms"]))
def test_duration_with_one_unit_can_be_read_again(amount: int, unit: str) -> None:
    duration = parse_duration(f"{amount}{unit}")

    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize("text", ["0s", "250ms", "30s", "90m", "36h", "7d", "0.000001s"])
def test_duration_has_one_spelling(text: str) -> None:
    assert spell_duration(parse_duration(text)) == text


@given(st.timedeltas(timedelta(0), timedelta(days=10_000)))
def test_duration_that_was_spelled_can_be_read_again(duration: timedelta) -> None:
    assert parse_duration(spell_duration(duration)) == duration
