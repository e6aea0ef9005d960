"""asyncpg, alone or from its pool.

Rows are copied out as text: what it makes of types is its owner's, who may have set codecs of their own.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import asyncpg
import psycopg

from sendonce.store.postgres.lenders.port import Rows, Values
from sendonce.store.postgres.lenders.spelling import error_of, read, with_values

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Theirs: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_CONTROLS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class Asyncpg:
    """See `Lender`."""

    def __init__(self, connection: "Theirs") -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        try:
            return self._connection.is_closed()
        except asyncpg.InterfaceError:  # it was given back to its pool
            return True

    @property
    def commits_by_itself(self) -> bool:
        return not self._connection.is_in_transaction()

    @property
    def date_style(self) -> str:
        return str(self._connection.get_settings().DateStyle)

    async def execute(self, query: str, values: Values = None) -> Rows:
        text, copied = with_values(query, values), bytearray()

        async def write(data: bytes) -> None:
            copied.extend(data)

        with _translated():
            columns = (await self._connection.prepare(text)).get_attributes()
            if not columns:
                await self._connection.execute(text)
                return Rows()
            await self._connection.copy_from_query(text, output=write, format="text")
        rows = [[_text(each) for each in line.split(b"\t")] for line in bytes(copied).split(b"\n")[:-1]]
        return Rows(columns, read([each.type.oid for each in columns], rows))

    async def run(self, script: str) -> None:
        with _translated():
            await self._connection.execute(script)


def _text(copied: bytes) -> bytes | None:
    if copied == rb"\N":
        return None
    return _ESCAPED.sub(lambda match: _CONTROLS.get(match[1], match[1]), copied)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except asyncpg.PostgresError as error:
        state, constraint = error.sqlstate or "", getattr(error, "constraint_name", None)
        raise error_of(state, str(error.args[0]), constraint) from None
    except (asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise psycopg.InterfaceError(str(error)) from None
