"""SQL with its values, how drivers want it spelled, and steps that a driver carries out. Knows no driver."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from sendonce.sql.queries import parameters, split, with_parameters

T = TypeVar("T")
Database: TypeAlias = Literal["postgres", "sqlite"]
Value: TypeAlias = str | int | bytes | None
Rows: TypeAlias = Sequence[Sequence[Any]]


class Statement(NamedTuple):
    """One SQL text with `:name` parameters and no percent sign, and the values for them."""

    sql: str
    values: Mapping[str, Value] = {}


Steps: TypeAlias = Generator[Statement, Rows, T]
"""Statements one after the other; each is answered with its rows, and a failed one with its error."""

SAVEPOINT = Statement("savepoint sendonce")
ROLL_BACK = Statement("rollback to savepoint sendonce")
RELEASE = Statement("release savepoint sendonce")


@cache
def queries(database: Database) -> dict[str, str]:
    """The statements for one database, by name."""
    return split(files("sendonce.outbox").joinpath("sql", f"{database}.sql").read_text("utf-8"))


@cache
def pyformat(sql: str) -> str:
    """The text with %(name)s parameters."""
    return with_parameters(sql, lambda name: f"%({name})s")


@cache
def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    names = parameters(sql)
    return with_parameters(sql, lambda name: f"${names.index(name) + 1}"), tuple(names)


def numbered(statement: Statement) -> tuple[str, list[Value]]:
    """The text with $1 parameters, and the values in that order."""
    sql, names = _numbered(statement.sql)
    return sql, [statement.values[name] for name in names]


def in_savepoint(steps: Steps[T]) -> Steps[T]:
    """The steps, all or none of them; the transaction around them goes on either way."""
    yield SAVEPOINT
    try:
        result = yield from steps
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


def run(steps: Steps[T], execute: Callable[[Statement], Rows]) -> T:
    """Carry out the steps; their result."""
    try:
        statement = next(steps)
        while True:
            try:
                rows = execute(statement)
            except BaseException as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


async def arun(steps: Steps[T], execute: Callable[[Statement], Awaitable[Rows]]) -> T:
    """Carry out the steps; their result."""
    try:
        statement = next(steps)
        while True:
            try:
                rows = await execute(statement)
            except BaseException as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result
