"""Document P, payment request and wallet, on the application that is made after it: apps/chancepay."""

import tomllib
from collections.abc import Iterator
from itertools import count, product
from uuid import UUID, uuid4

import pytest

from apps.chancepay.contract import Order
from apps.chancepay.demo.lossy import Loss
from tests.conformance.paying import Paying, paying
from tests.processes import ROOT, until

pytestmark = pytest.mark.slow

_numbers = count(1)
# Each mode and each database is in every run; all of them together, and RabbitMQ, are in the full matrix.
ALWAYS = {("nats", "sure", "postgres"), ("nats", "chance", "sqlite")}
PLACES = [
    pytest.param(place, id="-".join(place), marks=[] if place in ALWAYS else pytest.mark.more)
    for place in product(("nats", "rabbitmq"), ("sure", "chance"), ("sqlite", "postgres"))
]


@pytest.fixture(scope="module", params=PLACES)
def pay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paying]:
    broker, mode, kind = request.param
    server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    with paying(server, tmp_path_factory.mktemp("chancepay"), broker=broker, mode=mode) as made:
        yield made


@pytest.fixture
def wallet(pay: Paying) -> str:
    return pay.services.given_wallet(f"wallet-{next(_numbers)}", 100)


def test_P1_request_and_its_order_are_one_transaction(pay: Paying, wallet: str) -> None:
    services = pay.services
    uuid = services.pay(wallet, 30)
    other = services.requests.call("POST", "/payments", {"uuid": uuid, "wallet": wallet, "amount": 31})
    taken = str(uuid4())
    refused = services.requests.call("POST", f"/payments/{uuid}/refunds", {"uuid": taken, "amount": 31})

    recorded = "select count(*) from requests r join sendonce_events e on e.id = r.event_id and e.key = ?"
    assert services.requests.database.one(recorded, uuid) == 1
    assert (other.status, refused.status) == (409, 409)
    assert services.requests.database.one("select count(*) from sendonce_events where key = ?", taken) == 0
    assert services.settled(uuid)["amount"] == 30


def test_P2_P6_order_that_was_never_published_stays_and_can_be_published_again(pay: Paying, wallet: str) -> None:
    services = pay.services
    pay.broker.kill()
    uuid = services.pay(wallet, 10)

    def listed() -> bool:
        return f"{uuid}  never_published: 5 tries" in pay.reconcile("--dry-run").stdout

    until(
        lambda: services.requests.database.one(
            "select count(*) from sendonce_dead_letters z join sendonce_deliveries d on d.id = z.delivery_id"
            " join sendonce_events e on e.id = d.event_id where e.key = ?",
            uuid,
        ),
        "five tries",
    )
    assert listed()
    assert services.payment(uuid)["status"] == "PENDING"
    assert pay.reconcile().returncode == 1, "it waits for a person"
    pay.broker.start()
    again = pay.reconcile("--republish")

    assert "1 published again" in again.stdout
    assert services.settled(uuid)["status"] == "SUCCEED"
    assert services.balance(wallet) == 90


def test_P2_five_tries_are_what_the_application_sets_in_mode_chance() -> None:
    settings = tomllib.loads((ROOT / "apps/chancepay/requests/chance.toml").read_text())

    assert settings["policy"]["max_attempts"] == 5


def test_P3_P6_error_in_the_listener_is_recorded_and_not_redelivered(pay: Paying, wallet: str) -> None:
    services = pay.services
    database = services.wallet.database
    # A row that the database refuses without a word, which the ledger does not expect.
    database.execute(f"create unique index only_one on decisions (amount) where wallet = '{wallet}'")
    first = services.pay(wallet, 10)
    services.settled(first)
    lost = services.pay(wallet, 10)
    failed = "select begun from sendonce_messages where status = 'DeadLettered' and message_id like ?"
    until(lambda: database.execute(failed, f"{lost}%"), "it to be given up")
    after = services.pay(wallet, 11)

    assert services.settled(after)["status"] == "SUCCEED", "the stream goes on"
    tries = 1 if services.mode == "chance" else 5
    assert database.one(failed, f"{lost}%") == tries
    reconciled = pay.reconcile()
    assert reconciled.returncode == 1
    assert f"{lost}  listener_failed: " in reconciled.stdout
    assert f"({tries} tries)" in reconciled.stdout
    assert services.payment(lost)["status"] == "PENDING"
    why = services.payment(lost)["pending"]
    assert why is None if services.mode == "chance" else why["why"] == "listener_failed"
    assert services.balance(wallet) == 100 - 10 - 11


def test_P4_P6_report_that_is_lost_undoes_nothing_and_is_settled(pay: Paying, wallet: str) -> None:
    services = pay.services
    before = services.way.lost[Loss.REFUSED]
    losses = iter([Loss.REFUSED])
    services.way.choose = lambda: next(losses, Loss.NONE)
    uuid = services.pay(wallet, 40)
    until(lambda: services.way.lost[Loss.REFUSED] == before + 1, "the report to be lost")

    if services.mode == "chance":
        assert services.payment(uuid)["status"] == "PENDING"
        assert f"{uuid}  report_lost: the wallet says SUCCEED" in pay.reconcile("--dry-run").stdout
        assert services.payment(uuid)["status"] == "PENDING", "a dry run changes nothing"
        assert " 1 settled" in pay.reconcile("--all").stdout
    assert services.settled(uuid)["status"] == "SUCCEED"
    assert services.balance(wallet) == 60
    reports = "select count(*) from sendonce_events where type = 'chancepay.report' and key = ?"
    assert services.wallet.database.one(reports, uuid) == (1 if services.mode == "sure" else 0)


def test_P5_order_that_comes_many_times_is_deducted_once(pay: Paying, wallet: str) -> None:
    services = pay.services
    uuid = services.pay(wallet, 40)
    order = Order(uuid=UUID(uuid), kind="payment", wallet=wallet, amount=40)

    pay.put(order, copies=10)
    services.settled(uuid)
    last = services.pay(wallet, 7)
    services.settled(last)

    assert services.balance(wallet) == 100 - 40 - 7
    assert (
        services.wallet.database.one("select count(*) from sendonce_receipts where message_id like ?", f"{uuid}%") == 1
    )
    assert services.wallet.get("/internal/audit", role="internal") == {"findings": []}


def test_P6_reconciliation_says_that_a_service_is_away(pay: Paying) -> None:
    done = pay.reconcile("--requests", "http://127.0.0.1:1")

    assert (done.returncode, done.stdout, done.stderr) == (2, "", "reconcile: it cannot be reached\n")
