"""Connections cut, silent, and cut between what the server did and its answer: on both sides of the worker."""

import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from sendonce import Outbox
from tests.crash.accounts import Limits, all_completed, completed, publish, settle_accounts, worker
from tests.crash.proxy import Proxy
from tests.processes import until
from tests.receiver import Receiver
from tests.store.databases import Database, PostgresDatabase

pytestmark = pytest.mark.slow

AMOUNT = 200
LEASE_SECONDS = 4
SLOTS = 5
TIMEOUT_SECONDS = 5
Trouble = Callable[[Proxy], None]


def outlast_the_leases() -> None:
    """Nothing tells when a lease has run out but the clock."""
    over_at = time.monotonic() + LEASE_SECONDS + 0.3
    until(lambda: time.monotonic() > over_at, "the end of all leases")


def cut(proxy: Proxy) -> None:
    assert proxy.cut() >= 1


def silent_and_back(proxy: Proxy) -> None:
    proxy.silence()
    outlast_the_leases()
    proxy.speak(forget=False)


def silent_and_cut(proxy: Proxy) -> None:
    proxy.silence()
    outlast_the_leases()
    proxy.speak(forget=True)


def unanswered(proxy: Proxy) -> None:
    """The server does what it is asked to, and nobody is told; of several calls."""
    before = proxy.cuts
    proxy.cut_answers(6, to=b"")
    until(lambda: proxy.cuts >= before + 6, "six answers to be cut")


def unsure(database: Database) -> int:
    return int(database.one("select count(*) from sendonce_attempts where outcome = 'Unknown'"))


def have_begun(database: Database, amount: int) -> bool:
    """Whether so many workers have all their connections: their lease keepers, which open theirs last, have spoken."""
    return bool(database.one("select count(*) from sendonce_workers where seen_at > started_at") == amount)


@pytest.fixture
def proxied(database: Database) -> Iterator[tuple[Proxy, PostgresDatabase]]:
    """A way to the database that can be broken, and the database by that way."""
    assert isinstance(database, PostgresDatabase)
    parts = urlsplit(database.url)
    with Proxy(parts.hostname or "127.0.0.1", parts.port or 5432) as proxy:
        account = parts.netloc.rpartition("@")[0]
        query = f"?{parts.query}" if parts.query else ""
        yield proxy, PostgresDatabase(f"postgresql://{account}@127.0.0.1:{proxy.port}{parts.path}{query}")


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
@pytest.mark.parametrize("trouble", [cut, silent_and_back, silent_and_cut, unanswered])
def test_network_faults_between_worker_and_database_lose_nothing(
    database: Database, receiver: Receiver, proxied: tuple[Proxy, PostgresDatabase], trouble: Trouble
) -> None:
    proxy, by_proxy = proxied
    publish(database, receiver, AMOUNT)
    receiver.delay = 0.05

    limits = Limits(lease=f"{LEASE_SECONDS}s", timeout="3s")

    with worker(by_proxy, "--concurrency", "5", **limits) as cut_off, worker(database, "--concurrency", "5") as other:
        until(lambda: completed(database) >= 20 and have_begun(database, 2), "both to be at work")
        trouble(proxy)
        took = all_completed(database, AMOUNT)

    settle_accounts(database, receiver, AMOUNT, title=f"worker and PostgreSQL: {trouble.__name__}", took=took)
    assert cut_off.count("Traceback") + other.count("Traceback") == 0


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_application_that_was_not_told_of_its_commit_can_publish_again(
    database: Database, receiver: Receiver, proxied: tuple[Proxy, PostgresDatabase]
) -> None:
    proxy, by_proxy = proxied
    proxy.cut_answers(1)

    with pytest.raises(psycopg.OperationalError):
        publish(by_proxy, receiver, 10)
    with by_proxy.connection() as connection:
        again = Outbox().publish(connection, "memo.created", {"memo": 0}, key="memo-0", to=f"{receiver.url}/0")
    with worker(database, "--until-idle") as here:
        assert here.ended() == 0

    assert (again.duplicate, again.deliveries) == (True, 0)
    assert not settle_accounts(database, receiver, 10, title="COMMIT without an answer").repeated.total()


@pytest.mark.parametrize("is_silent", [False, True], ids=["cut", "silent_and_cut"])
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_network_faults_between_worker_and_receiver_lose_nothing(
    database: Database, receiver: Receiver, is_silent: bool
) -> None:
    parts = urlsplit(receiver.url)
    assert parts.hostname
    assert parts.port
    receiver.delay = 0.05

    with Proxy(parts.hostname, parts.port) as proxy:
        publish(database, receiver, AMOUNT, url=f"http://127.0.0.1:{proxy.port}")
        with worker(database, "--concurrency", str(SLOTS), timeout=f"{TIMEOUT_SECONDS}s") as here:
            receiver.most = AMOUNT // 2  # however late we look, there is work left
            until(lambda: completed(database) >= 20, "some work")
            receiver.is_held, begun, before = True, time.monotonic(), len(receiver.arrivals)
            receiver.most = None
            until(lambda: len(receiver.arrivals) > before, "something in flight that is not answered")
            if is_silent:
                proxy.silence()
                until(lambda: unsure(database) >= SLOTS, "sends that time out")
                proxy.speak(forget=True)
            else:
                cut(proxy)
            receiver.is_held = False
            rounds = 2 + int((time.monotonic() - begun) / TIMEOUT_SECONDS)
            took = all_completed(database, AMOUNT)

    report = settle_accounts(database, receiver, AMOUNT, title=f"worker and receiver: {is_silent=}", took=took)
    assert 0 < report.in_doubt <= SLOTS * rounds, "what was on its way, in each of the rounds that time out"
    assert here.count("Traceback") == 0
