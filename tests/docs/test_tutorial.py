"""docs/tutorial/first-delivery.md: its commands, run in their order, do what the page says."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, Process, until

TEXT = (ROOT / "docs/tutorial/first-delivery.md").read_text("utf-8")
COMMANDS = re.findall(r"^\$ sendonce (.*)$", TEXT, re.MULTILINE)


# Its standard output, where the waiting for lines looks.
ON_STDERR = "import sys; sys.stdout = sys.stderr; from sendonce.cli import main; sys.exit(main())"
SOON = {"SENDONCE_POLICY": '{"first_delay": "100ms"}'}


@pytest.mark.slow
def test_tutorial_delivers_once_although_an_answer_was_lost(tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    environment = SOON | dict(re.findall(r"^\$ export (\w+)=(.*)$", TEXT, re.MULTILINE))
    migrate, status, receive, worker, explain = (command.split() for command in COMMANDS)

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(*arguments: str) -> Process:
        return Process("-c", ON_STDERR, *arguments, environment=environment, folder=tmp_path)

    run("-m", "sendonce", *migrate)
    receive[receive.index("--port") + 1] = "0"
    with start(*receive) as receiver:
        receiver.says("listening on")
        [address] = re.findall(r"http://\S+", receiver.lines[0])
        (tmp_path / "shop.py").write_text(program.replace("http://127.0.0.1:8080", address))
        run("shop.py")
        before = run("-m", "sendonce", *status)
        with start(*worker) as sending:
            until(lambda: receiver.count("POST /orders") == 2, "the second attempt")
            sending.send(signal.SIGTERM)
            sending.ended()
    told = run("-m", "sendonce", *explain)

    assert re.search(r"due now +1,", before)
    assert len(set(re.findall(r"token (\w+)", receiver.said))) == 1
    assert "Completed" in told
    assert "attempt 2" in told
