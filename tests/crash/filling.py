"""An app for `sendonce worker --app`: its SQLite database is full whenever a file says so (`PRAGMA max_page_count`)."""

import os
import sqlite3
from pathlib import Path

from sendonce.channels.registry import Channels
from sendonce.store.sqlite.connection import OwnConnection

FULL = "SENDONCE_TEST_FULL"
_LARGEST = 1_000_000

channels = Channels()


def install(mark: Path) -> None:
    """Before each transaction, let the database grow no more while the file is there."""
    opened = OwnConnection._opened

    def limited(lane: OwnConnection) -> sqlite3.Connection:
        connection = opened(lane)
        connection.execute(f"pragma max_page_count = {1 if mark.exists() else _LARGEST}")
        return connection

    setattr(OwnConnection, OwnConnection._opened.__name__, limited)


if FULL in os.environ:  # only in the worker whose database is to be full, never in the test
    install(Path(os.environ[FULL]))
