"""Durations and rates as people write them: 30s, 5m, 2h, 250ms; 10/s, 100/m."""

import re
from datetime import timedelta

from sendonce.errors import ConfigError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SHAPE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?\s*", re.ASCII)


def parse_duration(value: object) -> timedelta:
    """Read a duration; ValueError says what was wrong with it."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a duration")
    if isinstance(value, int | float):
        return _seconds(value, value)
    match = _SHAPE.fullmatch(str(value))
    if match is None:
        raise ValueError(f'{value!r} is not a duration; write "30s", "5m" or "2h"')
    return _seconds(value, float(match[1]) * _UNITS[match[2] or "s"])


def _seconds(value: object, seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError(f"{value!r} is too long a duration") from None


def format_duration(value: timedelta) -> str:
    """The shortest honest spelling for a person: 850ms, 12s, 3m 20s, 2h 5m, 4d 1h."""
    seconds = value.total_seconds()
    if seconds < 0:
        return "-" + format_duration(-value)
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    whole = round(seconds)
    for size, unit, smaller, sub in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit} {rest}{sub}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def spell_duration(value: timedelta) -> str:
    """The one spelling that `parse_duration` reads back as it was: 250ms, 30s, 5m, 90m, 7d."""
    for unit in ("d", "h", "m", "s", "ms"):
        size = timedelta(seconds=_UNITS[unit])
        if value and value % size == timedelta(0):
            return f"{value // size}{unit}"
    return f"{value.total_seconds():.6f}s" if value else "0s"


FASTEST = 1_000_000.0
_PER = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RATE = re.compile(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*/\s*([smhd])\s*", re.ASCII)


def parse_rate(text: str) -> float:
    """Sends a second; ConfigError says how to write it."""
    match = _RATE.fullmatch(text)
    rate = float(match[1]) / _PER[match[2]] if match else 0.0
    if not 0 < rate <= FASTEST:
        raise ConfigError(f"{text!r} is not a rate; write 10/s, 100/m or 5000/h")
    return rate


def format_rate(rate: float) -> str:
    """The spelling with the smallest unit that makes a whole number of it: 100/m rather than 1.66667/s."""
    for unit, seconds in _PER.items():
        amount = rate * seconds
        if amount >= 1 and abs(amount - round(amount)) < 1e-6 * amount:
            return f"{round(amount)}/{unit}"
    return f"{rate:g}/s"
