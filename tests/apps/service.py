"""A reference application as a process of its own, started as its README says, and a caller that speaks to it."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import ROOT, SECONDS, Process, until

_ADDRESS = re.compile(r" is at (http://\S+),")
_FUZZ_CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, and the JSON that came with it."""

    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class Service:
    """A running application."""

    url: str
    process: Process
    folder: Path

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.send("POST", path, body, headers)

    def send(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request. `body` is sent as JSON; bytes are sent as they are."""
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, method=method)  # noqa: S310, it is our own
        request.add_header("content-type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:  # noqa: S310
                return Answer(response.status, _parsed(response.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _parsed(error.read()))

    def fuzz(self, *options: str, examples: int = 25) -> subprocess.CompletedProcess[str]:
        """Have its whole description tried with good and bad input; 0 when no answer was a 5xx or not as described."""
        return subprocess.run(
            [
                sys.executable, "-m", "schemathesis.cli", "run", f"{self.url}/openapi.json",
                "--checks", _FUZZ_CHECKS, "--max-examples", str(examples), "--seed", "1", "--no-color",
                "--generation-database", "none", "--request-timeout", "20", *options,
            ],
            cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip


@contextmanager
def running(
    name: str,
    folder: Path,
    *arguments: str,
    database: str | None = None,
    environment: Mapping[str, str] | None = None,
    command: str | None = None,
    port: int = 0,
) -> Iterator[Service]:
    """Start an application in a folder of its own and wait until it says where it is. 0 takes a free port."""
    chosen = ("--database", database) if database is not None else ()
    with Process(
        "-m", f"apps.{name}", *([command] if command else []), "--port", str(port), *chosen, *arguments,
        environment={"PYTHONPATH": str(ROOT), **(environment or {})}, folder=folder,
    ) as process:  # fmt: skip
        until(lambda: _ADDRESS.search(process.said) or not process.is_running, f"{name} to be there")
        found = _ADDRESS.search(process.said)
        assert found is not None, process.said
        yield Service(found[1], process, folder)


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode(errors="replace")
