"""Facts as log lines, as text or as JSON: one line per fact, levels by who must look."""

import json
import logging
import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import assert_never

from sendonce.domain.durations import format_duration
from sendonce.domain.serving import shown
from sendonce.domain.texts import harmless
from sendonce.observability.facts import (
    Adopted,
    Alerted,
    AlertFailed,
    Audited,
    AuditFailed,
    Begun,
    ChannelRaised,
    CommitsLost,
    Consumed,
    Consuming,
    DatabaseBack,
    DatabaseLost,
    Disabled,
    Emit,
    Expired,
    Fact,
    Incident,
    LeasesLost,
    LossOver,
    MemoryTooShort,
    MessageFailed,
    MetricsFailed,
    MoreIncidents,
    NotServed,
    OtherInstance,
    Pruned,
    PruningFailed,
    PruningLate,
    ServerChanged,
    ServingMetrics,
    Settled,
    SourceBack,
    SourceGone,
    Stopped,
    Stopping,
    Tripped,
    WorkerFailed,
)

log = logging.getLogger("sendonce")
# What is worth a line though it goes on by itself; the others need somebody.
_PASSING = ("failed", "put off")


def write(fact: Fact) -> None:
    """Log a fact as text."""
    level, line = worded(fact)
    if log.isEnabledFor(level):
        log.log(level, "%s", harmless(line).replace("\n", " "))


def writer(format: str) -> Emit:
    """What logs facts as `text` or as `json`."""
    return _write_json if format == "json" else write


def _write_json(fact: Fact) -> None:
    level, line = worded(fact)
    if log.isEnabledFor(level):
        log.log(level, "%s", as_json(fact, level, line, datetime.now(UTC)))


def as_json(fact: Fact, level: int, line: str, at: datetime) -> str:
    """A fact as one JSON object on one line: when, how bad, what in words, and its single values by name."""
    plain = {each.name: _plain(getattr(fact, each.name)) for each in fields(fact)}
    found = {name: value for name, value in plain.items() if value is not None}
    return json.dumps(
        {
            "time": at.isoformat(timespec="milliseconds"),
            "level": logging.getLevelName(level).lower(),
            "fact": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(fact).__name__).lower(),
            "message": line,
            **found,
        }
    )


def _plain(value: object) -> object:
    """A single value as it is; several only where they are texts."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, tuple):
        return list(value) if value and all(isinstance(each, str) for each in value) else None
    return value


def worded(fact: Fact) -> tuple[int, str]:
    """A fact's level and its line."""
    match fact:
        case Settled():
            return _settled(fact)
        case Incident() | MoreIncidents():
            return logging.INFO if fact.kind in _PASSING else logging.WARNING, _incident(fact)
        case Begun() | ServingMetrics() | DatabaseBack() | Pruned() | Stopping() | Stopped():
            return logging.INFO, _news(fact)
        case CommitsLost() | LossOver() | OtherInstance() | ServerChanged() | Adopted():
            return _of_the_database(fact)
        case Audited():
            found = (
                f"{fact.looked_at} deliveries looked at, {fact.findings} findings, {fact.unanswered} without an answer"
            )
            return logging.WARNING if fact.findings else logging.INFO, f"audit of what is marked sent: {found}"
        case Consuming() | Consumed() | MessageFailed() | SourceGone() | SourceBack():
            return _of_a_consumer(fact)
        case MemoryTooShort():
            return logging.WARNING, _too_short(fact)
        case WorkerFailed():
            return logging.ERROR, f"the {fact.what} has failed, and begins anew in {fact.again_in:g} s: {fact.reason}"
        case _:
            return logging.WARNING, _warning(fact)


def _of_the_database(fact: CommitsLost | LossOver | OtherInstance | ServerChanged | Adopted) -> tuple[int, str]:
    match fact:
        case CommitsLost():
            known = "" if fact.is_new else ", as another worker has noticed before"
            return logging.ERROR, (
                f"this database has lost commits (a restore, or a failover){known}: what is open is asked about before"
                " it is sent; see: sendonce status"
            )
        case LossOver():
            return logging.WARNING, (
                f"the loss of commits is settled after {format_duration(fact.after)}: {fact.doubted} deliveries were in"
                " doubt for it"
            )
        case OtherInstance():
            ours = f"instance = {fact.instance!r}" if fact.instance else "no instance"
            return logging.ERROR, (
                f"nothing is sent: the database has a name, and the settings say {ours}; see: sendonce instance"
            )
        case ServerChanged():
            return logging.WARNING, (
                "the database is on another server than before, or was promoted; all that this worker remembers is"
                " there, so nothing it has claimed was lost"
            )
        case Adopted():
            return logging.WARNING, f"took over {fact.attempts} attempts whose lease was gone"
        case _:
            assert_never(fact)


def _news(fact: Begun | ServingMetrics | DatabaseBack | Pruned | Stopping | Stopped) -> str:
    match fact:
        case Begun():
            channels = ", ".join(fact.channels)
            return f"worker {fact.worker_id} ({fact.name}): {fact.concurrency} slots; channels: {channels}"
        case ServingMetrics():
            return f"serving metrics on {', '.join(f'http://{each}' for each in fact.addresses)}"
        case DatabaseBack():
            return f"{fact.part}: the database is back after {format_duration(fact.after)}"
        case Pruned():
            gone = f"{fact.contents} contents blanked, {fact.deliveries} deliveries, {fact.events} events"
            return f"retention: {gone} and {fact.rest} other rows deleted"
        case Stopping():
            return f"stopping: {fact.in_flight} in flight, waiting up to {format_duration(fact.grace)}"
        case Stopped():
            return f"stopped: {fact.finished} finished, {fact.in_doubt} in doubt"
        case _:
            assert_never(fact)


def _of_a_consumer(fact: Consuming | Consumed | MessageFailed | SourceGone | SourceBack) -> tuple[int, str]:
    match fact:
        case Consuming(is_over=True):
            cut = f"; {fact.cut} in hand come again" if fact.cut else ""
            return logging.INFO, f"consumer {fact.consumer} has ended{cut}"
        case Consuming():
            return logging.INFO, f"consumer {fact.consumer} has begun ({fact.mode})"
        case Consumed():
            counts = (("handled", fact.handled), ("duplicates", fact.duplicates), ("failed", fact.failed))
            parts = [f"{name}={count}" for name, count in (*counts, ("dead", fact.dead)) if count]
            return logging.DEBUG, " ".join(["consumed", _named(consumer=fact.consumer), *parts])
        case MessageFailed():
            values = {each.name: getattr(fact, each.name) for each in fields(fact) if each.name != "is_dead"}
            return logging.WARNING, f"message {'given up' if fact.is_dead else 'failed'}: {_named(**values)}"
        case SourceGone():
            return logging.WARNING, f"consumer {fact.consumer}: {fact.reason}; waiting and trying again"
        case SourceBack():
            return logging.INFO, f"consumer {fact.consumer}: its source is back"
        case _:
            assert_never(fact)


def _incident(fact: Incident | MoreIncidents) -> str:
    if isinstance(fact, MoreIncidents):
        most = f" (most: {_named(code=fact.code, host=fact.host)})" if fact.code else ""
        return f"delivery {fact.kind}: {fact.more:,} more in {fact.seconds:.0f} s{most}"
    values = {each.name: getattr(fact, each.name) for each in fields(fact) if each.name != "kind"}
    return f"delivery {fact.kind}: {_named(**values)}"


def _named(**values: object) -> str:
    """event=7 code=http_503: what is not there is left out, and no value can look like another or end the line."""
    return " ".join(f"{name}={_shown(str(value))}" for name, value in values.items() if value is not None)


def _shown(text: str) -> str:
    safe = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return safe if re.fullmatch(r"[^\s=\"]+", safe) else json.dumps(safe, ensure_ascii=False)


def _warning(
    fact: Expired
    | ChannelRaised
    | LeasesLost
    | DatabaseLost
    | Disabled
    | Tripped
    | NotServed
    | Alerted
    | AlertFailed
    | AuditFailed
    | MetricsFailed
    | PruningFailed
    | PruningLate,
) -> str:
    match fact:
        case Expired():
            line = f"took over {fact.attempts} attempts of a worker that stopped answering: {fact.retrying} retrying"
            return f"{line}, {fact.dead_lettered} dead-lettered"
        case ChannelRaised():
            values = {each.name: getattr(fact, each.name) for each in fields(fact) if each.name != "traceback"}
            return f"a channel raised: {_named(**values)}: {' | '.join(fact.traceback)}"
        case LeasesLost():
            return f"lost {fact.leases} leases: this worker was too slow, others have taken over"
        case DatabaseLost():
            return f"{fact.part}: {fact.reason}; waiting and trying again"
        case Disabled():
            return f"subscription {fact.subscription_id} is disabled: {fact.reason}"
        case Tripped():
            why = f" ({fact.code})" if fact.code else ""
            return f"a destination fails again and again{why}: what goes there waits; see: sendonce status"
        case NotServed():
            why = f"their deadline has passed, and no live worker serves {shown(fact.channel)}"
            return f"gave up {fact.expired} deliveries: {why}"
        case Alerted():
            return f"alert {fact.name}: {fact.message}"
        case AlertFailed() | AuditFailed() | MetricsFailed() | PruningFailed() | PruningLate():
            return _failure(fact)
        case _:
            assert_never(fact)


def _too_short(fact: MemoryTooShort) -> str:
    known, needed = format_duration(fact.remembers), format_duration(fact.needed)
    return (
        f"{shown(fact.channel)} recognises a message for {known}, and it may be sent again after {needed}: then it is"
        " there twice; make that longer (JetStream: duplicate_window)"
    )


def _failure(fact: AlertFailed | AuditFailed | MetricsFailed | PruningFailed | PruningLate) -> str:
    match fact:
        case AlertFailed(way="database"):
            return f"alerts cannot be looked at: {fact.reason}"
        case AlertFailed():
            return f"an alert could not be told by {fact.way}: {fact.reason}"
        case AuditFailed():
            return f"what is marked sent cannot be checked: {fact.reason}"
        case MetricsFailed():
            return f"the gauges of the database cannot be read: {fact.reason}"
        case PruningFailed():
            return f"retention cannot do its work: {fact.reason}"
        case PruningLate():
            every = format_duration(fact.every)
            return f"retention of {fact.part} does not keep up: one pass takes longer than the {every} between two"
        case _:
            assert_never(fact)


def _settled(fact: Settled) -> tuple[int, str]:
    parts = [
        f"{name}={count}"
        for name, count in (
            ("completed", fact.completed),
            ("retrying", fact.retrying),
            ("dead_lettered", fact.dead_lettered),
            ("in_doubt", fact.in_doubt),
            ("already_applied", fact.already_applied),
            ("late", fact.late),
        )
        if count
    ]
    took = f"took={fact.took.total_seconds() * 1000:.1f}ms"
    return (logging.WARNING if fact.late else logging.DEBUG), " ".join(["settled", *parts, took])
