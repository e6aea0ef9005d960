"""Real backups: SQLite's online copy, and a copy of PostgreSQL's data directory."""

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from tests.servers.postgres import Server
from tests.store.databases import Database, SqliteDatabase


class Place:
    """A database that can be backed up and restored as its kind is: a file, or a server's data directory."""

    def __init__(self, database: Database, folder: Path, server: Server | None) -> None:
        self.database, self.folder, self.server = database, folder, server

    def back_up(self) -> None:
        """Take a backup while work goes on; PostgreSQL is halted for the copy, and the workers wait for it."""
        if self._backup.is_dir():
            shutil.rmtree(self._backup)
        if isinstance(self.database, SqliteDatabase):
            with self.database.connection(autocommit=True) as live, closing(sqlite3.connect(self._backup)) as copy:
                live.backup(copy)
            return
        assert self.server is not None
        self.server.halt()
        _copy(Path(self.server.folder) / "data", self._backup)
        self.server.resume()

    def restore(self) -> None:
        if isinstance(self.database, SqliteDatabase):
            for name in ("", "-wal", "-shm"):
                Path(f"{self.database.path}{name}").unlink(missing_ok=True)
            shutil.copy(self._backup, self.database.path)
            return
        assert self.server is not None
        self.server.halt()
        data = Path(self.server.folder) / "data"
        shutil.rmtree(data)
        _copy(self._backup, data)
        self.server.resume()

    @property
    def _backup(self) -> Path:
        inside = self.folder if self.server is None else Path(self.server.folder)
        return inside / "backup"


def _copy(folder: Path, to: Path) -> None:
    """With its owners: the server runs under an account of its own."""
    subprocess.run(["cp", "-a", str(folder), str(to)], check=True)
