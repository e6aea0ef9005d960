"""docs/reference/stability.md promises what is there: modules, exit codes, and tables with their columns."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sendonce.compose import migrate
from tests.frozen.__main__ import KEPT
from tests.frozen.surface import PUBLIC
from tests.processes import ROOT

PAGE = (ROOT / "docs/reference/stability.md").read_text("utf-8")
COLUMNS = {
    table: re.findall(r"`(\w+)`", columns)
    for table, columns in re.findall(r"^\| `(sendonce_\w+)` \| (.+) \|$", PAGE, re.MULTILINE)
}


def test_modules_that_are_public_are_the_frozen_ones() -> None:
    assert re.findall(r"^\| `(sendonce[.\w]*)` \| [^`]", PAGE, re.MULTILINE) == list(PUBLIC)


def test_names_that_are_public_are_frozen_for_every_module() -> None:
    names = (KEPT / "names.txt").read_text("utf-8").splitlines()

    assert {module for module in PUBLIC if any(name.startswith(f"{module}.") for name in names)} == set(PUBLIC)


def test_exit_codes_are_those_of_the_command_line() -> None:
    told = re.findall(r"^\| (\d+) \| ", PAGE, re.MULTILINE)
    page = (ROOT / "docs/reference/cli.md").read_text("utf-8")
    [paragraph] = re.findall(r"\*\*Exit codes\.\*\* (.*?)\n\n", page, re.DOTALL)

    assert told == re.findall(r"(?:^|\. )(\d+): ", paragraph.replace("\n", " "))


@pytest.mark.parametrize("table", COLUMNS)
def test_columns_that_are_public_are_in_the_newest_schema(table: str, tmp_path: Path) -> None:
    migrate(f"sqlite:///{tmp_path / 'shop.db'}")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        there = {row[1] for row in connection.execute(f"pragma table_info({table})")}

    assert set(COLUMNS[table]) <= there
