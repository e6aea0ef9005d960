"""docs/about/architecture.md: the walks stay short, and the files that it names are there."""

import re

import pytest

from tests.docs.walks import BEFORE, BEGIN, PAGE, WALKS, files_of
from tests.processes import ROOT

TEXT = PAGE.read_text("utf-8")
MOST_ENTERED = 48
MOST_FOLLOWED = {
    "publish → Completed": 20,
    "a killed worker's attempt": 20,
    "requeue by filter": 14,
    "a look-up": 26,
}


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS)
def test_walk_has_few_files_to_follow(walk: str) -> None:
    followed, entered = files_of(walk)

    assert 3 < len(followed) <= MOST_FOLLOWED[walk]
    assert len(entered) <= MOST_ENTERED


def test_walks_are_all_on_the_page() -> None:
    _, begin, table = TEXT.partition(BEGIN)

    assert begin
    assert re.findall(r"^\| (\D.*?) \| \d", table, re.MULTILINE) == list(WALKS) == list(BEFORE)


def test_map_names_files_and_rooms_that_exist() -> None:
    named = re.findall(r"`([a-z_]+/(?:[a-z_0-9/]+\.py)?|[a-z_]+\.py)`", TEXT)

    assert [name for name in named if not (ROOT / "src/sendonce" / name).exists()] == []


def test_map_has_every_room() -> None:
    rooms = {path.name for path in (ROOT / "src/sendonce").iterdir() if (path / "__init__.py").exists()}

    assert rooms <= set(re.findall(r"`([a-z]+)/`", TEXT))
