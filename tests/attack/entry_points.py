"""Every place of the command line and of the outbox that takes a text, found in their own definitions."""

import argparse
import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from sendonce.cli.parser import build
from sendonce.outbox.outbox import Outbox

# They start servers, read terminals, or name the database itself: test_secrets and tests/cli hold those.
ELSEWHERE = {"worker", "receive", "demo", "config", "new-key", "grants", "migrate"}
_NO_TEXT = {"help", "database", "config", "version", "json"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One option or position of one command, and what the command needs besides."""

    command: tuple[str, ...]
    name: str
    before: tuple[str, ...]

    def words(self, text: str) -> list[str]:
        """The command line with this text there. `=` keeps a text that begins with a dash from being an option."""
        given = [f"{self.name}={text}"] if self.name.startswith("-") else ["--", text]
        return [*self.command, *self.before, *given]


def cli_entries() -> Iterator[Entry]:
    yield from _of(build(everything=True), ())


def publish_parameters() -> list[str]:
    """The parameters of publish that take a text: not the connection, numbers, times, or one of a few words."""
    others = {"self", "connection", "version", "deliver_at", "expires_at", "if_unsure", "if_different"}
    return [name for name in inspect.signature(Outbox.publish).parameters if name not in others]


def _of(parser: argparse.ArgumentParser, command: tuple[str, ...]) -> Iterator[Entry]:
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for each in inner:
        for name, one in each.choices.items():
            if command or name not in ELSEWHERE:
                yield from _of(one, (*command, name))
    if inner:
        return
    actions = [each for each in parser._actions if each.dest not in _NO_TEXT]
    for action in actions:
        if action.nargs == 0:
            continue
        others = [each for each in actions if each is not action and (each.required or not each.option_strings)]
        before = [word for each in others for word in _needed(each) if each.required or each.nargs not in ("*", "?")]
        yield Entry(command, action.option_strings[-1] if action.option_strings else action.dest, tuple(before))


def _needed(action: argparse.Action) -> list[str]:
    value = {"type": "a.b", "ids": "1", "id": "1", "to": "null:a", "what": "all"}.get(action.dest, "1")
    if action.choices:
        value = str(next(iter(action.choices)))
    return [f"{action.option_strings[-1]}={value}"] if action.option_strings else [value]
