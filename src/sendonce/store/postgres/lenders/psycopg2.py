"""psycopg2."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
import psycopg2
from psycopg2 import extensions

from sendonce.store.postgres.lenders.port import Rows, Values
from sendonce.store.postgres.lenders.spelling import error_of, read, with_values


class Psycopg2:
    """See `Lender`."""

    def __init__(self, connection: extensions.connection) -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return bool(self._connection.closed)

    @property
    def commits_by_itself(self) -> bool:
        status = self._connection.get_transaction_status()
        return self._connection.autocommit and status == extensions.TRANSACTION_STATUS_IDLE

    @property
    def date_style(self) -> str:
        return self._connection.get_parameter_status("DateStyle") or ""

    async def execute(self, query: str, values: Values = None) -> Rows:
        with _translated(), self._connection.cursor(cursor_factory=extensions.cursor) as cursor:
            extensions.register_type(_as_text(), cursor)
            cursor.execute(with_values(query, values))
            if cursor.description is None:
                return Rows()
            types = [column.type_code for column in cursor.description]
            texts = [[None if each is None else each.encode() for each in row] for row in cursor.fetchall()]
            return Rows(cursor.description, read(types, texts))

    async def run(self, script: str) -> None:
        await self.execute(script)


@cache
def _as_text() -> Any:
    """Registered for one cursor, it leaves every type that psycopg 3 can read as the server has sent it."""
    types = {oid for each in psycopg.adapters.types for oid in (each.oid, each.array_oid) if oid}
    return extensions.new_type(tuple(types), "SENDONCE_TEXT", lambda text, _: text)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psycopg2.Error as error:
        if error.pgcode is not None:
            message = error.diag.message_primary or type(error).__name__
            raise error_of(error.pgcode, message, error.diag.constraint_name) from None
        # Without an answer of the server's it is one of the DB-API's own, whose names are the same in both.
        kind: type[psycopg.Error] = getattr(psycopg, type(error).__name__, psycopg.Error)
        raise kind(str(error)) from None
