"""Times, counts and texts as people read them, and rows as JSON can hold them."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta

from sendonce.domain.durations import format_duration

_SIZES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def relative(moment: datetime, now: datetime) -> str:
    """In one unit, for tables: 3m ago, in 20s, now."""
    seconds = round((moment - now).total_seconds())
    for size, unit in _SIZES:
        if abs(seconds) >= size:
            amount = f"{abs(seconds) // size}{unit}"
            return f"in {amount}" if seconds > 0 else f"{amount} ago"
    return "now"


def ago(moment: datetime, now: datetime) -> str:
    """For sentences about what has happened: 3m 20s ago. A moment ahead of our clock is just now."""
    passed = now - moment
    return "just now" if passed < timedelta(seconds=1) else f"{format_duration(passed)} ago"


def until(moment: datetime, now: datetime) -> str:
    """For sentences about what will happen: in 40s, or now when it is past."""
    left = moment - now
    return "now" if left <= timedelta(0) else f"in {format_duration(left)}"


def stamp(moment: datetime) -> str:
    """The time itself, in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def dated(moment: datetime, now: datetime) -> str:
    return f"{stamp(moment)} ({ago(moment, now) if moment <= now else until(moment, now)})"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    last_two, last = number % 100, number % 10
    ending = "th" if last_two in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    return f"{number}{ending}"


def counted(amount: int, one: str, many: str | None = None) -> str:
    """1 delivery, 14 deliveries."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def listed(words: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def missing_tables(names: list[str]) -> str:
    """What to say when some are there and these are not."""
    which = f"table {names[0]} is" if len(names) == 1 else f"tables {listed(names)} are"
    return f"{which} missing; restore {'it' if len(names) == 1 else 'them'} from a backup"


def one_line(text: str, limit: int = 300) -> str:
    """A text from outside on one line, without what could steer a terminal."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def plain(value: object, *, without: frozenset[str] = frozenset()) -> object:
    """Dataclasses as dicts, times as ISO 8601 in UTC, durations in seconds; fields named in `without` are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.name not in without]
        return {name: plain(getattr(value, name), without=without) for name in names}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(name): plain(each, without=without) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, without=without) for each in value]
    return str(value) if isinstance(value, str) else value
