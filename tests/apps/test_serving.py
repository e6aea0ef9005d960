"""What the applications share: what is wrong is said in one sentence, before anything is served."""

import re
import socket
from pathlib import Path

import pytest

from tests.processes import ROOT, Process


def said(folder: Path, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Start an application that cannot begin; its exit code and what it says."""
    with Process(
        "-m", "apps.webhooks", *arguments, environment={"PYTHONPATH": str(ROOT), **environment}, folder=folder
    ) as process:
        return process.ended(), process.lines


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        (["--database", "mysql://x/y"], {}, r"webhooks: sendonce does not run on 'mysql'; .+"),
        (["--database", "postgresql://x@127.0.0.1:1/x"], {}, r"webhooks: PostgreSQL cannot answer now .+"),
        (["--port", "65536"], {}, r"webhooks: a port is from 0 to 65535, not 65536"),
        (["--host", "no.such.host.invalid"], {}, r"webhooks: cannot listen on no.+:8000: there is no such host"),
        (["--port", "0"], {"SENDONCE_WORKER_LEASE": "soon"}, r"webhooks: SENDONCE_WORKER_LEASE.+"),
    ],
)
def test_error_is_one_sentence(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], sentence: str
) -> None:
    code, lines = said(tmp_path, *arguments, **environment)

    assert code == 1
    assert len(lines) == 1
    assert re.fullmatch(sentence, lines[0].strip())


def test_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, lines = said(tmp_path, "--port", port)

    assert code == 1
    assert lines == [f"webhooks: cannot listen on 127.0.0.1:{port}: Address already in use\n"]
