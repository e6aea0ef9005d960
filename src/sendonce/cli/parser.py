"""The parser: every level takes --database, wrong use is one sentence, and only the wanted command is loaded."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from sendonce.cli.commands import COMMANDS, load
from sendonce.cli.failures import WrongUse

__all__ = ["Parser", "WrongUse", "build", "wanted_command"]

DESCRIPTION = "Record an intent in your own transaction; it reaches its destination once in effect."
EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong use. SENDONCE_DATABASE names the database where --database does not."


class Parser(argparse.ArgumentParser):
    """An argument parser that takes --database before and after every command, and raises WrongUse."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self.add_argument(
            "--database",
            metavar="URL",
            # Left out when not given: a default of an inner parser would replace what was given to an outer one.
            default=argparse.SUPPRESS,
            help="sqlite:///file or postgresql://…; else SENDONCE_DATABASE, else that of the settings file,"
            " else sqlite:///sendonce.db",
        )

    def error(self, message: str) -> NoReturn:
        raise WrongUse(f"{message}; see: {self.prog} --help")


def build(wanted: str | None = None, *, everything: bool = False) -> Parser:
    """The parser with the options of one command, or of every one; the others are only named."""
    parser = Parser(prog="sendonce", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, (_, summary) in COMMANDS.items():
        if everything or name == wanted:
            load(name).add(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return parser


def wanted_command(arguments: Sequence[str]) -> str | None:
    """The first word that is no option: the command. WrongUse when there is no such command."""
    words = iter(arguments)
    for word in words:
        if word == "--database":
            next(words, None)
        elif not word.startswith("-"):
            if word not in COMMANDS:
                raise WrongUse(f"there is no command {word!r}; {_suggestion(word)}")
            return word
    return None


def _suggestion(word: str) -> str:
    from difflib import get_close_matches

    if close := get_close_matches(word, COMMANDS, n=1):
        return f"do you mean {close[0]}?"
    return f"commands are: {', '.join(COMMANDS)}"
