"""Signed webhooks to 50 endpoints of which 10 misbehave, each in its own way: every single one is accounted for."""

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from tests.cli.workbench import Cli
from tests.crash.accounts import url_of
from tests.load.endpoints import BEHAVIOURS, ENDPOINTS, ENDS, MENDED, WAITING, WELL, Books, subscribe
from tests.processes import sendonce, until
from tests.provider import Provider
from tests.store.databases import Database, PostgresDatabase

FEW, MANY = {"postgresql": 120, "sqlite": 40}, {"postgresql": 400, "sqlite": 100}
CONCURRENCY = 200
POLICY = {
    "max_attempts": 5, "first_delay": "1s", "longest_delay": "10s", "jitter": 0.1, "timeout": "20s", "doubt_wait": "1s",
}  # fmt: skip
SAMPLE = 500
SECONDS = 1200.0


@pytest.fixture
def provider() -> Iterator[Provider]:
    # On every address of loopback, so that each endpoint is a host of its own.
    with Provider("--host", "0.0.0.0", "--keep", str(SAMPLE)) as made:  # noqa: S104
        yield made


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken and refuses connections."""
    with closing(socket.socket()) as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def publish(database: Database, amount: int) -> None:
    with database.connection() as connection:
        drafts = [Draft("order.placed", {"order": number}, key=f"order-{number}", to=None) for number in range(amount)]
        Outbox().publish_many(connection, drafts)


def work(database: Database, conditions: Mapping[str, Callable[[], bool]]) -> list[float]:
    """Run a worker until these hold, one after the other; the seconds that each took."""
    options = ("--concurrency", str(CONCURRENCY), "--lease", "30s", "--grace", "1s", "--policy", json.dumps(POLICY))
    seconds = []
    with sendonce("worker", *options, database=url_of(database)) as worker:
        begun = time.monotonic()
        for what, condition in conditions.items():
            until(condition, what, SECONDS)
            seconds.append(time.monotonic() - begun)
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
    assert worker.count("Traceback") == 0
    return seconds


@pytest.mark.sqlite_later
@pytest.mark.parametrize(
    "events",
    [pytest.param(FEW, id="few", marks=pytest.mark.slow), pytest.param(MANY, id="many", marks=pytest.mark.soak)],
)
@pytest.mark.timeout(1800)
def test_webhook_to_50_endpoints_of_which_10_misbehave_is_accounted_for(
    database: Database, provider: Provider, closed_port: int, capsys: pytest.CaptureFixture[str], events: dict[str, int]
) -> None:
    kind = "postgresql" if isinstance(database, PostgresDatabase) else "sqlite"
    amount = events[kind]
    cli = Cli(url_of(database), capsys)
    books = Books(database, subscribe(cli, provider, closed_port), amount)
    publish(database, amount)

    well, all_ended = work(
        database,
        {
            "all that goes where all is well": lambda: books.have_ended(WELL),
            "all that can end": lambda: books.have_ended(*ENDS) and books.are_held_back(),
        },
    )

    check_the_books(books, amount)
    check_the_provider(provider, books, amount)
    check_signatures(provider, books)
    doubtful = sum(row["in_doubt"] for row in books.rows("drops after accepting"))

    mend(cli, database, provider, books)
    [recovered] = work(database, {"all that waited": lambda: are_mended(books, amount)})

    received = {token: message for token, message in provider.messages().items() if message["count"]}
    doubled = [message for message in received.values() if message["count"] > 1]
    assert {message["path"] for message in doubled} <= {books.the("drops after accepting").path}
    assert len(doubled) == doubtful, "what was taken without an answer, where nobody can be asked"
    sent = sum(states["Completed"] for states in books.states().values())
    assert len(received) == sent
    with capsys.disabled():
        print(
            f"\n{kind}: {amount * ENDPOINTS:,} published; all for endpoints that are well there after {well:.1f} s,"
            f" all that could end ended after {all_ended:.1f} s; mended, {sent:,} completed after {recovered:.1f} s"
            f" more; lost 0, sent twice {len(doubled)} (taken without an answer, and nobody to ask)"
        )


def check_the_books(books: Books, amount: int) -> None:
    """Everything is in the state that it deserves, and nothing is missing."""
    states = books.states()
    assert {sum(each.values()) for each in states.values()} == {amount}
    assert len(states) == ENDPOINTS
    assert all(each["InProgress"] == 0 for each in states.values())
    for name in ("404", "redirects"):
        code = "http_404" if name == "404" else "http_302"
        assert books.attempts(name) == {("Refused", code): amount}, "refused at once, each in its first attempt"
    gone = states[books.the("410").id]
    assert 0 < gone["DeadLettered"] < amount
    assert gone["DeadLettered"] + gone["Pending"] == amount, "once it is disabled nothing more is sent there"
    for name, code in WAITING.items():
        waiting = states[books.the(name).id]
        assert waiting["Pending"] + waiting["PendingRetry"] == amount, f"{name}: nothing lost, nothing given up"
        attempts = books.attempts(name)
        assert code in {each for _, each in attempts}, name
        assert attempts.total() <= CONCURRENCY // 2, f"{name}: its breaker spares it"
        untried = [row for row in books.rows(name) if row["attempt_count"] == 0]
        assert {row["parked_on"] for row in untried} == {books.the(name).room}


def check_the_provider(provider: Provider, books: Books, amount: int) -> None:
    """Who behaves has got each message exactly once; who turned everything away has got nothing."""
    counts: dict[str, list[int]] = {each.path: [] for each in books.endpoints}
    for message in provider.messages().values():
        if message["count"]:
            counts[message["path"]].append(message["count"])
    for name in (WELL, "takes a second"):
        for endpoint in books.of(name):
            assert counts[endpoint.path] == [1] * amount
    for name in BEHAVIOURS:
        if name not in ("takes a second", "drops after accepting"):
            assert counts[books.the(name).path] == []


def check_signatures(provider: Provider, books: Books) -> None:
    """The last of what arrived, against the secrets of its own endpoint and of another one."""
    secrets = {each.path: each.secret for each in books.endpoints}
    another = books.the("bad TLS").secret
    arrivals = provider.last()
    assert len(arrivals) == SAMPLE
    for arrival in arrivals:
        headers = {name.lower(): value for name, value in arrival["headers"].items()}
        Webhook(secrets[arrival["path"]]).verify(arrival["body"], headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(another).verify(arrivals[0]["body"], arrivals[0]["headers"])


def mend(cli: Cli, database: Database, provider: Provider, books: Books) -> None:
    """Who can be mended behaves from now on, and time has passed."""
    for name in MENDED:
        provider.control(**dict.fromkeys(BEHAVIOURS[name]), path=books.the(name).path)
    assert cli("subscriptions", "resume", str(books.the("410").id)).code == 0
    database.execute("update sendonce_breakers set probe_at = updated_at")
    database.execute("update sendonce_deliveries set next_attempt_at = updated_at where next_attempt_at is not null")


def are_mended(books: Books, amount: int) -> bool:
    states = books.states()
    return all(
        states[books.the(name).id]["Completed"] + states[books.the(name).id]["DeadLettered"] == amount
        for name in MENDED
    )
