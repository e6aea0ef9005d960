"""psycopg 3's spelling for connections of other drivers: values into a query, texts out of its rows, and its errors."""

import re
from collections.abc import Iterable, Mapping, Sequence

import psycopg
from psycopg import errors
from psycopg.adapt import Transformer
from psycopg.pq import DiagnosticField, Format
from psycopg.sql import Literal

from sendonce.store.postgres.lenders.port import Row, Values

_PLACEHOLDER = re.compile(r"%(?:%|s|\((\w+)\)s)")


def with_values(query: str, values: Values) -> str:
    """The query with its values written into it; one without any is left as it is, percent signs too."""
    if values is None:
        return query
    named, positional = (values, iter(())) if isinstance(values, Mapping) else ({}, iter(values))

    def spelled(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        return Literal(named[match[1]] if match[1] else next(positional)).as_string()

    return _PLACEHOLDER.sub(spelled, query)


def read(types: Sequence[int], rows: Iterable[Sequence[bytes | None]]) -> list[Row]:
    """The rows from what the server has sent as text; the types are its numbers for those of the columns."""
    transformer = Transformer()
    loaders = [transformer.get_loader(each, Format.TEXT).load for each in types]
    return [
        tuple(None if text is None else load(text) for load, text in zip(loaders, row, strict=True)) for row in rows
    ]


def error_of(state: str, message: str, constraint: str | None) -> psycopg.Error:
    """What psycopg 3 would raise for this answer of the server's."""
    try:
        kind = errors.lookup(state)
    except KeyError:
        kind = psycopg.DatabaseError
    told = {DiagnosticField.SQLSTATE: state, DiagnosticField.MESSAGE_PRIMARY: message}
    if constraint is not None:
        told[DiagnosticField.CONSTRAINT_NAME] = constraint
    return kind(message, info={int(field): text.encode() for field, text in told.items()})
