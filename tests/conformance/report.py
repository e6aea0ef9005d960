"""Writes docs/about/conformance.md: for each requirement the tests that name it, and where it is implemented.

python -m tests.conformance.report
"""

import re
from pathlib import Path

from tests.conformance.places import PLACES
from tests.processes import ROOT

PAGE = ROOT / "docs/about/conformance.md"
_REQUIREMENT = re.compile(r"^\| ([RMWPD]\d+) \| (.+) \|$", re.MULTILINE)
_HEADING = re.compile(r"^## ([RMWPD] — .+)$", re.MULTILINE)
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
_NUMBER = re.compile(r"[RMWPD]\d+")
_HEADER = """# Conformance

Every requirement of [requirements.md](requirements.md), the tests that prove it (the numbers are in their names), and
where it is implemented. Written by `python -m tests.conformance.report`; a test fails when this page is not what that
would write, when a place has moved, or when a requirement of R, M, W or P has no test.
"""


def requirements() -> dict[str, str]:
    """The numbered requirements, in their order."""
    text = (ROOT / "docs/about/requirements.md").read_text("utf-8")
    return dict(_REQUIREMENT.findall(text))


def proofs() -> dict[str, list[tuple[str, str]]]:
    """For each number the tests that name it: file and function, by file."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in _TEST.findall(path.read_text("utf-8")):
            for number in dict.fromkeys(filter(_NUMBER.fullmatch, name.split("_"))):
                found.setdefault(number, []).append((str(path.relative_to(ROOT)), name))
    return found


def page() -> str:
    """The whole page."""
    proven, wanted = proofs(), requirements()
    lines = [_HEADER]
    for heading in _HEADING.findall((ROOT / "docs/about/requirements.md").read_text("utf-8")):
        lines += [f"## {heading}", "| id | tests | implemented in |", "|---|---|---|"]
        for number in wanted:
            if number.startswith(heading[0]):
                lines.append(f"| {number} | {_tests(proven.get(number, []))} | {_places(number)} |")
        lines.append("")
    return "\n".join(lines)


def _tests(found: list[tuple[str, str]]) -> str:
    by_file: dict[str, list[str]] = {}
    for path, name in found:
        by_file.setdefault(path, []).append(name)
    listed = [f"[{path}](../../{path}): " + ", ".join(f"`{each}`" for each in names) for path, names in by_file.items()]
    return "<br>".join(listed) or "not built yet"


def _places(number: str) -> str:
    return ", ".join(f"[{path}](../../{path}) `{name}`" for path, name in PLACES.get(number, ())) or "not built yet"


if __name__ == "__main__":
    Path(PAGE).write_text(page(), "utf-8")
