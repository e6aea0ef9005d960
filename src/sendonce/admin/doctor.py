"""Say of an examined database what is well, what is doubtful and what is wrong, and what to do. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from sendonce.admin.glance import DUE_FOR_LONG
from sendonce.admin.wording import counted, listed, missing_tables
from sendonce.domain.durations import format_duration
from sendonce.domain.serving import shown as shown_name
from sendonce.store.examining import Examined, ExaminedSqlite, Work

CLOCK_DOUBTFUL, CLOCK_WRONG = 2.0, 60.0
# Retention passes by once an hour and takes its time.
RETENTION_LATE = timedelta(days=1)
_SHOWN = 8


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One look at one thing. `to_do` is empty where nothing is to be done."""

    name: str
    level: Level
    sentence: str
    to_do: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that what is seen is compared with: of sends, and how long each part of retention keeps things."""

    lease: timedelta
    timeout: timedelta
    retention: Mapping[str, timedelta] = field(default_factory=dict)


def ok(name: str, sentence: str) -> Diagnosis:
    return Diagnosis(name, Level.OK, sentence)


def warning(name: str, sentence: str, to_do: str) -> Diagnosis:
    return Diagnosis(name, Level.WARNING, sentence, to_do)


def problem(name: str, sentence: str, to_do: str) -> Diagnosis:
    return Diagnosis(name, Level.PROBLEM, sentence, to_do)


def of_every_database(examined: Examined, limits: Limits) -> Iterator[Diagnosis]:
    """What can be wrong wherever it is kept."""
    yield _schema(examined)
    yield _clock(examined.clock_ahead)
    if examined.work is not None:
        yield _rules(examined.work)
        yield _backfill(examined.work)
        yield _workers(examined.work)
        yield _channels(examined.work)
        yield _sends(examined.work, limits)
        yield _retention(examined.work, limits)


def shown(names: Iterable[str]) -> str:
    """The first of many."""
    every = list(names)
    rest = [f"{len(every) - _SHOWN} more"] if len(every) > _SHOWN else []
    return listed([*every[:_SHOWN], *rest])


def _schema(examined: Examined) -> Diagnosis:
    version, known = examined.version, examined.known_version
    if version is None:
        return problem("schema", "which schema this is cannot be read", "see what is wrong below")
    if version == 0:
        elsewhere = "" if isinstance(examined, ExaminedSqlite) else ", or not where this role looks for them"
        return problem("schema", f"there are no sendonce tables{elsewhere}", "run: sendonce migrate")
    if examined.missing_tables:
        return problem("schema", *missing_tables(list(examined.missing_tables)).split("; ", 1))
    if version < known:
        return problem("schema", f"the schema is {version}, and this program needs {known}", "run: sendonce migrate")
    if version > known + 1:
        return problem("schema", f"the schema is {version}, too new for this program", "install a newer sendonce")
    if version > known:
        return warning(
            "schema",
            f"the schema is {version}, one newer than this program knows",
            "install the newer sendonce here too",
        )
    return ok("schema", f"the schema is {version}, the newest")


def _clock(ahead: float) -> Diagnosis:
    size = abs(ahead)
    if size < CLOCK_DOUBTFUL:
        return ok("clock", "the database's clock and this machine's agree")
    which = "ahead of" if ahead > 0 else "behind"
    said = f"the database's clock is {format_duration(timedelta(seconds=round(size)))} {which} this machine's"
    to_do = "set both by NTP: scheduled sends and times in signatures are off by as much"
    return (problem if size >= CLOCK_WRONG else warning)("clock", said, to_do)


def _rules(work: Work) -> Diagnosis:
    if not work.broken_rules:
        return ok("rules", "every trigger, index and constraint of the schema is there and acts")
    to_do = "; ".join([*(each.to_do for each in work.broken_rules[:_SHOWN]), "then run: sendonce verify"])
    return problem("rules", shown(str(each) for each in work.broken_rules), to_do)


def _backfill(work: Work) -> Diagnosis:
    open_ones = [each for each in work.backfills if not each.is_finished]
    if not open_ones:
        return ok("back-fill", "what was there when the tables were migrated is filled in")
    said = listed([f"{each.migration} has come to {each.done:,} of {each.bound:,}" for each in open_ones])
    return warning("back-fill", f"an upgrade is not finished: {said}", "go on with: sendonce migrate")


def _workers(work: Work) -> Diagnosis:
    waiting = timedelta(0) if work.oldest_due_at is None or work.is_stopped else work.now - work.oldest_due_at
    if work.workers:
        return ok("workers", f"{counted(len(work.workers), 'worker')} alive")
    if waiting >= DUE_FOR_LONG:
        said = f"no worker is alive, and work has been due for {format_duration(waiting)}"
        return problem("workers", said, "start one with: sendonce worker")
    return ok("workers", "no worker is alive, and nothing has been due for long")


def _channels(work: Work) -> Diagnosis:
    if not work.unserved:
        return ok("channels", "nothing waits for a channel that no live worker serves")
    waiting = counted(sum(row.waiting for row in work.unserved), "delivery waits", "deliveries wait")
    names = shown(shown_name(row.name) for row in work.unserved)
    to_do = "start a worker that has the channel; until then it waits, spends nothing, and ends by its deadline alone"
    return warning("channels", f"{waiting} for {names}, which no live worker serves", to_do)


def _sends(work: Work, limits: Limits) -> Diagnosis:
    if work.expired_leases:
        said = f"of the newest attempts, {counted(work.expired_leases, 'lease')} ran out before an answer came"
        to_do = "workers died or were stopped hard; if not, make [worker] lease longer than sends take"
        return warning("lease", said, to_do)
    if not work.send_seconds:
        return ok("lease", "nothing has been sent yet that a lease could be compared with")
    ordered = sorted(work.send_seconds)
    most = timedelta(seconds=round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 3))
    said = f"99 of 100 sends take at most {format_duration(most)}, and the lease is {format_duration(limits.lease)}"
    if most > limits.lease:
        to_do = (
            "make [worker] lease longer, or [policy] timeout shorter: a longer send may be taken for dead and repeated"
        )
        return problem("lease", said, to_do)
    if most > limits.lease / 2:
        return warning("lease", said, "make [worker] lease longer: one slow renewal away from being taken for dead")
    return ok("lease", said)


def _retention(work: Work, limits: Limits) -> Diagnosis:
    """How far the pass is behind that is furthest behind."""
    behind = {
        each.part: each.behind(work.now, limits.retention[each.part])
        for each in work.retention
        if each.part in limits.retention
    }
    if not behind:
        return ok("retention", "everything is kept for ever")
    part = max(behind, key=lambda each: behind[each])
    if behind[part] < RETENTION_LATE:
        return ok("retention", "what has been kept long enough goes within a day")
    kept, late = format_duration(limits.retention[part]), format_duration(behind[part])
    said = f"retention is behind: {part} should go after {kept}, and some may have been due for that for {late}"
    to_do = "let a worker run all the time; if one does, it cannot keep up: run sendonce prune in quiet hours"
    return warning("retention", said, to_do)
