"""The examples in docs/how-to/publishing.md run as they are printed."""

import re
import shutil
from pathlib import Path

import pytest

from tests.outbox.databases import Address

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "publishing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
SQLITE = [each for each in EXAMPLES if "app.db" in each]
POSTGRES = [each for each in EXAMPLES if "postgresql://localhost/app" in each]


def test_example_is_run() -> None:
    assert len(EXAMPLES) == len(SQLITE) + len(POSTGRES) == 5


@pytest.mark.parametrize("example", SQLITE)
def test_sqlite_examples(
    example: str, sqlite_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(sqlite_address.url.removeprefix("sqlite:///"), tmp_path / "app.db")
    monkeypatch.chdir(tmp_path)

    exec(compile(example, str(PAGE), "exec"), {"__name__": "example"})  # noqa: S102

    copied = Address(f"sqlite:///{tmp_path / 'app.db'}", "sqlite")
    assert copied.counts()["events"] > 0


@pytest.mark.parametrize("example", POSTGRES)
def test_postgres_examples(example: str, postgres_address: Address) -> None:
    text = example.replace("postgresql://localhost/app", postgres_address.url)

    exec(compile(text, str(PAGE), "exec"), {"__name__": "example"})  # noqa: S102

    assert postgres_address.counts() == {"events": 1, "deliveries": 1, "contents": 0}
