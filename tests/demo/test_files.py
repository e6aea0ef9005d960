"""The demonstration's database never takes the place of anything but an earlier demonstration."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sendonce.devtools.demo.run import take
from sendonce.errors import StoreError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _fill(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table kept (id)")


def _tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("select name from sqlite_master order by name limit 10")]


def test_file_that_is_first_has_the_plain_name() -> None:
    assert take(None) == Path("sendonce-demo.db")


def test_earlier_demonstration_is_replaced() -> None:
    _fill(take(None))

    again = take(None)

    assert again == Path("sendonce-demo.db")
    assert _tables(again) == []


def test_database_of_somebody_else_is_left_alone() -> None:
    _fill(Path("sendonce-demo.db"))

    assert take(None) == Path("sendonce-demo-2.db")
    assert _tables(Path("sendonce-demo.db")) == ["kept"]


@pytest.mark.parametrize("content", ["", "no database at all"])
def test_file_of_another_kind_is_left_alone(content: str) -> None:
    Path("sendonce-demo.db").write_text(content)

    assert take(None) == Path("sendonce-demo-2.db")
    assert Path("sendonce-demo.db").read_text() == content


def test_demonstration_that_is_running_is_left_alone() -> None:
    first = take(None)
    _fill(first)

    with closing(sqlite3.connect(first)) as running:
        running.execute("select id from kept").fetchall()

        assert take(None) == Path("sendonce-demo-2.db")


def test_named_file_is_used_or_refused_but_never_another_one() -> None:
    mine = Path("mine.db")
    assert take(mine) == mine
    assert take(mine) == mine
    mine.unlink()
    _fill(mine)

    with pytest.raises(StoreError, match="name another file"):
        take(mine)
    assert _tables(mine) == ["kept"]


def test_folder_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(StoreError, match="cannot make its database nowhere"):
        take(Path("nowhere/demo.db"))
