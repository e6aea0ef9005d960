"""SECURITY.md names tests; each of them is there."""

import re

import pytest

from tests.processes import ROOT

TEXT = (ROOT / "SECURITY.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)*)`", TEXT)))


@pytest.mark.parametrize("named", NAMED)
def test_test_that_is_named_exists(named: str) -> None:
    path, *parts = named.split("::")

    text = (ROOT / path).read_text("utf-8")

    for part in parts:
        assert re.search(rf"^\s*(?:class|(?:async )?def) {part}\b", text, re.MULTILINE), part


def test_threat_names_a_test_and_every_attack_is_a_threats() -> None:
    table = TEXT.partition("## Threats")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| threat ")]
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/attack").glob("test_*.py")}

    assert [row for row in rows if "`tests/" not in row.rpartition(" | ")[2]] == []
    assert files - {named.partition("::")[0] for named in NAMED} == set()
