"""sendonce status: the whole at a glance."""

import argparse
from datetime import timedelta

from sendonce.admin.status import (
    alert_sentence,
    backfill_sentence,
    held_sentence,
    loss_sentence,
    room_sentence,
    stop_sentence,
    warnings,
)
from sendonce.admin.subscriptions import HeldBack, held_back
from sendonce.admin.text import ago, plain
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_json
from sendonce.cli.output import paint, say, say_json
from sendonce.cli.running import with_store
from sendonce.cli.settings import database_of
from sendonce.compose import display_url
from sendonce.domain.durations import format_duration
from sendonce.store.migrations import Backfill
from sendonce.store.readers import ReadStore
from sendonce.store.records import COUNT_CAP, Status, WorkerRow


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "status",
        help=COMMANDS["status"][1],
        description="Show who works, what is due, and what needs a person.",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    status, held, backfills = with_store(args, _look)
    if args.json:
        shown = plain(status)
        found = [
            {"id": each.subscription.id, "state": each.subscription.state, "waiting": each.waiting} for each in held
        ]
        whole = {**(shown if isinstance(shown, dict) else {}), "backfills": plain(backfills), "held_back": found}
        say_json({**whole, "warnings": warnings(status)})
        return 0
    say(f"{display_url(database_of(args))}, schema {status.schema_version}")
    _lines(status, held)
    for each in backfills:
        if not each.is_finished:
            _line("back-fill", backfill_sentence(each), "yellow")
    for sentence in warnings(status):
        say(paint(f"warning: {sentence}", "red"))
    return 0


async def _look(store: ReadStore) -> tuple[Status, list[HeldBack], list[Backfill]]:
    status = await store.status()
    return status, await held_back(store) if status.parked else [], await store.backfills()


def _lines(status: Status, held: list[HeldBack]) -> None:
    _line("workers", f"{len(status.workers)} alive" if status.workers else "none alive")
    for worker in status.workers:
        say(f"                {_worker(worker, status)}")
    oldest = ""
    if status.oldest_due_at is not None and status.due:
        oldest = f", the oldest for {format_duration(max(status.now - status.oldest_due_at, timedelta(0)))}"
    _line("due now", _count(status.due) + oldest)
    _line("scheduled", _count(status.scheduled))
    _line("retrying", _count(status.retrying))
    _line("in flight", _count(status.in_flight))
    _line("in doubt", _count(status.in_doubt), "yellow" if status.in_doubt else None)
    _line("parked", _count(status.parked), "yellow" if status.parked else None)
    _line("dead letters", _count(status.dead_letters), "red" if status.dead_letters else None)
    _line("completed", f"{status.completed:,} ever")
    if status.instance is not None:
        _line("instance", status.instance)
    if status.loss is not None:
        _line("commits", loss_sentence(status.loss, status), "red")
    for stop in status.stops:
        _line("stopped", stop_sentence(stop, status), "yellow")
    if not status.stops:
        _line("stopped", "nothing")
    for each in held:
        _line("waiting", held_sentence(each), "yellow")
    for room in filter(lambda room: room.is_served, status.rooms):
        _line("waiting", room_sentence(room, status.now), "yellow" if room.breaker else None)
    for alert in status.alerts:
        _line("alert", alert_sentence(alert, status), "red")


def _line(name: str, text: str, colour: str | None = None) -> None:
    say(f"  {name:<12}  {paint(text, colour) if colour else text}")


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
