"""Verbs: each is declared once with its name, help, arguments, what it calls, and how its result is told.

    @verb("dead-letters discard", "close dead letters without sending them", ids_of("dead letter"), *WHO_AND_WHY)
    async def discard(admin: Admin, ids: list[int], reason: str) -> Acted:
        return await admin.discard(ids, reason=reason)

    @discard.text
    def _(acted: Acted) -> Iterator[str]:
        yield from (f"dead letter {each} is discarded" for each in acted.ids)

A verb's parameters are filled in by name: `admin` is the open admin API, every other name is an argument. `text` and
`json` take the result first, then any arguments they name. Without `json` the result's own fields are printed.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

if TYPE_CHECKING:
    from types import CodeType

    from sendonce.cli.parser import Parser

Read: TypeAlias = Callable[[argparse.Namespace], object]
Run: TypeAlias = Callable[..., Any]
Told = TypeVar("Told", bound=Run)


@dataclass(frozen=True, slots=True)
class Arguments:
    """One argument or several that belong together. `read` names values made of them before a database is opened."""

    add: "Callable[[Parser], object]"
    read: Mapping[str, Read] = field(default_factory=dict)


def argument(*names: str, **how: Any) -> Arguments:
    """Declare one argument, as argparse takes it."""
    return Arguments(lambda parser: parser.add_argument(*names, **how))


@dataclass(slots=True, eq=False)
class Verb:
    """A command, or a noun's verb. `about` is the description of its help."""

    name: str
    help: str
    arguments: tuple[Arguments, ...]
    work: Run
    about: str
    has_json: bool
    only_looks: bool
    tell: Run
    document: Run
    exit_code: Run

    def text(self, tell: Told) -> Told:
        """Tell the result in these sentences."""
        self.tell = tell
        return tell

    def json(self, document: Told) -> Told:
        """Print this as JSON instead of the result's own fields."""
        self.document = document
        return document

    def code(self, exit_code: Told) -> Told:
        """End with this exit code."""
        self.exit_code = exit_code
        return exit_code

    def add_to(self, parser: "Parser") -> None:
        """Enter the arguments, and those that every verb has."""
        for each in self.arguments:
            each.add(parser)
        if self.has_json:
            parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
            parser.add_argument("--wide", action="store_true", help="cut and wrap nothing")
        elif "--json" not in parser._option_string_actions:
            parser.add_argument("--json", action=_NoJson, nargs=0, help=argparse.SUPPRESS)
        parser.set_defaults(run=self)

    def __call__(self, args: argparse.Namespace) -> int:
        """Do it and tell the result; the exit code."""
        from sendonce.cli.output import say_all, say_json

        values = _Values(args, self.arguments)
        result = self._done(values)
        if self.has_json and args.json:
            say_json(_call(self.document, values, result))
        else:
            say_all(_call(self.tell, values, result), wide=getattr(args, "wide", False))
        code: int = _call(self.exit_code, values, result)
        return code

    def _done(self, values: "_Values") -> object:
        names = _parameters(self.work)
        given = {name: values[name] for name in names if name != _ADMIN}
        if not _is_async(self.work):
            return self.work(**given)
        import asyncio

        from sendonce.cli.output import CouldNotLook
        from sendonce.errors import StoreError

        try:
            return asyncio.run(self._awaited(values.args, given))
        except StoreError as error:
            if self.only_looks:
                raise CouldNotLook(str(error)) from error
            raise

    async def _awaited(self, args: argparse.Namespace, given: dict[str, object]) -> object:
        from sendonce.cli.context import admin_for

        async with admin_for(args) as admin:
            return await self.work(**given, admin=admin)


def verb(
    name: str,
    help: str,
    *arguments: Arguments,
    about: str | None = None,
    has_json: bool = True,
    only_looks: bool = False,
) -> Callable[[Run], Verb]:
    """Declare a verb; the decorated function does the work. A database that fails a verb that `only_looks` is that it
    could not look."""
    description = about or f"{help[0].upper()}{help[1:]}."

    def declare(work: Run) -> Verb:
        return Verb(
            name,
            help,
            arguments,
            work,
            description,
            has_json,
            only_looks,
            tell=_sentences,
            document=lambda result: result,
            exit_code=lambda _: 0,
        )

    return declare


class _NoJson(argparse.Action):
    """Refuse --json where a verb has no document to print."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        parser.error("--json is for verbs that end with an answer; this one tells what it does while it does it")


# What the function of a verb that is awaited gets besides its arguments.
_ADMIN = "admin"


class _Values:
    """Arguments by name, those made of several made once."""

    def __init__(self, args: argparse.Namespace, arguments: Iterable[Arguments]) -> None:
        self.args = args
        self._made: dict[str, object] = {"args": args}
        for each in arguments:
            for name, read in each.read.items():
                self._made[name] = read(args)

    def __getitem__(self, name: str) -> object:
        return self._made[name] if name in self._made else getattr(self.args, name)


def _call(function: Run, values: _Values, result: object) -> Any:
    return function(result, **{name: values[name] for name in _parameters(function)[1:]})


def _sentences(result: object) -> Iterable[str]:
    if isinstance(result, str):
        return (result,)
    return result if isinstance(result, list | tuple) else ()


def _parameters(function: Run) -> tuple[str, ...]:
    code: CodeType = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _is_async(function: Run) -> bool:
    coroutine = 0x80  # inspect.CO_COROUTINE
    return bool(function.__code__.co_flags & coroutine)
