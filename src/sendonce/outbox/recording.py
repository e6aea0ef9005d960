"""How events are recorded, by the kind of database."""

from collections.abc import Callable

from sendonce.outbox import postgres, sqlite
from sendonce.outbox.entries import Order, Recorded
from sendonce.sql.statements import Database, Statements

RECORD: dict[Database, Callable[[Order], Statements[list[Recorded]]]] = {
    "postgres": postgres.record,
    "sqlite": sqlite.record,
}
