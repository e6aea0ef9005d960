"""Opening a SQLite file, or a database in memory, the way the store needs it; and the translation of errors."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from sendonce.domain.events import digest_of_stored
from sendonce.domain.tokens import provider_token
from sendonce.errors import ConfigError, NotAllowed, SchemaMismatch, SendonceError, StoreBusy, StoreError

MEMORY = ":memory:"
BUSY_SECONDS = 5.0
PATIENT_SECONDS = 300.0
_SCHEME = "sqlite://"
# What passes by itself: another process writes, a disk is cleared, a file system comes back.
_PASSING = {
    sqlite3.SQLITE_BUSY: "another process is writing",
    sqlite3.SQLITE_LOCKED: "the database is locked",
    sqlite3.SQLITE_FULL: "the disk or the database is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PROTOCOL: "the database is locked",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_INTERRUPT: "interrupted",
}
_LASTING = {
    sqlite3.SQLITE_READONLY: "the file cannot be written; check its owner and rights, and those of its folder",
    sqlite3.SQLITE_PERM: "the file cannot be used; check its owner and rights",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup",
}


def parse_url(url: str) -> str:
    """The path that an address names: sqlite:///file, sqlite:////absolute/file, a path; sqlite:// is in memory."""
    path = url
    if url.startswith("sqlite:"):
        path = url.removeprefix(_SCHEME).removeprefix("/")
        if not url.startswith(_SCHEME) or (path and not url.startswith(_SCHEME + "/")):
            raise ConfigError("a SQLite database is sqlite:///file, sqlite:////absolute/file, or sqlite:// in memory")
    if "\0" in path:
        raise ConfigError("a SQLite file's name must not contain a NUL character")
    return path or MEMORY


def exists(path: str) -> bool:
    return path == MEMORY or Path(path).exists()


def open_file(path: str, *, create: bool = False, read_only: bool = False) -> sqlite3.Connection:
    """A connection that commits only when told to. Never makes a file unless asked to, and then for its owner alone."""
    if create and path != MEMORY:
        _make_private(path)
    mode = "memory" if path == MEMORY else "rwc" if create else "rw"
    connection = sqlite3.connect(
        f"file:{quote(path)}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        if path != MEMORY and not read_only:
            _use_wal(connection)
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma temp_store = memory")
        connection.execute("pragma cache_size = -16000")
        if read_only:
            connection.execute("pragma query_only = on")
        add_functions(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def add_functions(connection: sqlite3.Connection) -> None:
    """Add the functions that our SQL calls."""
    connection.create_function("provider_token", 6, provider_token, deterministic=True)
    connection.create_function("content_digest_of", 4, digest_of_stored, deterministic=True)


@contextmanager
def translated() -> Iterator[None]:
    """Turn sqlite3's errors into ours. Messages never carry SQL or values: those may be payloads."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translation(error) from None
    except (UnicodeEncodeError, OverflowError) as error:
        raise StoreError(f"a value cannot be stored ({type(error).__name__})") from None


def _translation(error: sqlite3.Error) -> SendonceError:
    code = getattr(error, "sqlite_errorcode", -1) & 0xFF
    if code in _PASSING:
        return StoreBusy(f"SQLite cannot answer now: {_PASSING[code]}")
    if code in _LASTING:
        return StoreError(f"SQLite cannot use this database: {_LASTING[code]}")
    if isinstance(error, sqlite3.IntegrityError):
        # Names of tables, columns and rules; never a value.
        return NotAllowed(f"the database refused it ({error})")
    if str(error).startswith(("no such table", "no such column")):
        return SchemaMismatch("this database has no sendonce tables, or only some; run: sendonce migrate")
    return StoreError(f"SQLite failed ({type(error).__name__}, {getattr(error, 'sqlite_errorname', 'no code')})")


def begin(connection: sqlite3.Connection) -> None:
    """Begin a transaction that writes, however long others take their turns; they are short, but there may be many."""
    until = time.monotonic() + PATIENT_SECONDS
    while True:
        try:
            connection.execute("begin immediate")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise


def _make_private(path: str) -> None:
    """An empty file that its owner alone can read, unless there is one. SQLite gives -wal and -shm the same rights."""
    with suppress(OSError):  # it is there; or what else is wrong SQLite will say
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _use_wal(connection: sqlite3.Connection) -> None:
    """Readers and the writer do not wait for each other. The change itself does not wait for others, so we do."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)
