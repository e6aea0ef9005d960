"""Every command: its module, which is imported only when that command is run, and what the overview says of it."""

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from sendonce.cli.parser import Parser

Subparsers: TypeAlias = "argparse._SubParsersAction[Parser]"

COMMANDS = {
    "migrate": ("migrate", "make or update the tables"),
    "grants": ("grants", "print the database roles with the least rights (PostgreSQL)"),
    "publish": ("publish", "record an event and its deliveries"),
    "worker": ("worker", "send what is due"),
    "status": ("status", "show the whole at a glance"),
    "events": ("events", "list and show what was recorded"),
    "deliveries": ("deliveries", "list and show what is on its way"),
    "requests": ("requests", "list and show requests, and wait for one to end"),
    "explain": ("explain", "tell in plain words why a delivery is where it is"),
    "dead-letters": ("dead_letters", "list, show, requeue, correct, attest and discard what was given up"),
    "reconcile": ("reconcile", "ask about what may have been sent, and check what is marked sent"),
    "doubt": ("doubt", "after a restore, have everything that is open asked about first"),
    "restored": ("restored", "say that nothing was lost, where a worker has noticed that commits are missing"),
    "instance": ("instance", "show or give the name of a database, so that a copy of it sends nothing"),
    "replay": ("replay", "send finished deliveries again"),
    "cancel": ("cancel", "give up deliveries that are not sent yet"),
    "operations": ("operations", "see who did what, when and why; pause and resume what is done by filter"),
    "stop": ("stop", "hold back sends, on every host"),
    "resume": ("resume", "let stopped sends go on"),
    "verify": ("verify", "check that everything in the database is as it must be"),
    "doctor": ("doctor", "look at the database's settings and surroundings for what is amiss"),
    "prune": ("prune", "remove now what has ended long ago, and archive it first if asked"),
    "erase": ("erase", "remove what one person was sent, and keep that it was"),
    "subscriptions": ("subscriptions", "add, list, pause, resume and remove standing orders"),
    "new-key": ("new_key", "make a key to encrypt subscriptions' secrets with"),
    "config": ("config", "show which settings are in force, and where they came from"),
    "receive": ("receive", "receive locally, for trying things out"),
    "demo": ("demo", "see it survive what it must survive, on SQLite"),
}


class Command(Protocol):
    """What a command's module has."""

    def add(self, subparsers: Subparsers) -> None:
        """Enter the command and its options."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit code."""
        ...


def load(name: str) -> Command:
    return cast(Command, import_module(f"sendonce.cli.{COMMANDS[name][0]}"))
