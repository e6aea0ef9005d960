"""The examples of the page on one's own service run as they stand."""

import ast
import inspect
import sqlite3
from contextlib import closing
from pathlib import Path
from types import FunctionType

import pytest
from sqlalchemy import Column, Integer, MetaData, Table

import sendonce
from tests.docs.test_examples import examples

ORDERS = Table("orders", MetaData(), Column("id", Integer, primary_key=True))


async def run(example: str, names: dict[str, object]) -> dict[str, object]:
    """Run an example that awaits at its top; what it has made."""
    code = compile(example, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = {"sendonce": sendonce, **names}
    result = FunctionType(code, made)()
    if inspect.isawaitable(result):
        await result
    return made


@pytest.fixture
async def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    await sendonce.amigrate("sqlite:///shop.db")
    (tmp_path / "sendonce.toml").touch()
    return "sqlite:///shop.db"


async def test_admin_and_the_embedded_worker_are_used_as_written(shop: str) -> None:
    admin, _, worker = examples("docs/how-to/services.md")[:3]

    await run(admin, {})
    await run(worker, {})


async def test_order_is_cancelled_with_its_deliveries_in_one_transaction(shop: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript("create table orders (id integer primary key, cancelled integer)")
        sendonce.Outbox().publish(connection, "order.placed", {}, key="7", to="null:a")
        connection.commit()

    made = await run(examples("docs/how-to/services.md")[1], {})

    made["connection"].close()  # type: ignore[attr-defined]
    async with sendonce.Admin.aopen(shop, operator="ada") as admin:
        assert [each.status for each in await admin.adeliveries()] == ["DeadLettered"]


async def test_order_and_its_event_are_written_together(shop: str) -> None:
    from sendonce.contrib.sqlalchemy import async_engine

    engine = async_engine(shop)
    async with engine.begin() as connection:
        await connection.run_sync(ORDERS.metadata.create_all)
    await engine.dispose()

    made = await run(examples("docs/how-to/services.md")[3], {"orders": ORDERS, "outbox": sendonce.Outbox()})

    await made["engine"].dispose()  # type: ignore[attr-defined]
    async with sendonce.Admin.aopen(shop, operator="ada") as admin:
        [event] = await admin.aevents()
    assert (event.type, event.key) == ("order.placed", "order/7")


async def test_application_answers_errors_with_a_sentence() -> None:
    made = await run(examples("docs/how-to/services.md")[4], {})

    assert sendonce.SendonceError in made["app"].exception_handlers  # type: ignore[attr-defined]
