"""The Pythons that pyproject.toml names, as far as this machine has them, each with an environment to run tests in."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.processes import ROOT
from tests.servers.debian import cache_folder

_NAMED = re.compile(r"Programming Language :: Python :: (3\.\d+)$")
_INSTALL = ["install", "--quiet", "--disable-pip-version-check", "--constraint", "constraints.txt", "--editable"]


def named() -> list[str]:
    """The versions that we say it runs on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [match[1] for each in project["classifiers"] if (match := _NAMED.match(each))]


def found() -> dict[str, Path]:
    """Where each of these is, by its version; the one that runs us comes first."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    places = {version: Path(sys.executable) if version == running else _find(version) for version in named()}
    return {version: place for version, place in places.items() if place is not None}


def farthest() -> str | None:
    """The version found here that is farthest from the one that runs us."""
    others = [each for each in found() if each != f"{sys.version_info.major}.{sys.version_info.minor}"]
    minors = {each: abs(int(each.partition(".")[2]) - sys.version_info.minor) for each in others}
    return max(minors, key=minors.__getitem__, default=None)


def environment(version: str, python: Path) -> Path:
    """A Python with all that the tests need: made once for what the project wants, and kept between runs."""
    wanted = (ROOT / "pyproject.toml").read_bytes() + (ROOT / "constraints.txt").read_bytes()
    folder = cache_folder() / f"python-{version}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    own = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _run(str(python), "-m", "venv", "--clear", str(folder))
            _run(str(own), "-m", "pip", *_INSTALL, ".[all,dev]")
            (folder / "ready").touch()
    return own


def _find(version: str) -> Path | None:
    on_path = shutil.which(f"python{version}")
    if on_path and subprocess.run([on_path, "-c", ""], capture_output=True, check=False).returncode == 0:
        return Path(on_path)  # some are there only to say that they are not
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    return next(iter(sorted(kept.glob(f"{version}.*/bin/python"))), None)


def _run(*command: str) -> None:
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
