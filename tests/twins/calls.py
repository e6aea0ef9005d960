"""What was asked of a SQLite store, and what it answered: written down call by call, to be asked of another one too."""

import inspect
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sendonce.errors import StoreBusy

TRANSACT = "transact"


@dataclass(slots=True, kw_only=True)
class Call:
    """One call, and its answer or the error it raised. `overheard`: what functions among its arguments were asked, and
    what they said. `last_ids`: of each table, the last id given when it was over."""

    now: int
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    answer: Any = None
    error: Exception | None = None
    overheard: list[tuple[Any, Any]] = field(default_factory=list)
    last_ids: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.name}({', '.join(said)}) at {self.now}"


class Recorded:
    """A SQLite store that tells of every call which the database has answered."""

    def __init__(
        self, store: Any, connection: sqlite3.Connection, clock: Callable[[], int], tell: Callable[[Call], None]
    ) -> None:
        self._store = store
        self._connection = connection
        self._clock = clock
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not inspect.iscoroutinefunction(verb) or name == "close":
            return verb

        async def told(*args: Any, **kwargs: Any) -> Any:
            return await self._told(Call(now=self._clock(), name=name, args=args, kwargs=kwargs), verb)

        setattr(self, name, told)
        return told

    async def _told(self, call: Call, verb: Callable[..., Any]) -> Any:
        args = [_overheard(call, each) for each in call.args]
        kwargs = {name: _overheard(call, each) for name, each in call.kwargs.items()}
        try:
            call.answer = await verb(*args, **kwargs)
        except StoreBusy:
            raise
        except Exception as error:
            call.error = error
        call.last_ids = dict(self._connection.execute("select name, seq from sqlite_sequence").fetchall())
        self._tell(call)
        if call.error is not None:
            raise call.error
        return call.answer


def _overheard(call: Call, given: Any) -> Any:
    """A function whose questions and answers are written down; what is none, as it is."""
    if not callable(given) or call.name == TRANSACT:
        return given

    def ask(question: Any) -> Any:
        said = given(question)
        call.overheard.append((question, said))
        return said

    return ask
