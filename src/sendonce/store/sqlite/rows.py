"""Rows of the database as the records that people get."""

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.requests import RequestStatus
from sendonce.sql.steps import Row
from sendonce.store.sqlite.connection import moment

Record = TypeVar("Record")


def record(kind: Callable[..., Record], row: Row) -> Record:
    """A row as a record: the queries name their columns in the order of the record's fields."""
    return kind(**{name: read(value) for (name, read), value in zip(_columns(kind), row, strict=True)})


@cache
def _columns(kind: Any) -> list[tuple[str, Callable[[Any], object]]]:
    return [(field.name, _reader(field.type)) for field in fields(kind)]


def _reader(wanted: object) -> Callable[[Any], object]:
    """How a column becomes a value of this type."""
    if wanted in (datetime, datetime | None):
        return _moment
    if wanted in (bool, DeliveryState, ReasonClass, RequestStatus):
        return wanted
    return _as_it_is


def _moment(value: int | None) -> datetime | None:
    return None if value is None else moment(value)


def _as_it_is(value: object) -> object:
    return value
