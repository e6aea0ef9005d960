"""The wallet's service and its ledger by themselves: what the database holds, and who is first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from apps.chancepay.contract import LARGEST, Order, Report
from apps.chancepay.wallet import ledger
from apps.chancepay.wallet.ledger import OtherContent, Taken
from sendonce.contrib.sqlalchemy import ain_transaction, async_engine
from tests.apps.chancepay.services import ChancePay

pytestmark = pytest.mark.slow

_numbers = count(1)


@pytest.fixture
def wallet(services: ChancePay) -> str:
    return services.given_wallet(f"purse-{next(_numbers)}", 100)


@asynccontextmanager
async def engine_of(services: ChancePay) -> AsyncIterator[AsyncEngine]:
    engine = async_engine(services.wallet.url)
    try:
        yield engine
    finally:
        await engine.dispose()


async def take(engine: AsyncEngine, order: Order, message_id: str = "m") -> Taken | OtherContent:
    """Take an order in a transaction of its own, as the listener does."""

    async def work(connection: AsyncConnection) -> Taken | OtherContent:
        return await ledger.take(connection, order, message_id)

    return await ain_transaction(engine, work)


def payment(wallet: str, amount: int, uuid: UUID | None = None) -> Order:
    return Order(uuid=uuid or uuid4(), kind="payment", wallet=wallet, amount=amount)


def refund(of: Order, amount: int) -> Order:
    return Order(uuid=uuid4(), kind="refund", wallet=of.wallet, amount=amount, refund_of=of.uuid)


def came(order: Order, status: Any = "SUCCEED", reason: Any = None, *, is_new: bool = True) -> Taken:
    about = order.model_dump(exclude={"uuid"})
    return Taken(Report(**about, status=status, reason=reason), is_new=is_new)


async def test_ledger_takes_each_uuid_once_and_says_the_same_again(services: ChancePay, wallet: str) -> None:
    good, bad = payment(wallet, 60), payment(wallet, 60)

    async with engine_of(services) as engine:
        first = [await take(engine, order) for order in (good, bad)]
        again = [await take(engine, order) for order in (good, bad)]

    assert first == [came(good), came(bad, "FAILED", "insufficient_balance")]
    assert again == [came(good, is_new=False), came(bad, "FAILED", "insufficient_balance", is_new=False)]
    assert services.balance(wallet) == 40


async def test_ledger_takes_a_uuid_once_when_ten_listeners_get_it_together(services: ChancePay, wallet: str) -> None:
    order, other = payment(wallet, 10), payment(wallet, 11)
    same_uuid = [order] * 5 + [payment(wallet, 11, order.uuid)] * 5

    async with engine_of(services) as engine:
        taken = await asyncio.gather(*(take(engine, each, f"m{n}") for n, each in enumerate(same_uuid)))
        await take(engine, other)

    assert sum(isinstance(each, Taken) and each.is_new for each in taken) == 1
    assert sum(isinstance(each, OtherContent) for each in taken) == 5
    assert services.balance(wallet) in (100 - 10 - 11, 100 - 11 - 11)
    listed = services.wallet.get("/internal/conflicts?limit=5", role="internal")["conflicts"]
    assert {each["uuid"] for each in listed} == {str(order.uuid)}
    assert len({each["message_id"] for each in listed}) == 5


async def test_balance_is_never_below_zero_when_many_pay_together(services: ChancePay, wallet: str) -> None:
    orders = [payment(wallet, 30) for _ in range(8)]

    async with engine_of(services) as engine:
        taken = await asyncio.gather(*(take(engine, order) for order in orders))

    assert [each.report.status for each in taken if isinstance(each, Taken)].count("SUCCEED") == 3
    assert services.balance(wallet) == 10


async def test_refunds_are_never_more_than_was_paid_when_many_ask_together(services: ChancePay, wallet: str) -> None:
    paid = payment(wallet, 50)

    async with engine_of(services) as engine:
        await take(engine, paid)
        taken = await asyncio.gather(*(take(engine, refund(paid, 20)) for _ in range(5)))

    reasons = [each.report.reason for each in taken if isinstance(each, Taken)]
    assert (reasons.count(None), reasons.count("refund_too_large")) == (2, 3)
    assert services.balance(wallet) == 90


def test_database_refuses_what_the_rules_forbid(services: ChancePay, wallet: str) -> None:
    database = services.wallet.database
    add = "insert into transfers (uuid, kind, debit, credit, amount, created_at) values (?, ?, ?, ?, ?, ?)"

    def row(debit: str, credit: str, amount: int) -> tuple[object, ...]:
        return uuid4().hex, "payment", debit, credit, amount, "2026-11-19 00:00:00+00:00"

    for refused in (
        row(wallet, "book:paid", 101),
        row(wallet, "book:paid", 0),
        row(wallet, "book:paid", -1),
        row(wallet, wallet, 1),
        row(wallet, "nobody", 1),
        row("book:outside", wallet, LARGEST),
    ):
        with pytest.raises(Exception, match=r"(?i)check|foreign key|out of range"):
            run_with_keys(services, add, refused)
    for change in ("update transfers set amount = 1", "delete from transfers"):
        with pytest.raises(Exception, match="never changed"):
            database.execute(change)
    assert services.balance(wallet) == 100


def run_with_keys(services: ChancePay, sql: str, values: tuple[object, ...]) -> None:
    """SQLite checks foreign keys where it is asked to, as the application does."""
    database = services.wallet.database
    with database.connection(autocommit=True) as connection:
        if services.wallet.url.startswith("sqlite"):
            connection.execute("pragma foreign_keys = on")
        connection.execute(database.spell(sql), values)


def test_deposit_is_paid_in_once_for_its_uuid(services: ChancePay, wallet: str) -> None:
    body = {"uuid": str(uuid4()), "amount": 7}
    path = f"/wallets/{wallet}/deposits"

    answers = [services.wallet.call("POST", path, body) for _ in range(2)]
    other = services.wallet.call("POST", path, body | {"amount": 8})

    assert [(answer.status, answer.body["balance"]) for answer in answers] == [(201, 107), (200, 107)]
    assert (other.status, other.body["error"][:5]) == (409, "uuid:")


def test_wallet_never_holds_more_than_the_database_can_store(services: ChancePay) -> None:
    name = services.given_wallet(f"purse-{next(_numbers)}", LARGEST)

    more = services.wallet.call("POST", f"/wallets/{name}/deposits", {"uuid": str(uuid4()), "amount": 1})

    assert (more.status, more.body["error"][:7]) == (409, "amount:")
    assert services.balance(name) == LARGEST
    assert services.wallet.get("/internal/audit", role="internal") == {"findings": []}


async def test_transfers_are_listed_in_pages_and_add_up(services: ChancePay, wallet: str) -> None:
    paid = payment(wallet, 30)
    async with engine_of(services) as engine:
        await take(engine, paid)
        await take(engine, refund(paid, 5))

    first = services.wallet.get(f"/wallets/{wallet}/transfers?limit=2")
    second = services.wallet.get(f"/wallets/{wallet}/transfers?limit=2&before={first['next']}")

    listed = first["transfers"] + second["transfers"]
    assert [(each["kind"], each["amount"]) for each in listed] == [("refund", 5), ("payment", 30), ("deposit", 100)]
    moved = sum(each["amount"] * (1 if each["credit"] == wallet else -1) for each in listed)
    assert moved == services.balance(wallet) == 75


def test_audit_finds_a_balance_that_somebody_changed(services: ChancePay, wallet: str) -> None:
    services.wallet.database.execute("update accounts set balance = balance + 1 where id = ?", wallet)

    found = services.wallet.get("/internal/audit", role="internal")["findings"]

    services.wallet.database.execute("update accounts set balance = balance - 1 where id = ?", wallet)
    assert found == [f"wallet {wallet} has 101, its transfers say 100"]


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/wallets", {"id": "\ud800"}, 422, "id: "),
        ("/wallets", {"id": "book:paid"}, 422, "id: "),
        ("/wallets", {}, 422, "id: field required"),
        ("/wallets/no-such/deposits", {"uuid": str(uuid4()), "amount": 1}, 404, "there is no wallet no-such"),
        ("/wallets/purse/deposits", {"uuid": "x", "amount": 1}, 422, "uuid: "),
        ("/wallets/purse/deposits", {"uuid": str(uuid4()), "amount": 2**63}, 422, "amount: "),
        ("/wallets/%ED%A0%80/deposits", {"uuid": str(uuid4()), "amount": 1}, 422, "wallet: "),
    ],
)
def test_mistake_is_answered_with_its_field(
    services: ChancePay, path: str, body: object, status: int, sentence: str
) -> None:
    answer = services.wallet.call("POST", path, body)

    assert (answer.status, answer.body["error"][: len(sentence)]) == (status, sentence)
