"""Facts as log lines: one line per fact, levels by who must look."""

import logging
from typing import assert_never

from sendonce.domain.durations import format_duration
from sendonce.observe.facts import (
    Alerted,
    AlertFailed,
    Begun,
    DatabaseBack,
    DatabaseLost,
    Disabled,
    Expired,
    Fact,
    LeasesLost,
    Listening,
    MetricsFailed,
    Pruned,
    PruningFailed,
    Settled,
    Stopped,
    Stopping,
    Tripped,
    WorkerFailed,
)

log = logging.getLogger("sendonce")


def write(fact: Fact) -> None:
    """Log a fact."""
    level, line = worded(fact)
    log.log(level, line)


def worded(fact: Fact) -> tuple[int, str]:
    """A fact's level and its line."""
    match fact:
        case Settled():
            return _settled(fact)
        case Begun() | Listening() | DatabaseBack() | Pruned() | Stopping() | Stopped():
            return logging.INFO, _news(fact)
        case WorkerFailed():
            return logging.ERROR, f"the worker has failed, and begins anew in {fact.again_in:g} s: {fact.reason}"
        case _:
            return logging.WARNING, _warning(fact)


def _news(fact: Begun | Listening | DatabaseBack | Pruned | Stopping | Stopped) -> str:
    match fact:
        case Begun():
            channels = ", ".join(fact.channels)
            return f"worker {fact.worker_id} ({fact.name}): {fact.concurrency} slots; channels: {channels}"
        case Listening():
            return f"listening on {', '.join(f'http://{each}' for each in fact.addresses)}"
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


def _warning(
    fact: Expired
    | LeasesLost
    | DatabaseLost
    | Disabled
    | Tripped
    | Alerted
    | AlertFailed
    | MetricsFailed
    | PruningFailed,
) -> str:
    match fact:
        case Expired():
            line = f"took over {fact.attempts} attempts of a worker that stopped answering: {fact.retrying} retrying"
            return f"{line}, {fact.dead_lettered} dead-lettered"
        case LeasesLost():
            return f"lost {fact.leases} leases: this worker was too slow, others have taken over"
        case DatabaseLost():
            return f"{fact.part}: {fact.reason}; waiting and trying again"
        case Disabled():
            return f"subscription {fact.subscription_id} is disabled: {fact.reason}"
        case Tripped():
            why = f" ({fact.code})" if fact.code else ""
            return f"a destination fails again and again{why}: what goes there waits; see: sendonce status"
        case Alerted():
            return f"alert {fact.name}: {fact.message}"
        case AlertFailed() | MetricsFailed() | PruningFailed():
            return _failure(fact)
        case _:
            assert_never(fact)


def _failure(fact: AlertFailed | MetricsFailed | PruningFailed) -> str:
    match fact:
        case AlertFailed(way="database"):
            return f"alerts cannot be looked at: {fact.reason}"
        case AlertFailed():
            return f"an alert could not be told by {fact.way}: {fact.reason}"
        case MetricsFailed():
            return f"the gauges of the database cannot be read: {fact.reason}"
        case PruningFailed():
            return f"retention cannot do its work: {fact.reason}"
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
    troubled = fact.dead_lettered or fact.in_doubt or fact.late
    took = f"took={fact.took.total_seconds() * 1000:.1f}ms"
    return (logging.WARNING if troubled else logging.DEBUG), " ".join(["settled", *parts, took])
