"""sendonce deliveries, replay and cancel: what is on its way, what became of it, and again or not at all."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING

from sendonce.admin.advice import Advice
from sendonce.admin.text import one_line
from sendonce.cli.advice import spelled
from sendonce.cli.bulk import Bulk, reopened_lines, run_bulk, selection, tell_bulk
from sendonce.cli.options import (
    DESTINATION,
    EVEN_IF_SENT,
    OPERATOR,
    PAGE,
    SINCE,
    STATUS,
    TENANT,
    TYPE,
    WHY_REQUIRED,
    id_of,
    older_than,
    wanted_of,
)
from sendonce.cli.output import Line, fields_of, paint
from sendonce.cli.tables import Cell, Table, address, field_lines, listed, now, older, state_cell, when
from sendonce.cli.verbs import verb
from sendonce.errors import NotFound
from sendonce.store.bulk import CANCEL, REPLAY
from sendonce.store.filters import Filter, Page
from sendonce.store.records import AttemptRow, DeliveryRow

if TYPE_CHECKING:
    from sendonce.admin.api import Admin
    from sendonce.admin.dead_letters import Reopened
    from sendonce.admin.deliveries import Cancelled


@dataclass(frozen=True, slots=True)
class _Delivery:
    delivery: DeliveryRow
    attempts: Page[AttemptRow]


@verb("deliveries list", "list deliveries, the newest first", STATUS, TYPE, DESTINATION, TENANT, SINCE, *PAGE)
async def list_deliveries(admin: "Admin", args: argparse.Namespace) -> Page[DeliveryRow]:
    return await admin.adeliveries(**wanted_of(args))


@list_deliveries.text
def _(page: Page[DeliveryRow], limit: int) -> Iterator[Line]:
    return listed(page, _table, "deliveries", limit)


def _table(deliveries: Page[DeliveryRow]) -> Table:
    at = now()
    rows = [
        [
            Cell(str(each.id)),
            state_cell(each),
            Cell(each.type),
            Cell(each.key),
            address(each.destination),
            Cell(str(each.attempt_count)),
            _next(each, at),
            when(each.created_at, at),
        ]
        for each in deliveries
    ]
    return Table(["ID", "STATE", "TYPE", "KEY", "DESTINATION", "TRIES", "NEXT", "RECORDED"], rows)


def _next(delivery: DeliveryRow, at: datetime) -> Cell:
    due = delivery.next_attempt_at
    return Cell("due") if due is not None and due <= at else when(due, at)


@verb("deliveries show", "show one delivery and its attempts", id_of("delivery"), older_than("attempts"))
async def show_delivery(admin: "Admin", id: int, before: int | None) -> _Delivery:
    return _Delivery(await admin.adelivery(id), await admin.aattempts_of(id, before=before))


@show_delivery.json
def _(shown: _Delivery) -> object:
    return {**fields_of(shown.delivery), "attempts": list(shown.attempts), "next_before": shown.attempts.next_before}


@show_delivery.text
def _(shown: _Delivery) -> Iterator[Line]:
    at, delivery = now(), shown.delivery
    yield from field_lines([(each.name, getattr(delivery, each.name)) for each in fields(delivery)], at)
    if shown.attempts:
        yield _attempts(shown.attempts, at)
        yield from older(shown.attempts)
    for each in shown.attempts:
        if each.error_message or each.response:
            yield paint(f"attempt {each.attempt}", "bold")
            yield from field_lines(
                [("error_message", each.error_message), ("response", each.response)], at, indent="  "
            )
    yield spelled(Advice(verb="explain", why="in plain words", id=delivery.id, of="delivery"))


def _attempts(attempts: Sequence[AttemptRow], at: datetime) -> Table:
    rows = [
        [
            Cell(str(each.attempt)),
            Cell(each.outcome or each.status, None if each.outcome else "yellow"),
            Cell(each.error_code or ""),
            when(each.created_at, at),
            when(each.finished_at, at),
            Cell(str(each.lease_id)),
            Cell(one_line(each.notification_id or "")),
        ]
        for each in attempts
    ]
    return Table(["ATTEMPT", "OUTCOME", "ERROR", "BEGUN", "ENDED", "LEASE", "NOTIFICATION"], rows)


@verb(
    "replay",
    "send finished deliveries again",
    selection("delivery"),
    WHY_REQUIRED,
    OPERATOR,
    EVEN_IF_SENT,
    about="Open the next generation of finished deliveries. Of those named by id all, or none when one cannot; by"
    " filter all that match, in steps.",
)
async def replay(
    admin: "Admin", args: argparse.Namespace, ids: list[int], wanted: Filter | None
) -> "list[Reopened] | Bulk":
    if wanted is not None:
        return await run_bulk(admin, args, REPLAY, wanted)
    return await admin.areplay(ids, reason=args.reason, even_if_sent=args.even_if_sent)


tell_bulk(replay, reopened_lines)


@verb(
    "cancel",
    "give up deliveries that are not sent yet",
    selection("delivery"),
    WHY_REQUIRED,
    OPERATOR,
    EVEN_IF_SENT,
    about="Give up deliveries that wait for their first or next attempt. What is being sent stays as it is. By filter,"
    " what may have arrived stays too.",
)
async def cancel(
    admin: "Admin", args: argparse.Namespace, ids: list[int], wanted: Filter | None
) -> "list[Cancelled] | Bulk":
    if wanted is not None:
        return await run_bulk(admin, args, CANCEL, wanted)
    return await _cancel(admin, ids, args.reason)


async def _cancel(admin: "Admin", ids: list[int], reason: str) -> "list[Cancelled]":
    """Cancel those that are there; an answer for each."""
    from sendonce.admin.deliveries import Cancelled

    answers: dict[int, Cancelled] = {}
    for each in ids:
        try:
            await admin.adelivery(each)
        except NotFound as error:
            answers[each] = Cancelled(each, False, str(error))
    there = [each for each in ids if each not in answers]
    if there:
        answers |= {each.delivery_id: each for each in await admin.acancel(there, reason=reason)}
    return [answers[each] for each in dict.fromkeys(ids)]


def _cancelled(answers: "list[Cancelled]") -> Iterator[str]:
    from sendonce.cli.output import warn

    for each in answers:
        if each.done:
            yield each.message
        else:
            warn(each.message)


tell_bulk(cancel, _cancelled, lambda answers: 0 if all(each.done for each in answers) else 1)
