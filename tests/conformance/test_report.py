"""docs/about/conformance.md says what tests and code say, with a test and a place for everything built."""

import re

import pytest

from tests.conformance.places import PLACES
from tests.conformance.report import PAGE, page, proofs, requirements
from tests.processes import ROOT

BUILT = [number for number in requirements() if number[0] in "RMWP"]
KINDS = r"(?:def|class|-- name:|table|view|index|trigger|function|constraint)"


def test_page_is_what_would_be_written_now() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it again: python -m tests.conformance.report"


@pytest.mark.parametrize("number", BUILT)
def test_requirement_that_is_built_has_a_test_of_its_document(number: str) -> None:
    files = [path for path, _ in proofs().get(number, [])]

    assert f"tests/conformance/test_{number[0]}.py" in files


@pytest.mark.parametrize("number", BUILT)
def test_requirement_that_is_built_is_where_the_page_says(number: str) -> None:
    for path, name in PLACES[number]:
        assert re.search(rf"{KINDS}\s+{name}\b", (ROOT / path).read_text("utf-8"), re.IGNORECASE), f"{path}: {name}"
