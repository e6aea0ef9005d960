"""A verb as steps: a generator of named queries, whose rows are read as records."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from datetime import datetime
from enum import EnumMeta
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Record = TypeVar("Record")
Row: TypeAlias = tuple[Any, ...]


class Query(NamedTuple):
    """A query by its name, and its values as Python has them: lists, times, spans and ids are spelled by the dialect.

    With a `record`, its rows come as such records: the query names its columns in the order of their fields. A query of
    SQLite alone may have rows of values as `each`, in the order of its parameters, and is run once for every one.
    """

    name: str
    values: Mapping[str, object]
    record: Callable[..., Any] | None = None


Steps: TypeAlias = Generator[Query, list[Any], T]
"""Queries one after the other; each is answered with its rows, and a failed one with its error."""


def rows(name: str, /, **values: object) -> Steps[list[Row]]:
    """Ask one query; its rows."""
    return (yield Query(name, values))


def records(kind: Callable[..., Record], name: str, /, **values: object) -> Steps[list[Record]]:
    """Ask one query; its rows as records."""
    return (yield Query(name, values, kind))


def one(kind: Callable[..., Record], name: str, /, **values: object) -> Steps[Record | None]:
    """Ask one query; its first row as a record, if it has any."""
    found = yield from records(kind, name, **values)
    return found[0] if found else None


class _Clock(NamedTuple):
    now: datetime


def now() -> Steps[datetime]:
    """The time of the database at which this transaction has begun: everything in it is written with it."""
    [clock] = yield from records(_Clock, "clock")
    return clock.now


def run(steps: Generator[Asked, Answer, T], execute: Callable[[Asked], Answer]) -> T:
    """Carry out the steps; their result."""
    try:
        asked = next(steps)
        while True:
            try:
                answer = execute(asked)
            except BaseException as error:
                asked = steps.throw(error)
            else:
                asked = steps.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


async def arun(steps: Generator[Asked, Answer, T], execute: Callable[[Asked], Awaitable[Answer]]) -> T:
    """Carry out the steps; their result."""
    try:
        asked = next(steps)
        while True:
            try:
                answer = await execute(asked)
            except BaseException as error:
                asked = steps.throw(error)
            else:
                asked = steps.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Carry out a coroutine that never suspends, as every verb on a caller's sync connection; no event loop needed."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("this coroutine waits for something: it needs an event loop")


Read: TypeAlias = Callable[[Any], Any]
Make: TypeAlias = Callable[[list[Any]], Any]


def reader(kind: Callable[..., Any], spelled: Mapping[object, Read]) -> Callable[[tuple[Any, ...]], Any]:
    """What makes a record of this kind of a row, whose columns are the first of its fields.

    `spelled`: how to read the types that a database does not have. A field that is a tuple with names of its own takes
    as many columns as it has.
    """
    columns = list(_columns(kind))
    converts = [(place, read) for place, wanted in enumerate(columns) if (read := _read(wanted, spelled)) is not None]
    make = _maker(kind)

    def record(row: tuple[Any, ...]) -> Any:
        values = list(row)
        for place, convert in converts:
            if place < len(values) and values[place] is not None:
                values[place] = convert(values[place])
        return make(values)

    return record


def _columns(kind: Any) -> Iterator[Any]:
    """The types of all columns that make up such a record."""
    for wanted in get_type_hints(kind).values():
        if hasattr(wanted, "_make"):
            yield from _columns(wanted)
        else:
            yield wanted


def _maker(kind: Any) -> Make:
    """What makes a record of all columns that there are for it; those that come after it are left."""
    hints = get_type_hints(kind)
    names = list(hints)
    inner = [hint if hasattr(hint, "_make") else None for hint in hints.values()]
    if any(inner):
        return _nested(kind, inner)
    if not hasattr(kind, "_make"):
        return lambda values: kind(**dict(zip(names, values, strict=False)))
    width = len(names)
    return lambda values: kind._make(values) if len(values) == width else kind(*values[:width])


def _nested(kind: Any, inner: list[Any]) -> Make:
    widths = [1 if each is None else len(list(_columns(each))) for each in inner]
    makers = [None if each is None else _maker(each) for each in inner]

    def make(values: list[Any]) -> Any:
        fields, begin = [], 0
        for maker, width in zip(makers, widths, strict=True):
            fields.append(values[begin] if maker is None else maker(values[begin : begin + width]))
            begin += width
        return kind(*fields)

    return make


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
