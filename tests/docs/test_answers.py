"""docs/reference/answers.md is the table that the code uses."""

from tests.docs.answers import PAGE, page


def test_page_is_the_table() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python -m tests.docs.answers"
