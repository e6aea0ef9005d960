"""Rows as records: each column is read as its field's type says, in the way of the database that it comes from."""

from collections.abc import Callable, Mapping
from enum import EnumMeta
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

Read: TypeAlias = Callable[[Any], Any]


def reader(kind: Callable[..., Any], spelled: Mapping[object, Read]) -> Callable[[tuple[Any, ...]], Any]:
    """What makes a record of this kind of a row, whose columns are the first of its fields.

    `spelled`: how to read the types that a database does not have.
    """
    columns = [(name, _read(wanted, spelled)) for name, wanted in get_type_hints(kind).items()]

    def read(row: tuple[Any, ...]) -> Any:
        return kind(
            **{
                name: value if value is None or convert is None else convert(value)
                for (name, convert), value in zip(columns, row, strict=False)
            }
        )

    return read


def _read(wanted: Any, spelled: Mapping[object, Read]) -> Read | None:
    """How a value becomes one of this type; None where it is one already."""
    if get_origin(wanted) in (UnionType, Union):
        [wanted] = [each for each in get_args(wanted) if each is not NoneType]
    wanted = get_origin(wanted) or wanted
    if wanted in spelled:
        return spelled[wanted]
    if isinstance(wanted, EnumMeta):
        return wanted
    return tuple if wanted is tuple else None
