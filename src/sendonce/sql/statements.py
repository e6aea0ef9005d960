"""SQL with its values, and how drivers want its parameters spelled. Knows no driver."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from sendonce.sql.queries import parameters, with_parameters

T = TypeVar("T")
Database: TypeAlias = Literal["postgres", "sqlite"]
Value: TypeAlias = str | int | bytes | None
Rows: TypeAlias = Sequence[Sequence[Any]]


class Statement(NamedTuple):
    """One SQL text with `:name` parameters and no percent sign, and the values for them."""

    sql: str
    values: Mapping[str, Value] = {}


Statements: TypeAlias = Generator[Statement, Rows, T]
"""Statements one after the other; each is answered with its rows, and a failed one with its error."""

SAVEPOINT = Statement("savepoint sendonce")
ROLL_BACK = Statement("rollback to savepoint sendonce")
RELEASE = Statement("release savepoint sendonce")


@cache
def pyformat(sql: str) -> str:
    """Return the text with %(name)s parameters."""
    return with_parameters(sql, lambda name: f"%({name})s")


@cache
def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    names = parameters(sql)
    return with_parameters(sql, lambda name: f"${names.index(name) + 1}"), tuple(names)


def numbered(statement: Statement) -> tuple[str, list[Value]]:
    """Return the text with $1 parameters, and the values in that order."""
    sql, names = _numbered(statement.sql)
    return sql, [statement.values[name] for name in names]


def in_savepoint(statements: Statements[T]) -> Statements[T]:
    """Carry out all of the statements or none; the transaction around them goes on either way."""
    yield SAVEPOINT
    try:
        result = yield from statements
    except GeneratorExit:
        raise
    except BaseException:
        # An error that has ended the whole transaction has taken the savepoint with it.
        with suppress(Exception):
            yield ROLL_BACK
            yield RELEASE
        raise
    yield RELEASE
    return result
