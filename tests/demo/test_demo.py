"""The real command, from beginning to end, with its real processes."""

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
DEMO = [sys.executable, "-m", "sendonce", "demo"]


def _left_behind(folder: Path) -> list[str]:
    """Processes that still work in this folder."""
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.joinpath("cwd").readlink() == folder:
                left.append(process.joinpath("cmdline").read_text())
        except OSError:
            continue
    return left


def _environment(**more: str) -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "SENDONCE_DATABASE": "sqlite:///not-this-one.db", **more}


def test_demo_shows_what_it_promises_with_commands_that_work(tmp_path: Path) -> None:
    done = subprocess.run(DEMO, cwd=tmp_path, env=_environment(), capture_output=True, text=True, timeout=400)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "60 orders = 5 rolled back + 53 delivered + 2 dead letters; 0 lost, 0 doubled" in done.stdout
    rows = {line[:48].strip(): line[48:].split() for line in done.stdout.splitlines()}
    assert rows["acted upon once"][0] == "53"
    assert rows["arrived all the same"] == ["0", "0"]
    assert int(rows["requests in flight at the SIGKILL"][0]) >= 8
    arrived = [int(number) for number in rows["of which had arrived"]]
    found = int(rows["found there, and not sent again"][0])
    assert found >= arrived[0] >= 2
    assert int(rows["not there, and sent after asking"][0]) >= 1
    assert int(rows["asked about before a repeat"][0]) >= found
    fates = ("acted upon once", "acted upon twice or more", "refused by the receiver", "never arrived")
    assert [sum(int(rows[name][side]) for name in fates) for side in (0, 1)] == [55, 55]
    assert int(rows["acted upon twice or more"][1]) >= arrived[1] >= 2
    assert max(len(line) for line in done.stdout.split("\n\n")[0].splitlines()) < 80
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sendonce-demo.db"]
    assert _left_behind(tmp_path) == []
    _follow(done.stdout, tmp_path)


def _follow(printed: str, folder: Path) -> None:
    """Type the commands that were printed."""
    told = {}
    for command in re.findall(r"^  (.+ --database sqlite:///sendonce-demo.db .+)$", printed, re.MULTILINE):
        done = subprocess.run(
            shlex.split(command), cwd=folder, env=_environment(), capture_output=True, text=True, timeout=50
        )
        assert done.returncode == 0, done.stderr
        told[command.split("sendonce-demo.db ")[1]] = done.stdout
    stories = [text for command, text in told.items() if command.startswith("explain")]
    assert "it may have been sent" in stories[0]
    assert "Completed" in stories[0]
    assert "given up (refused)" in stories[1]
    assert told["dead-letters list"].count("http_422") == 2
    assert told["deliveries list"].count("order.placed") == 50
    assert re.search(r"completed +53", told["status"])


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_demo_interrupted_leaves_no_process_and_a_clean_terminal(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    ours, its = pty.openpty()
    environment = _environment(TERM="xterm", COLUMNS="80", LINES="24")
    demo = subprocess.Popen(DEMO, cwd=tmp_path, env=environment, stdin=its, stdout=its, stderr=its)
    os.close(its)
    _read_until(ours, "PendingRetry    1")
    working = _left_behind(tmp_path)

    demo.send_signal(sent)
    shown = _read_until(ours, "\x1b[?25h")
    seen = demo.wait(20)
    os.close(ours)

    assert len(working) == 4  # the demonstration, the receiver with its door closed, worker 1 and the naive sender
    assert seen == code
    assert shown.endswith("\x1b[?25h")
    assert _left_behind(tmp_path) == []


def _read_until(terminal: int, wanted: str) -> str:
    """What the terminal shows until these words, or until 20 seconds have passed."""
    shown, deadline = "", time.monotonic() + 50
    while wanted not in shown and select.select([terminal], [], [], max(deadline - time.monotonic(), 0))[0]:
        shown += os.read(terminal, 65536).decode("utf-8", "replace")
    return shown


def test_demo_makes_no_database_but_sqlite(tmp_path: Path) -> None:
    named = [*DEMO, "--database", "postgresql://localhost/mine"]

    done = subprocess.run(named, cwd=tmp_path, env=_environment(), capture_output=True, text=True, timeout=50)

    assert done.returncode == 2
    assert done.stderr == (
        "sendonce: the demonstration makes a SQLite database of its own; name a file, or leave --database out\n"
    )


def test_named_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    mine = tmp_path.joinpath("mine.db")
    mine.write_text("mine")
    named = [*DEMO, "--database", "sqlite:///mine.db"]

    done = subprocess.run(named, cwd=tmp_path, env=_environment(), capture_output=True, text=True, timeout=50)

    assert done.returncode == 1
    assert "mine.db is there already" in done.stderr
    assert mine.read_text() == "mine"
