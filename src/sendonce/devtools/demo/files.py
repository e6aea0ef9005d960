"""The demonstration's database: a file of its own, which replaces that of an earlier demonstration and nothing else."""

import os
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path
from urllib.parse import quote

from sendonce.errors import StoreError

NAME = "sendonce-demo"
MARK = 0x534F4E43  # in the file's header, where SQLite keeps the number of the application that a file belongs to


def take(path: Path | None) -> Path:
    """A new, marked, empty database: at `path`, else in the working directory under the first name that is free."""
    if path is not None:
        if not _is_replaceable(path):
            raise StoreError(f"{path} is there already and is no demonstration, or is in use; name another file")
        return _fresh(path)
    names = (Path(f"{NAME}.db" if number == 1 else f"{NAME}-{number}.db") for number in count(1))
    return _fresh(next(name for name in names if _is_replaceable(name)))


def _is_replaceable(path: Path) -> bool:
    """True when there is nothing, or an earlier demonstration that nobody is using."""
    if not os.path.lexists(path):
        return True
    if not path.is_file() or path.is_symlink():
        return False
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=0)) as connection:
            if connection.execute("pragma application_id").fetchone() != (MARK,):
                return False
            # Leaving WAL needs the file for oneself alone.
            return bool(connection.execute("pragma journal_mode = delete").fetchone() == ("delete",))
    except sqlite3.Error:
        return False


def _fresh(path: Path) -> Path:
    try:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"pragma application_id = {MARK}")
    except (OSError, sqlite3.Error):
        raise StoreError(
            f"the demonstration cannot make its database {path}; is the folder there and writable?"
        ) from None
    return path
