"""How far a long command has come: one line on a terminal that is written anew, and nothing anywhere else."""

import sys


def progress(text: str) -> None:
    """Write the line anew; an empty one takes it away."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
