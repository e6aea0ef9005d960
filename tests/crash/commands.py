"""What an operator types while everything breaks: again when the database cannot answer."""

import json
import os
import re
import subprocess
import sys
import time
from typing import Any

from tests.crash.accounts import url_of
from tests.processes import ROOT
from tests.store.databases import Database

PATIENCE_SECONDS = 1200.0
_AWAY = re.compile("cannot answer now|database is locked|is not as it was")


def typed(database: Database, *arguments: str) -> Any:
    """Type it until the database has answered; what it says as JSON, if it was asked for that.

    None when it was refused, as when somebody, or a try before whose answer was lost, has done it already.
    """
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    environment = {"SENDONCE_DATABASE": url_of(database), "SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8"}
    while True:
        ran = subprocess.run(
            [sys.executable, "-m", "sendonce", *arguments],
            cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        if ran.returncode == 0:
            return json.loads(ran.stdout) if "--json" in arguments else ran.stdout
        assert ran.returncode == 1, f"{arguments}: {ran.stderr}"
        assert "Traceback" not in ran.stderr, f"{arguments}: {ran.stderr}"
        if not _AWAY.search(ran.stderr):
            return None
        assert time.monotonic() < give_up_at, f"{arguments}: {ran.stderr}"
        time.sleep(0.2)
