"""The table of the documentation is the table that the contract suite proves."""

from pathlib import Path

from tests.channels.contract import EXPECTED, TROUBLES, Expected

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "channels.md"
TITLE = "## Which failure is which"


def documented() -> dict[str, dict[str, str]]:
    """The page's table: for each channel, what it makes of each trouble."""
    section = PAGE.read_text().split(TITLE, 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in row] for row in rows]
    return {name: {row[0]: row[place] for row in body} for place, name in enumerate(head) if place}


def shown(expected: Expected) -> str:
    kind, code = expected
    return kind.__name__ if code is None else f"{kind.__name__} `{code}`"


def test_table_of_the_documentation_is_the_one_that_is_proven() -> None:
    proven = {name: {trouble: shown(each) for trouble, each in column.items()} for name, column in EXPECTED.items()}

    assert documented() == proven


def test_channel_answers_for_every_trouble() -> None:
    for column in EXPECTED.values():
        assert set(column) == set(TROUBLES)
