"""Before what cannot be undone, or is done to many: a person at a terminal is asked, others must have said --yes."""

import sys

from sendonce.cli.failures import WrongUse


def check_terminal() -> None:
    """WrongUse where there is nobody to ask."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUse("nobody can be asked here: count first with --dry-run, then add --yes")


def agrees() -> bool:
    """What the person answers."""
    try:
        return input("go on? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
