"""`python -m tests.upgrade.freeze [commit]`: keep the package as it is, to run it later beside a newer schema.

Run it before a migration is added: the archive is named after the newest schema that the package knows.
"""

import io
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RELEASES = Path(__file__).resolve().parent / "releases"
_MIGRATIONS = "/postgres/migrations/"
_DAY = (1980, 1, 1, 0, 0, 0)


def release(schema: int) -> Path:
    """The archive of the last program that was made for this schema."""
    return RELEASES / f"schema-{schema:04}.zip"


def frozen(files: Mapping[str, bytes]) -> bytes:
    """One archive for the same files, whoever makes it and when."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _DAY)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name], compresslevel=9)
    return made.getvalue()


def schema_of(files: Mapping[str, bytes]) -> int:
    """The newest schema that these files know."""
    numbers = [name.partition(_MIGRATIONS)[2][:4] for name in files]
    return max(int(number) for number in numbers if number.isdecimal())


def package(commit: str) -> dict[str, bytes]:
    """The files of the package in a commit."""
    packed = subprocess.run(
        ["git", "archive", "--format=zip", commit, "src/sendonce"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        return {name.removeprefix("src/"): archive.read(name) for name in names}


if __name__ == "__main__":
    files = package(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
    path = release(schema_of(files))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(frozen(files))
    print(f"froze {len(files)} files in {path.relative_to(ROOT)}")
