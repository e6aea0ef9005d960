"""Rates as people write them: 10/s, 100/m, 5000/h; kept as sends a second."""

import re

from sendonce.errors import ConfigError

FASTEST = 1_000_000.0
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SHAPE = re.compile(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*/\s*([smhd])\s*", re.ASCII)


def parse_rate(text: str) -> float:
    """Sends a second; ConfigError says how to write it."""
    match = _SHAPE.fullmatch(text)
    rate = float(match[1]) / _SECONDS[match[2]] if match else 0.0
    if not 0 < rate <= FASTEST:
        raise ConfigError(f"{text!r} is not a rate; write 10/s, 100/m or 5000/h")
    return rate


def format_rate(rate: float) -> str:
    """The spelling with the smallest unit that makes a whole number of it: 100/m rather than 1.66667/s."""
    for unit, seconds in _SECONDS.items():
        amount = rate * seconds
        if amount >= 1 and abs(amount - round(amount)) < 1e-6 * amount:
            return f"{round(amount)}/{unit}"
    return f"{rate:g}/s"
