"""The README's commands, typed from top to bottom into one shell."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.processes import ROOT, SECONDS

pytestmark = pytest.mark.slow

README = (ROOT / "apps/chancepay/README.md").read_text("utf-8")
PORTS = ("4222", "8000", "8001")


def typed() -> list[str]:
    """What stands between the heading "By hand" and "In earnest"."""
    part = README.partition("## By hand")[2].partition("## In earnest")[0]
    return [line.removeprefix("$ ") for line in part.splitlines() if line.startswith("$ ")]


def script(lines: list[str]) -> str:
    """The lines, with ports of the test's own. What is asked for again is asked until it is decided."""
    text = "\n".join(until_decided(line) for line in lines)
    with_ports = [(port, socket.create_server(("127.0.0.1", 0))) for port in PORTS]
    for port, free in with_ports:
        text = re.sub(rf"\b{port}\b", str(free.getsockname()[1]), text)
        free.close()
    return "set -e\n" + text


def until_decided(line: str) -> str:
    if line.endswith("/payments/5f3a0000-0000-4000-9000-000000000002"):
        return f"until {line} | tee last | grep -q SUCCEED; do sleep 0.2; done; cat last"
    if line.endswith("/wallets/ada"):
        return f"until {line} | tee last | grep -q 750; do sleep 0.2; done; cat last"
    return line


def test_readme_does_what_it_says(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with (tmp_path / "errors.txt").open("w") as errors:
        shell = subprocess.Popen(
            ["bash", "-c", script(typed())], cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        )  # fmt: skip
        assert shell.stdout is not None
        limit = threading.Timer(SECONDS, os.killpg, (shell.pid, signal.SIGKILL))
        limit.start()
        try:
            lines = [shell.stdout.readline() for _ in range(7)]
            code = shell.wait()
        finally:
            limit.cancel()
            os.killpg(shell.pid, signal.SIGKILL)
            shell.stdout.close()

    assert code == 0, (tmp_path / "errors.txt").read_text()
    opened, paid_in, _, paid, refund, wallet = map(json.loads, lines[:6])
    assert (opened["balance"], paid_in["balance"], wallet["balance"]) == (0, 1000, 750)
    assert (paid["status"], refund["kind"], refund["amount"]) == ("SUCCEED", "refund", 150)
    assert lines[6].startswith("2 looked at, ")
