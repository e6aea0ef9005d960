"""Every relative link of every page leads to a file that is there, and every anchor to a heading of it."""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.processes import ROOT

PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob(".github/**/*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "apps").rglob("*.md")]
)
KINDS = {"tutorial", "how-to", "reference", "about", "adr"}
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def links(text: str) -> list[str]:
    """The targets of a page's links that lead to files of this repository."""
    found = _LINK.findall(_FENCE.sub("", text))
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, spelled as GitHub spells them."""
    seen: Counter[str] = Counter()
    made = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        made.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return made


def broken(page: Path, link: str) -> str | None:
    """What is wrong with a link of a page, if anything."""
    path, _, anchor = unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"{link}: there is no such file"
    if anchor and anchor not in anchors(target.read_text("utf-8")):
        return f"{link}: {target.name} has no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    found = links(page.read_text("utf-8"))

    assert [wrong for link in found if (wrong := broken(page, link))] == []


def test_page_is_in_the_folder_of_its_kind() -> None:
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}

    assert {page.parts[0] for page in pages} - {"README.md"} == KINDS


def test_page_is_listed_in_the_index() -> None:
    index = ROOT / "docs/README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index.read_text("utf-8"))}

    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "adr"} - {index}

    assert pages <= listed


@pytest.mark.parametrize(
    ("link", "wrong"),
    [
        ("README.md#the-command-line", "README.md#the-command-line: README.md has no such heading"),
        ("docs/none.md", "docs/none.md: there is no such file"),
    ],
)
def test_link_that_leads_nowhere_is_found(link: str, wrong: str) -> None:
    assert broken(ROOT / "README.md", link) == wrong
