"""`sendonce migrate` that is killed at a named point, or stands still at one until it may go on."""

import os
import sys
from pathlib import Path

from sendonce import checkpoints
from sendonce.cli import main
from tests.crash import killing  # noqa: F401 - dies where its environment says
from tests.processes import until

HALT, GATE = "SENDONCE_TEST_HALT", "SENDONCE_TEST_GATE"


def halt(wanted: str, gate: Path) -> None:
    """Whenever it comes to this point it says so, and waits for this file."""

    def wait(point: str) -> None:
        if point == wanted:
            print("halted", file=sys.stderr, flush=True)
            until(gate.exists, f"the file {gate.name}")

    checkpoints.install(wait)


if __name__ == "__main__":
    if HALT in os.environ:
        halt(os.environ[HALT], Path(os.environ[GATE]))
    raise SystemExit(main(["migrate"]))
