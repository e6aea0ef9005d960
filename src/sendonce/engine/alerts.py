"""When people are told that something needs them: thresholds, and one pure function that compares."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from sendonce.domain.durations import format_duration, spell_duration
from sendonce.domain.serving import shown
from sendonce.errors import ConfigError
from sendonce.store.records import READING_CAP, AlertRow, Readings

# What was raised stays so until it is well below its threshold, and for a while: on the edge it would be told for ever.
CALM = 0.8
LINGER = timedelta(minutes=5)
# Of many channels that nobody serves so many are named.
SHOWN = 5

TITLES = {
    "dead_letters": "dead letters that wait for a person",
    "oldest_due": "work that is due for long",
    "unserved": "deliveries that no live worker serves",
    "oldest_open": "deliveries that are on their way for long",
    "breakers": "destinations that fail for long",
    "in_doubt": "deliveries in doubt",
    "commits_lost": "commits that the database has lost",
    "dead_messages": "messages that were given up and wait for a person",
    "oldest_message": "messages that are due for long",
    "findings": "deliveries marked sent without evidence, or shown to be sent too late",
}
_ADVICE = {
    "our_credentials": "our credentials are refused, or cannot be read; correct them, then restart the workers",
    "our_server": "our own server does not do its work; look at it",
    "no_channel": "no channel here sends it; configure one, or start a worker that has it",
    "our_account": "our account or sender may not send; look at the provider's page",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """Where alerts go to (destinations in their one spelling), how often they are looked at and told again, and from
    where on. A threshold of 0 is off.

    What happens (findings, lost commits, faults on our side) counts for as long as `repeat`; what stands counts as long
    as it stands.
    """

    log: bool = True
    webhook: str | None = None
    webhook_secret: str | None = field(default=None, repr=False)
    mail: str | None = None
    every: timedelta = timedelta(seconds=30)
    repeat: timedelta = timedelta(hours=1)
    dead_letters: int = 1
    oldest_due: timedelta = timedelta(minutes=5)
    oldest_open: timedelta = timedelta(minutes=15)
    breakers: timedelta = timedelta(minutes=5)
    in_doubt: int = 100
    findings: int = 1
    commits_lost: int = 1
    dead_messages: int = 1
    oldest_message: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        if not timedelta(seconds=1) <= self.every <= timedelta(hours=1):
            raise ConfigError("every must be between one second and one hour")
        if not timedelta(seconds=1) <= self.repeat <= timedelta(days=30):
            raise ConfigError("repeat must be between one second and 30 days")
        for name in ("oldest_due", "oldest_open", "breakers", "oldest_message"):
            if getattr(self, name) < timedelta(0):
                raise ConfigError(f"{name} must not be below zero")
        for name in ("dead_letters", "in_doubt", "findings", "commits_lost", "dead_messages"):
            if not 0 <= getattr(self, name) <= READING_CAP:
                raise ConfigError(f"{name} must be between 0 (off) and {READING_CAP}")
        if self.webhook_secret is not None and self.webhook is None:
            raise ConfigError("secret signs the webhook, and there is none")


class Met(NamedTuple):
    """How often a fault was met, and where last: a subscription or a place; anywhere (None) for a channel that is
    missing."""

    times: int
    met_at: str | None


class Raise(NamedTuple):
    """It is so. `seen` is the count or the seconds, and `size` too: when it has grown it is told again. For a fault on
    our side it is the time in whole seconds at which one was seen last, and `met_at` is where."""

    name: str
    message: str
    seen: int
    size: int | None = None
    met_at: str | None = None


class Clear(NamedTuple):
    name: str
    message: str


Change: TypeAlias = Raise | Clear


def judge(
    settings: AlertSettings,
    readings: Readings,
    known: Mapping[str, AlertRow],
    *,
    met: Mapping[str, Met] = MappingProxyType({}),
    over: Collection[str] = (),
) -> list[Change]:
    """What is so and what is over. `known`: the alerts by name, raised or not.

    `met`: the faults on our side that this worker has met since the last time; `over`: those after which something got
    through.
    """
    raised = {name: row for name, row in known.items() if row.is_raised}
    faults = _faults(settings, readings, met, raised, over)
    return [*_standing(settings, readings, raised), *faults]


def _standing(settings: AlertSettings, readings: Readings, raised: Mapping[str, AlertRow]) -> Iterator[Change]:
    for name, value, threshold, message in _measured(settings, readings):
        row = raised.get(name)
        if threshold and value >= threshold:
            yield Raise(name, message, int(value), max(1, int(value)))
        elif row is None:
            continue
        elif threshold and value > threshold * CALM:
            yield Raise(name, message, int(value))
        elif not threshold or _is_calm(settings, readings, row):
            yield Clear(name, f"over: {TITLES[name]}")


def _is_calm(settings: AlertSettings, readings: Readings, row: AlertRow) -> bool:
    return readings.now - row.told_at >= min(LINGER, settings.repeat)


def _measured(settings: AlertSettings, readings: Readings) -> Iterator[tuple[str, float, float, str]]:
    """Each condition: its name, what is, from where on it counts, and what people are told."""
    dead, doubtful, found = readings.dead_letters, readings.in_doubt, readings.findings
    span = format_duration(settings.repeat)
    yield (
        "dead_letters", dead, settings.dead_letters,
        f"{_count(dead, 'dead letter waits', 'dead letters wait')} for a person; see: sendonce dead-letters list",
    )  # fmt: skip
    late = _age(readings, readings.oldest_due_at)
    yield (
        "oldest_due", late.total_seconds(), settings.oldest_due.total_seconds(),
        f"work has been due for {format_duration(late)} and is not being sent; see: sendonce status",
    )  # fmt: skip
    yield _unserved(settings, readings)
    yield from _by_channel(settings, readings)
    yield from _of_the_inbox(settings, readings)
    yield (
        "in_doubt", doubtful, settings.in_doubt,
        f"{_count(doubtful, 'delivery', 'deliveries')} may have been sent, and nobody knows; ask: sendonce reconcile",
    )  # fmt: skip
    yield (
        "commits_lost", readings.losses, settings.commits_lost,
        "this database has lost commits (a restore, or a failover): what was open is asked about before it is sent, and"
        " what was recorded since the backup is gone; see: sendonce status",
    )  # fmt: skip
    yield (
        "findings", found, settings.findings,
        f"{_count(found, 'delivery', 'deliveries')} marked sent without evidence, or shown to be sent too late, in the"
        f" last {span}; see: sendonce reconcile --audit --since {spell_duration(settings.repeat)}",
    )  # fmt: skip


def _unserved(settings: AlertSettings, readings: Readings) -> tuple[str, float, float, str]:
    """It is not due, and so not late; but it waits as long, and for a person: the same threshold holds."""
    age = _age(readings, min((row.since for row in readings.unserved), default=None))
    waiting = sum(row.waiting for row in readings.unserved)
    names = ", ".join(sorted(shown(row.name) for row in readings.unserved)[:SHOWN])
    return (
        "unserved", age.total_seconds(), settings.oldest_due.total_seconds(),
        f"{_count(waiting, 'delivery waits', 'deliveries wait')} for {names}, which no live worker serves,"
        f" the first for {format_duration(age)}; start a worker that does; see: sendonce status",
    )  # fmt: skip


def _of_the_inbox(settings: AlertSettings, readings: Readings) -> Iterator[tuple[str, float, float, str]]:
    dead = readings.inbox.dead
    yield (
        "dead_messages", dead, settings.dead_messages,
        f"{_count(dead, 'message that came in was', 'messages that came in were')} given up; see: sendonce"
        " inbox list --dead",
    )  # fmt: skip
    # A stop holds back what is sent, not what is handled.
    since = readings.inbox.oldest_due_at
    late = timedelta(0) if since is None else max(readings.now - since, timedelta(0))
    yield (
        "oldest_message", late.total_seconds(), settings.oldest_message.total_seconds(),
        f"a message that came in has been due for {format_duration(late)} and is not being handled; start its consumer;"
        " see: sendonce inbox list",
    )  # fmt: skip


def _by_channel(settings: AlertSettings, readings: Readings) -> Iterator[tuple[str, float, float, str]]:
    oldest = min(
        ((row.oldest_open_at, row.scheme) for row in readings.channels if row.oldest_open_at), default=(None, "")
    )
    age = _age(readings, oldest[0])
    yield (
        "oldest_open", age.total_seconds(), settings.oldest_open.total_seconds(),
        f"a delivery by {oldest[1]} has been on its way for {format_duration(age)} and has not come to an end;"
        " see: sendonce status",
    )  # fmt: skip
    failing = _age(readings, min((row.breaker_since for row in readings.channels if row.breaker_since), default=None))
    breakers = sum(row.breakers for row in readings.channels)
    yield (
        "breakers", failing.total_seconds(), settings.breakers.total_seconds(),
        f"{_count(breakers, 'destination fails', 'destinations fail')} again and again, the first for"
        f" {format_duration(failing)}: what goes there waits; see: sendonce status",
    )  # fmt: skip


def _age(readings: Readings, since: datetime | None) -> timedelta:
    """A stop of everything lets work grow old on purpose; what else people hold back is left out of the readings."""
    return timedelta(0) if since is None or readings.is_stopped else max(readings.now - since, timedelta(0))


def _faults(
    settings: AlertSettings,
    readings: Readings,
    met: Mapping[str, Met],
    raised: Mapping[str, AlertRow],
    over: Collection[str],
) -> Iterator[Change]:
    """One worker meets a fault, another does not: it is over when something got through where it was met, or when none
    of them has met it for as long as `repeat`."""
    now = int(readings.now.timestamp())
    for name, (times, met_at) in met.items():
        code, _, scheme = name.partition(":")
        why = _ADVICE.get(code, f"the fault is on our side ({code})")
        attempts = _count(times, "attempt", "attempts")
        yield Raise(name, f"{scheme}: {attempts} put off: {why}; nothing is lost meanwhile", now, met_at=met_at)
    for name, row in raised.items():
        if ":" not in name or name in met:
            continue
        if name in over and _is_calm(settings, readings, row):
            yield Clear(name, f"over: {name}, something got through")
        elif now - row.seen >= settings.repeat.total_seconds():
            yield Clear(name, f"over: {name}, not seen for {format_duration(settings.repeat)}")


def _count(amount: int, one: str, many: str) -> str:
    if amount == 1:
        return f"1 {one}"
    return f"{amount:,} {many}" if amount < READING_CAP else f"{amount:,} or more {many}"
