"""Files with payloads, addresses and secrets in them are for their owner alone."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sendonce.cli import main


@pytest.fixture
def careless() -> Iterator[None]:
    """A process whose new files everybody may read and write."""
    before = os.umask(0)
    yield
    os.umask(before)


def rights(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


@pytest.mark.usefixtures("careless")
def test_database_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    assert main(["migrate", f"--database=sqlite:///{path}"]) == 0

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update sendonce_meta set value = value")
        connection.commit()
        names = ("x.db", "x.db-wal", "x.db-shm")
        assert {name: rights(tmp_path / name) for name in names} == dict.fromkeys(names, "0o600")


@pytest.mark.usefixtures("careless")
def test_rights_of_a_file_that_is_there_stay_as_somebody_chose_them(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.touch(mode=0o660)

    assert main(["migrate", f"--database=sqlite:///{path}"]) == 0

    assert rights(path) == "0o660"


def test_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", f"--database=sqlite:///{tmp_path / 'none' / 'x.db'}"]) == 1

    assert len(capsys.readouterr().err.splitlines()) == 1
