"""sendonce operations: what people have done, and what is being done by filter."""

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from sendonce.cli.advice import spelled
from sendonce.cli.bulk import drive, go_on_with, operation_document, outcome_lines
from sendonce.cli.options import OPERATOR, PAGE, WHY, id_of, operation_state
from sendonce.cli.output import Line, fields_of
from sendonce.cli.tables import Cell, Table, field_lines, listed, now, when
from sendonce.cli.verbs import argument, verb
from sendonce.store.bulk import DONE, PAUSED, RUNNING, STATES, OperationRow
from sendonce.store.filters import Page

if TYPE_CHECKING:
    from sendonce.admin.api import Admin

_COLOURS = {RUNNING: "green", PAUSED: "yellow"}
_WALK = {"first_id", "last_id", "upper_id", "looked", "skipped", "rate", "filter", "updated_at"}
_ID = id_of("operation")
_STATE = argument("--state", type=operation_state, metavar="STATE", help=f"only these: {', '.join(STATES)}")


@verb("operations list", "list who did what, when and why, the newest first", _STATE, *PAGE)
async def list_operations(admin: "Admin", state: str | None, before: int | None, limit: int) -> Page[OperationRow]:
    return await admin.aoperations(before=before, state=state, limit=limit)


@list_operations.json
def _(page: Page[OperationRow]) -> object:
    return {**fields_of(page), "rows": [operation_document(each) for each in page]}


@list_operations.text
def _(page: Page[OperationRow], limit: int) -> Iterator[Line]:
    return listed(page, _table, "operations", limit)


def _table(page: Page[OperationRow]) -> Table:
    at = now()
    rows = [
        [
            Cell(str(each.id)),
            when(each.created_at, at),
            Cell(each.operator),
            Cell(each.kind),
            Cell(each.subject),
            Cell(f"{each.affected:,}"),
            Cell(each.state, _COLOURS.get(each.state)),
            Cell(each.reason or ""),
        ]
        for each in page
    ]
    return Table(["ID", "WHEN", "WHO", "WHAT", "TO", "AFFECTED", "STATE", "WHY"], rows)


@verb("operations show", "show one operation", _ID)
async def show_operation(admin: "Admin", id: int) -> OperationRow:
    return await admin.aoperation(id)


@show_operation.text
def _(operation: OperationRow) -> Iterator[str]:
    names = [field.name for field in fields(operation) if operation.filter is not None or field.name not in _WALK]
    yield from field_lines([(name, getattr(operation, name)) for name in names], now())
    if operation.state in (RUNNING, PAUSED):
        yield spelled(go_on_with(operation))


@verb("operations pause", "stop an operation by filter before its next step", _ID, WHY, OPERATOR)
async def pause(admin: "Admin", id: int, reason: str | None) -> OperationRow:
    return await admin.apause_operation(id, reason=reason)


@pause.text
def _(operation: OperationRow) -> Iterator[str]:
    yield f"operation {operation.id} is paused; {spelled(go_on_with(operation))}"


@verb("operations resume", "let a paused or interrupted operation go on, here", _ID, WHY, OPERATOR)
async def resume(admin: "Admin", id: int, reason: str | None) -> OperationRow:
    return await drive(admin, await admin.aresume_operation(id, reason=reason))


resume.text(outcome_lines)


@resume.code
def _(operation: OperationRow) -> int:
    return 0 if operation.state == DONE else 1


@verb("operations cancel", "end an operation by filter where it is; what it has done stays", _ID, WHY, OPERATOR)
async def cancel(admin: "Admin", id: int, reason: str | None) -> OperationRow:
    return await admin.acancel_operation(id, reason=reason)


@cancel.text
def _(operation: OperationRow) -> Iterator[str]:
    yield f"operation {operation.id} is cancelled; what it has done stays"


for each in (show_operation, pause, resume, cancel):
    each.json(operation_document)
