"""The examples of the first page and of the channels' page do what the text beside them says."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from sendonce import Delivered, Failed
from sendonce.channels import Channels
from sendonce.compose import migrate, open_store
from sendonce.store.filters import Filter

ROOT = Path(__file__).parents[2]


class Base(DeclarativeBase):
    pass


class Memo(Base):
    __tablename__ = "memos"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_example_of_the_readme_records_both_destinations_with_the_memo(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    migrate(url)
    engine = create_engine(url)
    Base.metadata.create_all(engine)

    exec(examples("README.md")[0], {"Session": Session, "engine": engine, "Memo": Memo})  # noqa: S102
    engine.dispose()

    async def recorded() -> list[tuple[str, str]]:
        store = await open_store(url)
        try:
            return [(each.destination, each.key) for each in await store.deliveries(Filter())]
        finally:
            await store.close()

    expected = [("https://hooks.example.com/memos", "memo/1"), ("mailto:ada@example.com", "memo/1")]
    assert sorted(asyncio.run(recorded())) == expected


@pytest.mark.parametrize(
    ("page", "number"),
    [
        ("README.md", 1),
        ("docs/reference/channels.md", 0),
        ("docs/how-to/own-channel.md", 0),
        ("docs/how-to/own-channel.md", 1),
    ],
)
def test_example_of_an_own_channel_is_a_channel(page: str, number: int) -> None:
    class Unreachable(Exception):
        pass

    async def send(address: str, body: str, token: str) -> str:
        if address == "sms:0":
            raise Unreachable
        return f"id of {token}"

    names: dict[str, object] = {"gateway": SimpleNamespace(send=send, Unreachable=Unreachable)}

    exec(examples(page)[number], names)  # noqa: S102

    channels = names["channels"]
    assert isinstance(channels, Channels)
    channel = channels.find("sms")
    assert channel is not None
    message = SimpleNamespace(address="sms:1", body="hello", token="t")
    assert asyncio.run(channel.send(message, timeout=1.0)) == Delivered("id of t")  # type: ignore[arg-type]
    assert channels.settings()["sms"]["if_unsure"] == "hold"
    if channels.can_look_up("sms"):
        message = SimpleNamespace(address="sms:0", body="hello", token="t")
        assert asyncio.run(channel.send(message, timeout=1.0)) == Failed("unreachable")  # type: ignore[arg-type]
