"""The user a server runs as. PostgreSQL refuses root, so root lends it another, and programs it may read."""

import os
import pwd
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Set for a whole run of tests: servers are made in this folder, and stopped when the run is over.
FOLDER = "SENDONCE_TEST_FOLDER"


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int

    def owns(self, folder: Path) -> None:
        """Give `folder` and all that is in it to this user."""
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_account() -> Account | None:
    """Whom to run a server as; None for ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise LookupError("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")


def new_folder(prefix: str, inside: str | None = None) -> Path:
    """A new temporary folder that any user may pass through."""
    place = Path(inside or tempfile.gettempdir())
    if server_account() is not None and not is_open(place):
        place = Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    folder.chmod(0o755)
    return folder


def is_open(path: Path) -> bool:
    """Whether any user may reach `path`."""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


def reachable(bin_dir: Path, folder: Path, account: Account | None) -> Path:
    """`bin_dir`, or a copy of it in `folder` when `account` may not read the original.

    Programs from a Python package find their libraries beside the package, so these come along.
    """
    if account is None or is_open(bin_dir / "initdb"):
        return bin_dir
    install = bin_dir.parent
    package = install.parent
    ignore = shutil.ignore_patterns("include", "*.a")
    shutil.copytree(install, folder / package.name / install.name, symlinks=True, ignore=ignore)
    if (libraries := package.with_name(f"{package.name}.libs")).exists():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    account.owns(folder)
    return folder / package.name / install.name / bin_dir.name
