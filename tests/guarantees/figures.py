"""What a long run has measured: one dated file per run in docs/figures, the source of docs/reference/guarantees.md."""

import json
import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tests.processes import ROOT

FOLDER = ROOT / "docs/figures"
WRITE = "SENDONCE_FIGURES"


def record(run: str, figures: Mapping[str, int | float | str | None]) -> None:
    """Keep the figures of this run in place of the last ones, when SENDONCE_FIGURES is set (`make soak` sets it).

    Ordinary test runs leave the files alone: what is published is what a long run has measured.
    """
    if os.environ.get(WRITE):
        write(FOLDER, run, {"commit": _COMMIT, **figures})


def write(folder: Path, run: str, figures: Mapping[str, int | float | str | None]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    dated = {"run": run, "date": datetime.now(UTC).date().isoformat(), **figures}
    (folder / f"{run}.json").write_text(json.dumps(dated, indent=2) + "\n", "utf-8")


def commit(folder: Path = ROOT) -> str | None:
    """What is being run: the commit that was checked out, with a + when the package differs from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout

    try:
        head, changed = git("rev-parse", "--short=8", "HEAD"), git("status", "--porcelain", "--", "src")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.strip() + ("+" if changed else "")


def latest(folder: Path = FOLDER) -> dict[str, dict[str, int | float | str | None]]:
    """The figures there are, by the name of the run."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}


# When the run begins: what is checked out at its end may be something else.
_COMMIT = commit() if os.environ.get(WRITE) else None
