"""sendonce status: the whole at a glance, once or again and again."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sendonce.admin.status import (
    alert_sentence,
    backfill_remark,
    held_remark,
    loss_remark,
    room_sentence,
    stop_sentence,
    warnings,
)
from sendonce.admin.subscriptions import HeldBack
from sendonce.admin.text import ago
from sendonce.cli.advice import document, remark_line
from sendonce.cli.context import database_of
from sendonce.cli.options import duration
from sendonce.cli.output import fields_of, paint
from sendonce.cli.verbs import argument, verb
from sendonce.domain.durations import format_duration
from sendonce.store.migrations import Backfill
from sendonce.store.records import COUNT_CAP, Status, WorkerRow

if TYPE_CHECKING:
    from sendonce.admin.api import Admin

# Takes the picture before it away, and what was scrolled out.
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


@dataclass(frozen=True, slots=True)
class _Look:
    status: Status
    held: list[HeldBack]
    backfills: list[Backfill]


@verb(
    "status",
    "show the whole at a glance",
    argument(
        "--watch",
        nargs="?",
        type=duration,
        const=timedelta(seconds=2),
        metavar="TIME",
        help="show it again every 2s, or so often, until Ctrl-C; with --json one document a line",
    ),
    about="Show who works, what is due, and what needs a person.",
)
async def status(admin: "Admin", args: argparse.Namespace, watch: timedelta | None) -> _Look:
    look = await _look(admin)
    if watch is None:
        return look
    import asyncio
    import sys

    from sendonce.cli.output import say_all, say_json

    while True:
        if args.json:
            say_json(_document(look), indent=None)
        else:
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            say_all(_sentences(look, args), wide=args.wide)
            say_all([f"{look.status.now:%Y-%m-%d %H:%M:%S} UTC, every {format_duration(watch)}; Ctrl-C ends it"])
        sys.stdout.flush()
        await asyncio.sleep(watch.total_seconds())
        look = await _look(admin)


async def _look(admin: "Admin") -> _Look:
    found = await admin.astatus()
    return _Look(found, await admin.aheld_back() if found.parked else [], await admin.abackfills())


@status.json
def _document(look: _Look) -> dict[str, object]:
    found = [
        {"id": each.subscription.id, "state": each.subscription.state, "waiting": each.waiting} for each in look.held
    ]
    warned = warnings(look.status)
    remarks = [*warned, *(held_remark(each) for each in look.held)]
    remarks += [backfill_remark(each) for each in look.backfills if not each.is_finished]
    if look.status.loss is not None:
        remarks.append(loss_remark(look.status.loss, look.status))
    return {
        **fields_of(look.status),
        "backfills": look.backfills,
        "held_back": found,
        "warnings": [each.sentence for each in warned],
        "advice": [document(advice) for each in remarks for advice in each.advice],
    }


@status.text
def _sentences(look: _Look, args: argparse.Namespace) -> Iterator[str]:
    from sendonce.compose import display_url

    yield f"{display_url(database_of(args))}, schema {look.status.schema_version}"
    yield from _lines(look.status, look.held)
    for each in look.backfills:
        if not each.is_finished:
            yield _line("back-fill", remark_line(backfill_remark(each)), "yellow")
    yield from (paint(f"warning: {remark_line(each)}", "red") for each in warnings(look.status))


def _inbox(status: Status) -> Iterator[str]:
    """Said where a consumer has left something there."""
    if status.inbox.waiting:
        yield _line("inbox", f"{_count(status.inbox.waiting)} messages wait or are being handled")
    if status.inbox.dead:
        yield _line("inbox", f"{_count(status.inbox.dead)} messages were given up", "red")


def _lines(status: Status, held: list[HeldBack]) -> Iterator[str]:
    yield _line("workers", f"{len(status.workers)} alive" if status.workers else "none alive")
    yield from (f"                {_worker(worker, status)}" for worker in status.workers)
    oldest = ""
    if status.oldest_due_at is not None and status.due:
        oldest = f", the oldest for {format_duration(max(status.now - status.oldest_due_at, timedelta(0)))}"
    yield _line("due now", _count(status.due) + oldest)
    yield _line("scheduled", _count(status.scheduled))
    yield _line("retrying", _count(status.retrying))
    yield _line("in flight", _count(status.in_flight))
    yield _line("in doubt", _count(status.in_doubt), "yellow" if status.in_doubt else None)
    yield _line("parked", _count(status.parked), "yellow" if status.parked else None)
    yield _line("dead letters", _count(status.dead_letters), "red" if status.dead_letters else None)
    yield _line("completed", f"{status.completed:,} ever")
    yield from _inbox(status)
    if status.instance is not None:
        yield _line("instance", status.instance)
    if status.loss is not None:
        yield _line("commits", remark_line(loss_remark(status.loss, status)), "red")
    for stop in status.stops:
        yield _line("stopped", stop_sentence(stop, status), "yellow")
    if not status.stops:
        yield _line("stopped", "nothing")
    for each in held:
        yield _line("waiting", remark_line(held_remark(each)), "yellow")
    for room in filter(lambda room: room.is_served, status.rooms):
        yield _line("waiting", room_sentence(room, status.now), "yellow" if room.breaker else None)
    for alert in status.alerts:
        yield _line("alert", alert_sentence(alert, status), "red")


def _line(name: str, text: str, colour: str | None = None) -> str:
    return f"  {name:<12}  {paint(text, colour) if colour else text}"


def _worker(worker: WorkerRow, status: Status) -> str:
    progress = (
        "no progress yet" if worker.progressed_at is None else f"progress {ago(worker.progressed_at, status.now)}"
    )
    return (
        f"{worker.name}  {progress}, seen {ago(worker.seen_at, status.now)}, "
        f"started {ago(worker.started_at, status.now)}"
    )


def _count(amount: int) -> str:
    return f"{amount:,} or more" if amount >= COUNT_CAP else f"{amount:,}"
