import pytest

from sendonce.domain.durations import format_rate, parse_rate
from sendonce.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10/s", 10.0), ("100/m", 100 / 60), ("0.5/s", 0.5), (" 5000 / h ", 5000 / 3600), ("1/d", 1 / 86400)],
)
def test_rate_is_read_as_sends_a_second(text: str, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    "text",
    ["", "10", "10/", "/s", "-1/s", "0/s", "1e3/s", "10/w", "ten/s", "10/s/s", "٣/s", "1" * 10 + "/s", "2000000/s"],
)
def test_rate_that_is_invalid_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="write 10/s, 100/m or 5000/h"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("10/s", "10/s"),
        ("100/m", "100/m"),
        ("60/m", "1/s"),
        ("0.5/s", "30/m"),
        ("5000/h", "5000/h"),
        ("1/d", "1/d"),
        ("1.5/d", "1.73611e-05/s"),
    ],
)
def test_rate_is_shown_with_the_smallest_unit_that_fits(given: str, shown: str) -> None:
    assert format_rate(parse_rate(given)) == shown
