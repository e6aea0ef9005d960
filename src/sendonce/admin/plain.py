"""Rows as plain values: what JSON can hold, under the rows' own field names."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta


def plain(value: object, *, without: frozenset[str] = frozenset()) -> object:
    """Dataclasses as dicts, times as ISO 8601 in UTC, durations in seconds; fields named in `without` are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.name not in without]
        return {name: plain(getattr(value, name), without=without) for name in names}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(name): plain(each, without=without) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, without=without) for each in value]
    return str(value) if isinstance(value, str) else value
