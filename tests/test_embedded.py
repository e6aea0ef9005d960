"""A worker inside one's own process: it sends, it finishes what it has begun, and it leaves the process alone."""

import asyncio
import signal
from pathlib import Path

import pytest

import sendonce
from sendonce import ConfigError, Delivered, aembedded_worker, embedded, embedded_worker
from sendonce.channels import Channels, Message, Outcome
from sendonce.config.load import load
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Emit, Fact, WorkerFailed
from tests.crash.accounts import url_of
from tests.given import given_due_deliveries, given_due_delivery
from tests.processes import until, until_async
from tests.store.conftest import database, postgres_template, sqlite_template
from tests.store.databases import Database

__all__ = ["database", "postgres_template", "sqlite_template"]

SETTINGS = '[worker]\npoll = "20ms"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS)
    return path


def statuses(database: Database) -> set[str]:
    return {row["status"] for row in database.rows("deliveries")}


class Held:
    """A channel whose sends end when they are let."""

    def __init__(self) -> None:
        self.begun, self.let = asyncio.Event(), asyncio.Event()
        self.sent: list[int] = []

    def channels(self) -> Channels:
        made = Channels()

        @made.channel("held")
        async def send(message: Message, *, timeout: float) -> Outcome:
            self.begun.set()
            await self.let.wait()
            self.sent.append(message.attempt)
            return Delivered("n-1")

        return made


async def test_embedded_worker_sends_what_is_due_before_and_after_it_began(database: Database, config: Path) -> None:
    given_due_delivery(database)
    async with aembedded_worker(url_of(database), config=config):
        await until_async(lambda: statuses(database) == {"Completed"}, "the first one")
        given_due_deliveries(database, 3)
        await until_async(lambda: statuses(database) == {"Completed"}, "the others")

    assert len(database.rows("attempts")) == 4
    [worker] = database.rows("workers")
    assert worker["stopped_at"] is not None


def test_embedded_worker_of_a_program_without_an_event_loop_sends_too(database: Database, config: Path) -> None:
    given_due_delivery(database)
    with embedded_worker(url_of(database), config=config):
        until(lambda: statuses(database) == {"Completed"}, "the first one")
        given_due_deliveries(database, 3)
        until(lambda: statuses(database) == {"Completed"}, "the others")

    assert all(worker["stopped_at"] is not None for worker in database.rows("workers"))
    with pytest.raises(ConfigError), embedded_worker("sqlite:///", config=config):
        pytest.fail("it began")


async def test_embedded_worker_finishes_what_is_in_flight_at_its_end(database: Database, config: Path) -> None:
    held = Held()
    given_due_delivery(database, to="held:a")

    async with aembedded_worker(url_of(database), config=config, channels=held.channels()):
        await asyncio.wait_for(held.begun.wait(), 50)
        asyncio.get_running_loop().call_later(0.2, held.let.set)
    late = given_due_delivery(database, to="held:b")

    assert held.sent == [1]
    rows = {row["id"]: row["status"] for row in database.rows("deliveries")}
    assert (rows.pop(late), set(rows.values())) == ("Pending", {"Completed"})
    assert database.rows("leases") == []


async def test_error_in_the_block_is_raised_when_the_worker_has_stopped(database: Database, config: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with aembedded_worker(url_of(database), config=config):
            raise ZeroDivisionError

    assert [row["stopped_at"] is None for row in database.rows("workers")] == [False]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[worker]\nlease = 0\n", "lease"),
        ('[policy]\nmax_attempts = "many"\n', "max_attempts"),
        ('[policy]\ntimeout = "1h"\n', "lease"),
        ("[no_such_table]\n", "no_such_table"),
    ],
)
async def test_settings_that_are_wrong_are_raised_before_the_block(tmp_path: Path, text: str, sentence: str) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    await sendonce.amigrate(url)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(text)

    with pytest.raises(ConfigError, match=sentence):
        async with aembedded_worker(url, config=wrong):
            pytest.fail("it has begun")


async def test_database_that_is_not_there_is_said_before_the_block(tmp_path: Path, config: Path) -> None:
    with pytest.raises(sendonce.StoreError, match="run: sendonce migrate"):
        async with aembedded_worker(f"sqlite:///{tmp_path / 'none.db'}", config=config):
            pytest.fail("it has begun")


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, []),
        ({"SENDONCE_WORKER_NOTIFY": "1"}, ["postgresql://app@pooler/shop"]),
        ({"SENDONCE_DATABASE_LISTEN_URL": "postgresql://app@direct/shop"}, []),
        (
            {"SENDONCE_WORKER_NOTIFY": "1", "SENDONCE_DATABASE_LISTEN_URL": "postgresql://app@direct/shop"},
            ["postgresql://app@direct/shop"],
        ),
    ],
)
def test_notifications_are_listened_for_where_the_settings_say(
    settings: dict[str, str], addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a pooler no announcement comes, and nobody would notice: the worker polls."""
    listening: list[str] = []
    monkeypatch.setattr(embedded, "open_notifier", listening.append)

    embedded.notifier_of(load(None, {"SENDONCE_DATABASE": "postgresql://app@pooler/shop", **settings}))

    assert listening == addresses


async def test_embedded_worker_leaves_signals_to_the_application(database: Database, config: Path) -> None:
    heard: list[int] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, heard.append, 1)
    before = signal.getsignal(signal.SIGINT)
    try:
        async with aembedded_worker(url_of(database), config=config):
            signal.raise_signal(signal.SIGTERM)
            await until_async(lambda: heard, "the application's own handler")
            given_due_delivery(database)
            await until_async(lambda: statuses(database) == {"Completed"}, "it to go on")
            assert signal.getsignal(signal.SIGINT) == before
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def test_embedded_workers_side_by_side_send_each_once(database: Database, config: Path) -> None:
    given_due_deliveries(database, 20)
    url = url_of(database)

    async with aembedded_worker(url, config=config), aembedded_worker(url, config=config):
        await until_async(lambda: statuses(database) == {"Completed"}, "all of them")

    assert len(database.rows("attempts")) == 20
    assert len(database.rows("workers")) == 2


async def test_worker_that_fails_is_told_and_another_one_begins(
    database: Database, config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with aembedded_worker(url_of(database), config=config):
        database.execute("alter table sendonce_leases rename to sendonce_leases_away")
        try:
            await until_async(lambda: "the worker has failed" in caplog.text, "the worker to fail")
        finally:
            database.execute("alter table sendonce_leases_away rename to sendonce_leases")
        given_due_delivery(database)
        await until_async(lambda: statuses(database) == {"Completed"}, "another worker to send it")

    assert {record.levelname for record in caplog.records if "has failed" in record.message} == {"ERROR"}


async def test_pauses_between_workers_that_fail_grow_up_to_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, begun = asyncio.Event(), asyncio.Event()
    begun.set()
    waited: list[float] = []
    told: list[Fact] = []

    async def wait(stop: asyncio.Event, seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 7:
            stop.set()

    async def run(emit: Emit) -> None:
        raise StoreBusy("it is away")

    monkeypatch.setattr(embedded, "_wait", wait)
    await embedded._work(run, "worker", told.append, stop, begun)

    assert waited == [1, 2, 4, 8, 16, 30, 30]
    assert told == [WorkerFailed(reason="it is away", again_in=seconds) for seconds in waited]
