"""What must be the same of a trigger or function as a migration makes it and as PostgreSQL prints it.

Every version prints conditions a little differently: with other parentheses, casts and spellings. What none of them
changes is the order of columns, comparisons, values, `and` and `or`; so that is what is compared, with how often `not`
is said.
"""

import re

from sendonce.store.rules import Rule, bare

_HEAD = re.compile(
    r'create trigger \w+ (\w+) (\w+) on (?:(?:"(?:[^"]|"")+"|\w+)\.)?(\w+)( referencing .*?)? for each (\w+)(.*)'
    r' execute (?:function|procedure) (?:(?:"(?:[^"]|"")+"|\w+)\.)?(\w+)\('
)
_BINARY = re.compile(r"'[^']*'::bytea")
_ROWS = re.compile(r"row\(([^()]*)\) is (not )?distinct from row\(([^()]*)\)")
_TOKEN = re.compile(r"\b(?:new|old)\.\w+|'[^']*'|\b(?:and|or|true|false|null)\b|<>|<=|>=|<|>|=|(?<![\w.'])\d+\b")


def reading(rule: Rule) -> object:
    match rule.kind:
        case "trigger":
            return _trigger(rule.text)
        case "function":
            return bare(rule.text)
    return None


def _trigger(text: str) -> object:
    head = _HEAD.match(" ".join(text.lower().split()))
    if head is None:
        return text
    condition = _BINARY.sub("", head[6])
    condition = _ROWS.sub(_each_column, condition)
    condition = re.sub(r"\bnot in\b", "<>", condition)
    condition = re.sub(r"\bin\b", "=", condition)
    return (*head.group(1, 2, 3, 4, 5, 7), _TOKEN.findall(condition), len(re.findall(r"\bnot\b", condition)))


def _each_column(rows: re.Match[str]) -> str:
    """PostgreSQL keeps a comparison of two rows as one of each column."""
    pairs = zip(rows[1].split(","), rows[3].split(","), strict=True)
    return (rows[2] or "") + " or ".join(f"{left} is distinct from {right}" for left, right in pairs)
