"""Which tables, triggers, functions, indexes and named constraints a schema has, as its migrations make them.

And what is wrong with those that a database has.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sendonce.store.migrations import Migration

_STATEMENT = re.compile(
    r"^create\s+(?P<trigger>trigger)\s+(?P<trigger_name>\w+)\s+\w+\s+\w+\s+on\s+(?P<trigger_table>\w+)"
    r".*?(?:\bend;|execute function \w+\(\);)"
    r"|^create\s+(?:unique\s+)?(?P<index>index)\s+(?P<index_name>\w+)\s+on\s+(?P<index_table>\w+).*?;"
    r"|^create\s+(?:or replace\s+)?(?P<function>function)\s+(?P<function_name>\w+)\(.*?\$\$(?P<body>.*?)\$\$"
    r"|^drop\s+(?P<dropped>trigger|index|function|table)\s+(?P<dropped_name>\w+)"
    r"|^alter\s+table\s+(?P<altered>\w+)\s+(?P<change>add|drop)\s+constraint\s+(?P<altered_name>\w+)"
    r"|^create\s+(?P<table>table)\s+(?P<table_name>\w+)\s+\((?P<columns>.*?)^\)",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
_UNIQUE = re.compile(r"^\s+(?!constraint\b)(\w+) [^,\n(]*\bunique\b", re.MULTILINE | re.IGNORECASE)
_NAMED = re.compile(r"^\s+constraint\s+(\w+)\s+(?:unique|check|primary)", re.MULTILINE | re.IGNORECASE)
_MISSING, _CHANGED = "missing", "changed"
DISABLED, NOT_VALID = "disabled", "not valid"


class Rule(NamedTuple):
    """A table, trigger, function, index or constraint. `fault` is what is wrong with it where it was found."""

    kind: str
    name: str
    table: str = ""
    text: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Broken:
    """One that is not as the migrations made it, and what mends it."""

    kind: str
    name: str
    table: str
    fault: str

    def __str__(self) -> str:
        where = f" on {self.table}" if self.table else ""
        return f"{self.kind} {self.name}{where} is {self.fault}"

    @property
    def to_do(self) -> str:
        match self.kind, self.fault:
            case "table", _:
                return f"restore {self.name} from a backup"
            case "trigger", "disabled":
                return f"alter table {self.table} enable trigger {self.name}"
            case "constraint", "not valid":
                return f"alter table {self.table} validate constraint {self.name}"
            case "index", "not valid":
                return f"reindex index {self.name}"
            case "function", _:
                return f"run its `create function {self.name}`, with `or replace`, as {_PRINTED} has it"
            case "trigger", "changed":
                return f"drop trigger {self.name} on {self.table}; then its `create trigger` as {_PRINTED} has it"
            case "index", "changed":
                return f"drop index {self.name}; then its `create index` as {_PRINTED} has it"
            case "constraint", _:
                return f"alter table {self.table} add constraint {self.name}, as {_PRINTED} has it"
        return f"run its `create {self.kind} {self.name}` as {_PRINTED} has it"


_PRINTED = "`sendonce migrate --sql`"


def rules_of(migrations: Sequence[Migration], version: int) -> dict[tuple[str, str], Rule]:
    """What the first `version` migrations leave behind, by kind and name."""
    rules: dict[tuple[str, str], Rule] = {}
    for migration in migrations[:version]:
        for match in _STATEMENT.finditer(migration.sql):
            for rule in _made(match):
                rules[rule.kind, rule.name] = rule
            if match["dropped"]:
                rules.pop((match["dropped"].lower(), match["dropped_name"]), None)
            elif match["change"] and match["change"].lower() == "drop":
                rules.pop(("constraint", match["altered_name"]), None)
    return rules


def _made(match: re.Match[str]) -> Iterable[Rule]:
    if match["trigger"]:
        yield Rule("trigger", match["trigger_name"], match["trigger_table"], match[0])
    elif match["index"]:
        yield Rule("index", match["index_name"], match["index_table"], match[0])
    elif match["function"]:
        yield Rule("function", match["function_name"], "", match["body"])
    elif match["change"] and match["change"].lower() == "add":
        yield Rule("constraint", match["altered_name"], match["altered"])
    elif match["table"]:
        table, columns = match["table_name"], match["columns"]
        yield Rule("table", table)
        # Keys without a name get one from PostgreSQL.
        names = {f"{table}_{column}_key" for column in _UNIQUE.findall(columns)} | set(_NAMED.findall(columns))
        if "primary key" in columns:
            names.add(f"{table}_pkey")
        yield from (Rule("constraint", name, table) for name in sorted(names))


def broken_rules(
    expected: Mapping[tuple[str, str], Rule], found: Iterable[Rule], reading: Callable[[Rule], object]
) -> list[Broken]:
    """What is missing, switched off, or not what it was made as. `reading`: what must be the same of both."""
    there = {(rule.kind, rule.name): rule for rule in found}
    broken = []
    for key, rule in expected.items():
        has = there.get(key)
        fault = _MISSING if has is None else has.fault or ("" if reading(has) == reading(rule) else _CHANGED)
        if fault:
            broken.append(Broken(rule.kind, rule.name, rule.table, fault))
    return sorted(broken)


def bare(text: str) -> str:
    """A statement without what makes no difference: white space, capitals, the semicolon."""
    return "".join(text.split()).lower().rstrip(";")
