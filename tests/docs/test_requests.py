"""The example of the page on requests runs as it is printed, and the page names every error and status."""

import asyncio
import re
from pathlib import Path

import pytest

from sendonce import RequestStatus
from sendonce.compose import migrate, open_store

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "requests.md").read_text("utf-8")


def test_example_makes_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    url = f"sqlite:///{tmp_path / 'app.db'}"
    migrate(url)
    monkeypatch.chdir(tmp_path)

    exec(compile(example, "docs/how-to/requests.md", "exec"), {"__name__": "example"})  # noqa: S102

    async def recipients() -> list[tuple[str, bool]]:
        store = await open_store(url)
        try:
            state = await store.request(1)
        finally:
            await store.close()
        assert state is not None
        return [(each.destination, each.is_required) for each in state.recipients]

    assert asyncio.run(recipients()) == [
        ("https://reviews.example.com/hook", True),
        ("mailto:ada@example.com", True),
        ("sms:+15550100", False),
    ]


def test_page_names_every_status() -> None:
    assert all(f"| `{status}` |" in PAGE for status in RequestStatus)
