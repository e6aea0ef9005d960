"""The parser: built from the table of verbs, of which only the wanted noun's module is loaded."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

from sendonce.cli.verbs import Verb

DESCRIPTION = "Record an intent in your own transaction; it reaches its destination once in effect."
EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong use. SENDONCE_DATABASE names the database where --database does not."


class WrongUse(Exception):
    """The command line makes no sense; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Noun:
    """A command: the module of its verbs, its line in the overview, and its description if it has several verbs."""

    module: str
    help: str
    about: str = ""


NOUNS = {
    "migrate": Noun("database", "make or update the tables"),
    "grants": Noun("database", "print the database roles with the least rights (PostgreSQL)"),
    "publish": Noun("events", "record an event and its deliveries"),
    "worker": Noun("worker", "send what is due"),
    "consume": Noun("consume", "feed your handlers from message brokers"),
    "status": Noun("status", "show the whole at a glance"),
    "events": Noun("events", "list and show what was recorded", "Look at what was recorded."),
    "deliveries": Noun(
        "deliveries", "list and show what is on its way", "Look at what is on its way, and what became of it."
    ),
    "requests": Noun(
        "requests",
        "list and show requests, and wait for one to end",
        "Look at requests: one version of a subject to its recipients.",
    ),
    "explain": Noun("explain", "tell in plain words why a delivery is where it is"),
    "dead-letters": Noun(
        "dead_letters",
        "list, show, count, requeue, correct, attest and discard what was given up",
        "Look at what was given up, and decide about it.",
    ),
    "inbox": Noun(
        "inbox",
        "list, show, retry, discard and erase messages that came in and were not handled at once",
        "Look at messages that came in and were not handled at once, and decide about them.",
    ),
    "reconcile": Noun("reconcile", "ask about what may have been sent, and check what is marked sent"),
    "doubt": Noun("reconcile", "after a restore, have everything that is open asked about first"),
    "restored": Noun("reconcile", "say that nothing was lost, where a worker has noticed that commits are missing"),
    "instance": Noun("database", "show or give the name of a database, so that a copy of it sends nothing"),
    "evidence": Noun(
        "evidence",
        "settle what is in doubt or held by what comes in later: callbacks, settlement files, mail logs",
        "Say what came in later about what was sent.",
    ),
    "replay": Noun("deliveries", "send finished deliveries again"),
    "cancel": Noun("deliveries", "give up deliveries that are not sent yet"),
    "operations": Noun(
        "operations",
        "see who did what, when and why; pause and resume what is done by filter",
        "Look at what people have done, and keep what is being done by filter in hand.",
    ),
    "stop": Noun("stops", "hold back sends, on every host"),
    "resume": Noun("stops", "let stopped sends go on"),
    "verify": Noun("verify", "check that everything in the database is as it must be"),
    "doctor": Noun("verify", "look at the database's settings and surroundings for what is amiss"),
    "prune": Noun("retention", "remove now what has ended long ago, and archive it first if asked"),
    "erase": Noun("retention", "remove what one person was sent, and keep that it was"),
    "subscriptions": Noun(
        "subscriptions",
        "add, list, pause, resume and remove standing orders",
        "Keep standing orders: events of these types go to this destination.",
    ),
    "new-key": Noun("config", "make a key to encrypt subscriptions' secrets with"),
    "config": Noun("config", "show which settings are in force, and where they came from"),
    "completion": Noun("completion", "print a script that completes commands and options in your shell"),
    "receive": Noun("devtools", "receive locally, for trying things out"),
    "demo": Noun("devtools", "see it survive what it must survive, on SQLite"),
}


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
    """Return the parser with the arguments of one command, or of every one; the others are only named."""
    parser = Parser(prog="sendonce", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, noun in NOUNS.items():
        if not everything and name != wanted:
            subparsers.add_parser(name, help=noun.help)
            continue
        verbs = verbs_of(name)
        about = noun.about or verbs[0].about
        inner = subparsers.add_parser(name, help=noun.help, description=about)
        if noun.about:
            _add_verbs(inner, verbs)
        else:
            verbs[0].add_to(inner)
    return parser


def verbs_of(name: str) -> list[Verb]:
    """Return the verbs of a command, from its module, in the order in which they stand there."""
    module = import_module(f"sendonce.cli.{NOUNS[name].module}")
    found = dict.fromkeys(each for each in vars(module).values() if isinstance(each, Verb))
    return [each for each in found if each.name.partition(" ")[0] == name]


def every_verb() -> Iterator[Verb]:
    """Yield every verb of every command. This loads all modules."""
    for name in NOUNS:
        yield from verbs_of(name)


def wanted_command(arguments: Sequence[str]) -> str | None:
    """Return the command: the first word that is no option. WrongUse when there is no such command."""
    words = iter(arguments)
    for word in words:
        if word == "--database":
            next(words, None)
        elif not word.startswith("-"):
            if word not in NOUNS:
                raise WrongUse(f"there is no command {word!r}; {_suggestion(word)}")
            return word
    return None


def _add_verbs(parser: Parser, verbs: Sequence[Verb]) -> None:
    names = [each.name.partition(" ")[2] for each in verbs]
    inner = parser.add_subparsers(dest="verb", metavar="|".join(names), required=True)
    for name, each in zip(names, verbs, strict=True):
        each.add_to(inner.add_parser(name, help=each.help, description=each.about))


def _suggestion(word: str) -> str:
    from difflib import get_close_matches

    if close := get_close_matches(word, NOUNS, n=1):
        return f"do you mean {close[0]}?"
    return f"commands are: {', '.join(NOUNS)}"
