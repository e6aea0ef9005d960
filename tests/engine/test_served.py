"""Real workers that listen: several on one database, one whose database is away, and what their pages never show."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web

from sendonce.observability.metrics import OF_THE_DATABASE
from sendonce.store.postgres import migrate as postgres_migrate
from tests.cli.workbench import run
from tests.crash.accounts import publish, url_of
from tests.given import given_due_delivery, later
from tests.processes import Process, sendonce, until
from tests.receiver import Receiver
from tests.scrapes import OPENMETRICS, address_of, get, scrape, together
from tests.servers.binaries import local_binaries, packaged
from tests.servers.postgres import Server, start
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

# Those that are always there; the others have a value for each channel or cause that there is.
NAMES = {metric.name for metric in OF_THE_DATABASE if not metric.labels}
WITHOUT = (
    "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(',')))\n"
    "from sendonce.cli import main; sys.exit(main(sys.argv[1:]))"
)
SEEN_LONG_AGO = "update sendonce_workers set seen_at = seen_at - ? where id <= 2"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture
def own_server() -> Iterator[Server]:
    server = start(local_binaries() or packaged(16))
    yield server
    server.stop()


def listener(database: Database, *options: str) -> Process:
    return sendonce("worker", "--metrics", "127.0.0.1:0", "--poll", "100ms", *options, database=url_of(database))


def have_gauges(*addresses: str) -> list[bool]:
    """Which of these workers serve what describes the database."""
    shown = [NAMES & scrape(address).keys() for address in addresses]
    assert all(names in (set(), NAMES) for names in shown)
    return [bool(names) for names in shown]


def workers_of(database: Database, amount: int, stack: ExitStack) -> tuple[list[Process], list[str]]:
    """Workers, the eldest first, and where they listen."""
    workers = [stack.enter_context(listener(database)) for _ in range(amount)]
    workers.sort(key=_id_of)
    return workers, [address_of(worker) for worker in workers]


def _id_of(worker: Process) -> int:
    worker.says("worker .* slots")
    [found] = re.findall(r"worker (\d+) ", worker.said)
    return int(found)


def test_M12_three_workers_count_the_database_once_and_the_next_takes_over(database: Database) -> None:
    for _ in range(3):
        given_due_delivery(database, deliver_at=later(database, timedelta(hours=1)))
    # A worker that does not listen is not the one to say it, however old it is.
    with ExitStack() as stack:
        silent = stack.enter_context(sendonce("worker", database=url_of(database)))
        silent.says("worker .* slots")
        [first, second, _], addresses = workers_of(database, 3, stack)

        until(lambda: have_gauges(*addresses) == [True, False, False], "the eldest serves")
        summed = together(addresses)
        assert summed["sendonce_deliveries_scheduled"] == 3
        assert summed["sendonce_worker_slots"] == 300
        assert summed["sendonce_oldest_due_age_seconds"] == 0

        first.kill()
        silent.kill()
        database.execute(SEEN_LONG_AGO, timedelta(seconds=20) if isinstance(database, PostgresDatabase) else 20_000_000)
        until(lambda: have_gauges(*addresses[1:]) == [True, False], "the next one serves")
        assert together(addresses[1:])["sendonce_deliveries_scheduled"] == 3

        second.send(signal.SIGTERM)
        assert second.ended() == 0
        until(lambda: have_gauges(addresses[2]) == [True], "the last one serves")
        assert together(addresses[2:])["sendonce_deliveries_scheduled"] == 3


@pytest.mark.slow
@pytest.mark.postgres
async def test_worker_lives_and_is_not_ready_while_postgresql_is_stopped_or_stalled(own_server: Server) -> None:
    database = PostgresDatabase(own_server.dsn(own_server.create_database()))
    await postgres_migrate.migrate(database.url)

    with listener(database) as worker:
        address = address_of(worker)

        def is_ready() -> bool:
            assert get(f"{address}/livez").status == 200
            return get(f"{address}/readyz").status == 200

        until(is_ready, "it is ready")
        own_server.halt("immediate")
        until(lambda: not is_ready(), "it is not ready without a database")
        assert "does not answer" in get(f"{address}/readyz").text
        assert scrape(address)["sendonce_database_answers"] == 0
        own_server.resume()
        until(is_ready, "it is ready again")

        stalled = [own_server.pid, *_backends(database)]
        for pid in stalled:
            os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: not is_ready(), "it is not ready while nothing answers")
            assert get(f"{address}/metrics").status == 200
        finally:
            for pid in stalled:
                os.kill(pid, signal.SIGCONT)
        until(is_ready, "it is ready once more")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0
        assert worker.count("Traceback") == 0


def _backends(database: PostgresDatabase) -> list[int]:
    rows = database.execute("select pid from pg_stat_activity where application_name = 'sendonce'")
    return [pid for (pid,) in rows]


def test_labels_never_carry_what_others_have_chosen(database: Database, receiver: Receiver, tmp_path: Path) -> None:
    nasty = "zq"
    settings = tmp_path / "sendonce.toml"
    settings.write_text(
        f'[network]\nallow = ["127.0.0.0/8"]\n'
        f'[http.{nasty}name]\nurl = "{receiver.url}/{nasty}/"\nbearer = "{nasty}b"\n'
    )
    receiver.answer = lambda arrival: web.Response(status=404 if arrival.path.endswith("no") else 200, text=nasty)
    for number, to in enumerate(
        [
            f"{receiver.url}/{nasty}/yes",
            f"{receiver.url}/{nasty}/no",
            f"{nasty}scheme:{nasty}",
            f"mailto:{nasty}@{nasty}.example",
        ]
    ):
        given_due_delivery(
            database, to=to, type=f"{nasty}.type", key=f"{nasty}{number}", tenant=f"{nasty}tenant",
            payload={nasty: nasty}, subject=nasty,
        )  # fmt: skip

    # What nobody serves is counted by whoever comes after the one that has put it aside.
    with listener(database, "--config", str(settings)) as first:
        waiting = "select count(*) from sendonce_deliveries where parked_on like ?"
        ended = "select count(*) from sendonce_deliveries where status in ('Completed', 'DeadLettered')"
        until(lambda: (database.one(waiting, "channel:%"), database.one(ended)) == (2, 2), "everything was tried")
        check_labels(address_of(first), nasty)
        assert scrape(address_of(first))['sendonce_attempts_total{channel="http",outcome="Refused"}'] == 1
        first.send(signal.SIGTERM)
        assert first.ended() == 0
    with listener(database, "--config", str(settings)) as second:
        until(lambda: have_gauges(address_of(second)) == [True], "the gauges are read")
        check_labels(address_of(second), nasty)
        assert scrape(address_of(second))["sendonce_deliveries_not_served"] == 2


def check_labels(address: str, nasty: str) -> None:
    for accept in ("*/*", OPENMETRICS):
        text = get(f"{address}/metrics", accept=accept).text
        assert nasty not in text
        assert "127.0.0.1" not in text
        assert f'"{socket.gethostname()}' not in text


def test_port_that_is_taken_ends_it_with_a_sentence_before_any_work(sqlite: SqliteDatabase, receiver: Receiver) -> None:
    publish(sqlite, receiver, 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"

        ran = run("worker", "--until-idle", "--metrics", place, env={"SENDONCE_DATABASE": sqlite.url})

    assert ran.code == 1
    assert ran.err == f"sendonce: cannot listen on {place} (Address already in use); choose another address\n"
    assert sqlite.one("select count(*) from sendonce_workers") == 0
    assert not receiver.arrivals


@pytest.mark.parametrize("missing", ["prometheus_client", "aiohttp"])
def test_metrics_without_the_extra_say_what_to_install(sqlite: SqliteDatabase, missing: str) -> None:
    ran = run(
        missing, "worker", "--until-idle", "--metrics", "127.0.0.1:0",
        env={"SENDONCE_DATABASE": sqlite.url}, program=("-c", WITHOUT),
    )  # fmt: skip

    assert ran.code == 1
    assert ran.err == "sendonce: --metrics needs: pip install 'sendonce[metrics]'\n"


def test_worker_that_does_not_listen_needs_no_metrics(sqlite: SqliteDatabase) -> None:
    ran = run(
        "prometheus_client", "worker", "--until-idle",
        env={"SENDONCE_DATABASE": sqlite.url}, program=("-c", WITHOUT),
    )  # fmt: skip

    assert ran.code == 0, ran.err
