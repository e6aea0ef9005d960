"""SQL in files, one name per query, and its parameters as a driver wants them."""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

_HEADER = re.compile(r"^-- (name|part): ([a-z_]+)$", re.MULTILINE)
_PART = re.compile(r":\(([a-z_]+)\)")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_SPACES = re.compile(r"\s+")


def split(text: str) -> dict[str, str]:
    """Split the text of .sql files at their `-- name:` lines."""
    found = _HEADER.split(text)[1:]
    kinds, names, bodies = found[::3], found[1::3], found[2::3]
    if len(set(zip(kinds, names, strict=True))) != len(names):
        raise ValueError("two queries share one name")
    # One space instead of many: psycopg caches its reading of a query only when that is short enough.
    plain = {
        (kind, name): _SPACES.sub(" ", _COMMENT.sub("", body)).strip().rstrip(";")
        for kind, name, body in zip(kinds, names, bodies, strict=True)
    }
    parts = {name: body for (kind, name), body in plain.items() if kind == "part"}
    return {
        name: _PART.sub(lambda match: parts[match[1]], body) for (kind, name), body in plain.items() if kind == "name"
    }


def load(package: str, folder: str = "sql") -> dict[str, str]:
    """Every query of a package's .sql files, by name."""
    found = sorted(files(package).joinpath(folder).iterdir(), key=lambda each: each.name)
    return split("\n".join(file.read_text("utf-8") for file in found if file.name.endswith(".sql")))


def parameters(sql: str) -> list[str]:
    """The names of a query's parameters, each once, in order."""
    return list(dict.fromkeys(_PARAMETER.findall(sql)))


def with_parameters(sql: str, spell: Callable[[str], str]) -> str:
    """The query with every `:name` spelled the way a driver wants it; doubling a `%` is the caller's part."""
    return _PARAMETER.sub(lambda match: spell(match[1]), sql)


def array(values: Sequence[object]) -> str | None:
    """PostgreSQL's spelling of a list of texts and numbers; None when there is nothing in it but None.

    As one text it is much cheaper, here and in the database, than a list that a driver turns into an array.
    """
    if not any([value is not None for value in values]):
        return None
    if type(values[0]) is int:
        return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return '"' + text.replace('"', '\\"') + '"'


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
