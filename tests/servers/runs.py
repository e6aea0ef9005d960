"""One run of the tests, in however many processes: its servers are shared, and stopped when it is over.

A keeper process waits for its standard input to close. That happens when the run says so, and also when the
run is killed; either way the keeper then stops every server of the run and removes the run's folder.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.servers.daemons import clear
from tests.servers.os_users import FOLDER, new_folder
from tests.servers.postgres import Server


class Run:
    """The folder that the run's servers live in, and the keeper that clears it up."""

    def __init__(self, root: Path) -> None:
        self.folder = new_folder("sendonce-")
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.runs", str(self.folder)],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for the tests
        )

    def over(self) -> None:
        """Return when every server of this run has stopped."""
        self._keeper.communicate(timeout=600)


def shared_server(name: str, make: Callable[[], Server]) -> Server:
    """The run's one server of this name: made by the process that asks first, found by the others."""
    return Server.from_json(shared(name, lambda: make().to_json()))


def shared(name: str, make: Callable[[], str]) -> str:
    """What the process that asked first made, as a text that leads to it."""
    folder = Path(os.environ[FOLDER])
    record = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not record.exists():
            record.write_text(make())
        return record.read_text()


def keep(folder: Path) -> None:
    sys.stdin.buffer.read()
    for record in folder.glob("*/server.json"):
        Server.from_json(record.read_text()).stop()
    clear(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
