"""Numbered migrations, and which schema this program can run on."""

import re
from dataclasses import dataclass
from importlib.resources import files

from sendonce.errors import SchemaMismatch

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str


def available(package: str) -> list[Migration]:
    """A database's migrations, in order, without a gap."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        if match := _NAME.fullmatch(file.name):
            found.append(Migration(int(match[1]), f"{match[1]}_{match[2]}", file.read_text("utf-8")))
    found.sort(key=lambda each: each.number)
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {package} are not numbered 1, 2, 3 …")
    return found


def check_version(found: int, known: int) -> None:
    """A program of version N runs on schema N and N+1, and says clearly when it cannot."""
    if found == 0:
        raise SchemaMismatch("this database has no sendonce tables yet; run: sendonce migrate")
    if found < known:
        raise SchemaMismatch(f"the database's schema is {found} and this program needs {known}; run: sendonce migrate")
    if found > known + 1:
        raise SchemaMismatch(
            f"the database's schema is {found}, too new for this program, which knows {known}; install a newer sendonce"
        )
