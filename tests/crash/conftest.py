"""The stores' own fixtures, and a receiver that counts."""

from collections.abc import Iterator

import pytest

from tests.receiver import Receiver
from tests.store.conftest import database, postgres_template, sqlite_template

__all__ = ["database", "postgres_template", "sqlite_template"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made
