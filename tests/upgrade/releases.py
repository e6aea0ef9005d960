"""Programs of the version before, unpacked to be run as real processes beside the new one."""

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from sendonce.store.migrations import available
from tests.processes import ROOT
from tests.upgrade.freeze import release

NEWEST = len(available("sendonce.store.postgres"))
TREE = ROOT / "src"


@dataclass(frozen=True, slots=True)
class Program:
    """A version of the package, in a folder of its own."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join([str(self.folder), str(ROOT)])}

    def run(self, *arguments: str, database: str) -> str:
        """Run it to its end, which must be a good one; what it said."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environment, "SENDONCE_DATABASE": database},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def before(migration: int, folder: Path) -> Program:
    """The last program that was made for the schema before this migration."""
    archive = release(migration - 1)
    assert archive.exists(), (
        f"migration {migration:04} has no program of schema {migration - 1} to be tested with; at the commit before it,"
        " run: python -m tests.upgrade.freeze"
    )
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    return Program(folder)


def after(migration: int, folder: Path) -> Program:
    """The program that this migration was made for: this one, or the last that was frozen with it."""
    return Program(TREE) if migration == NEWEST else before(migration + 1, folder)
