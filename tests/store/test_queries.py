"""Both databases define the same queries, and no query is put together from pieces."""

import ast
import re
from importlib.resources import files
from pathlib import Path

import pytest

import sendonce
from sendonce.sql.queries import load

PACKAGES = ["sendonce.store.postgres", "sendonce.store.sqlite"]

# SQLite has no writable CTE and no arrays, so one statement of PostgreSQL is several of its own.
SPLIT_ON_SQLITE: dict[str, set[str]] = {
    "start": {"claim_due", "open_lease", "mark_in_progress", "open_attempts"},
    "start_waiting": {"claim_waiting", "room_bounds", "breakers"},
    "start_doubtful": {"claim_doubtful"},
    "lock_due": {"front_due"},
    "lock_waiting": {"front_waiting"},
    "settle": {"make_results", "clear_results", "add_result", "drop_result", "close_attempts", "move_deliveries"}
    | {"add_dead_letters"},
}
# Locks; SQLite has one writer. A transaction that sees one moment; and what only a server has: settings, vacuum, roles.
ONLY_POSTGRES = {
    *("read_snapshot", "server_settings", "careless_defaults", "vacuum_holders", "table_health"),
    *("missing_rights", "strangers", "current_role"),
}
# The migrator's bookkeeping, the clock.
ONLY_SQLITE = {
    "has_meta",
    "newest_time",
    "set_schema_version",
}

SQL = re.compile(r"^\s*(select|insert into|update|delete from|with)\s+\S", re.IGNORECASE)
# A script for other tools has no parameters; the one value in it is a migration's number.
SCRIPTS = {"migrate.py", "grants.py"}


def sources() -> list[Path]:
    root = Path(str(files(sendonce)))
    found = [*(root / "store").rglob("*.py"), *(root / "outbox").rglob("*.py")]
    return sorted(path for path in found if path.name not in SCRIPTS)


def is_sql(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(SQL.match(node.value))


def is_put_together(node: ast.AST) -> bool:
    """An f-string, a `%`, a `+` or a `.format()` on a text that is SQL."""
    match node:
        case ast.JoinedStr(values=[first, *_]):
            return is_sql(first)
        case ast.BinOp(left=left, op=ast.Mod() | ast.Add()):
            return is_sql(left)
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return is_sql(text)
    return False


def test_queries_are_the_same_for_both_databases() -> None:
    postgres, sqlite = (set(load(package)) for package in PACKAGES)

    assert postgres - sqlite == SPLIT_ON_SQLITE.keys() | ONLY_POSTGRES
    assert sqlite - postgres == set().union(*SPLIT_ON_SQLITE.values()) | ONLY_SQLITE


@pytest.mark.parametrize("package", PACKAGES)
def test_queries_have_no_place_for_formatting(package: str) -> None:
    for name, sql in load(package).items():
        assert not re.search(r"%s|%\(|\{\w*\}|\?", sql), name


def test_queries_are_never_put_together_in_the_program() -> None:
    for path in sources():
        found = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if is_put_together(node)]
        assert [node.lineno for node in found if isinstance(node, ast.expr)] == [], path.name


@pytest.mark.parametrize(
    "code", ['f"select id from {x}"', '"delete from a where id = %s" % x', '"select " "a" + x', '"update {}".format(x)']
)
def test_check_for_formatted_queries_finds_one(code: str) -> None:
    assert any(is_put_together(node) for node in ast.walk(ast.parse(code)))
