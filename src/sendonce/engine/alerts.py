"""When people are told that something needs them: thresholds, and one pure function that compares."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, TypeAlias

from sendonce.domain.durations import format_duration, spell_duration
from sendonce.errors import ConfigError
from sendonce.stores.records import READING_CAP, AlertRow, Readings

# What was raised stays so until it is well below its threshold, and for a while: on the edge it would be told for ever.
CALM = 0.8
LINGER = timedelta(minutes=5)

TITLES = {
    "dead_letters": "dead letters that wait for a person",
    "oldest_due": "work that is due for long",
    "in_doubt": "deliveries in doubt",
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

    What happens (findings, faults on our side) counts for as long as `repeat`; what stands counts as long as it stands.
    """

    log: bool = True
    webhook: str | None = None
    webhook_secret: str | None = field(default=None, repr=False)
    mail: str | None = None
    every: timedelta = timedelta(seconds=30)
    repeat: timedelta = timedelta(hours=1)
    dead_letters: int = 1
    oldest_due: timedelta = timedelta(minutes=5)
    in_doubt: int = 100
    findings: int = 1

    def __post_init__(self) -> None:
        if not timedelta(seconds=1) <= self.every <= timedelta(hours=1):
            raise ConfigError("every must be between one second and one hour")
        if not timedelta(seconds=1) <= self.repeat <= timedelta(days=30):
            raise ConfigError("repeat must be between one second and 30 days")
        if self.oldest_due < timedelta(0):
            raise ConfigError("oldest_due must not be below zero")
        for name in ("dead_letters", "in_doubt", "findings"):
            if not 0 <= getattr(self, name) <= READING_CAP:
                raise ConfigError(f"{name} must be between 0 (off) and {READING_CAP}")
        if self.webhook_secret is not None and self.webhook is None:
            raise ConfigError("secret signs the webhook, and there is none")


class Raise(NamedTuple):
    """It is so. `seen` is the count; for a fault on our side the time in whole seconds at which one was seen last."""

    name: str
    message: str
    seen: int


class Clear(NamedTuple):
    name: str
    message: str


Change: TypeAlias = Raise | Clear


def judge(
    settings: AlertSettings, readings: Readings, faults: Mapping[str, int], known: Mapping[str, AlertRow]
) -> list[Change]:
    """What is so and what is over. `faults`: those on our side that this worker has seen since the last time.

    `known`: the alerts by name, raised or not.
    """
    raised = {name: row for name, row in known.items() if row.is_raised}
    return [*_standing(settings, readings, raised), *_faults(settings, readings, faults, raised)]


def _standing(settings: AlertSettings, readings: Readings, raised: Mapping[str, AlertRow]) -> Iterator[Change]:
    for name, value, threshold, message in _measured(settings, readings):
        row = raised.get(name)
        if threshold and value >= threshold:
            yield Raise(name, message, int(value))
        elif row is None:
            continue
        elif threshold and value > threshold * CALM:
            yield Raise(name, message, int(value))
        elif not threshold or readings.now - row.told_at >= min(LINGER, settings.repeat):
            yield Clear(name, f"over: {TITLES[name]}")


def _measured(settings: AlertSettings, readings: Readings) -> Iterator[tuple[str, float, float, str]]:
    """Each condition: its name, what is, from where on it counts, and what people are told."""
    dead, doubtful, found = readings.dead_letters, readings.in_doubt, readings.findings
    span = format_duration(settings.repeat)
    yield (
        "dead_letters", dead, settings.dead_letters,
        f"{_count(dead, 'dead letter waits', 'dead letters wait')} for a person; see: sendonce dead-letters list",
    )  # fmt: skip
    # A stop of everything lets work grow old on purpose; what else is held back is parked, and not due.
    is_late = readings.oldest_due_at is not None and not readings.is_stopped
    late = readings.now - readings.oldest_due_at if is_late and readings.oldest_due_at else timedelta(0)
    yield (
        "oldest_due", late.total_seconds(), settings.oldest_due.total_seconds(),
        f"work has been due for {format_duration(late)} and is not being sent; see: sendonce status",
    )  # fmt: skip
    yield (
        "in_doubt", doubtful, settings.in_doubt,
        f"{_count(doubtful, 'delivery', 'deliveries')} may have been sent, and nobody knows; ask: sendonce reconcile",
    )  # fmt: skip
    yield (
        "findings", found, settings.findings,
        f"{_count(found, 'delivery', 'deliveries')} marked sent without evidence, or shown to be sent too late, in the"
        f" last {span}; see: sendonce reconcile --audit --since {spell_duration(settings.repeat)}",
    )  # fmt: skip


def _faults(
    settings: AlertSettings, readings: Readings, faults: Mapping[str, int], raised: Mapping[str, AlertRow]
) -> Iterator[Change]:
    """One worker sees a fault, another does not: it is over when none of them has seen it for as long as `repeat`."""
    now = int(readings.now.timestamp())
    for name, count in faults.items():
        code, _, scheme = name.partition(":")
        why = _ADVICE.get(code, f"the fault is on our side ({code})")
        attempts = _count(count, "attempt", "attempts")
        yield Raise(name, f"{scheme}: {attempts} put off: {why}; nothing is lost meanwhile", now)
    for name, row in raised.items():
        if ":" in name and name not in faults and now - row.seen >= settings.repeat.total_seconds():
            yield Clear(name, f"over: {name}, not seen for {format_duration(settings.repeat)}")


def _count(amount: int, one: str, many: str) -> str:
    if amount == 1:
        return f"1 {one}"
    return f"{amount:,} {many}" if amount < READING_CAP else f"{amount:,} or more {many}"
