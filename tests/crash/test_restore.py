"""A real backup is restored over what was sent since: what an operator types, or a worker notices, doubles nothing."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from sendonce.compose import migrate
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import Store
from tests.cli.workbench import run
from tests.crash.accounts import end_leases, url_of
from tests.crash.backups import Place
from tests.processes import Process, sendonce, until
from tests.receiver import Arrival, Receiver
from tests.servers.binaries import local_binaries, packaged
from tests.servers.postgres import start
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

BACKLOG = 6
WAIT = "1h"
POLICY = {"first_delay": "100ms", "longest_delay": "200ms", "jitter": 0, "doubt_wait": WAIT, "timeout": "10m"}
LOOK_UP = "/look-up/"
# The moments of what is in doubt come an hour earlier; and those at which breakers, whose probe was on its way with a
# worker that is dead, are tried again.
AN_HOUR_LATER = {
    SqliteDatabase: "update sendonce_deliveries set not_before = not_before - 3600000000,"
    " next_attempt_at = next_attempt_at - 3600000000 where not_before is not null and status <> 'DeadLettered'",
    PostgresDatabase: "update sendonce_deliveries set not_before = not_before - interval '1 hour',"
    " next_attempt_at = next_attempt_at - interval '1 hour' where not_before is not null and status <> 'DeadLettered'",
}


class Lagging(Receiver):
    """Takes every message, and can be asked; while it `lags` its look-up finds nothing. `is_down`: it takes nothing."""

    def __init__(self) -> None:
        super().__init__(answer=self._answer)
        self.lags = False
        self.is_down = False
        self.sent: list[str] = []
        self.tokens_of_all: list[str] = []
        self.asked = 0

    def _answer(self, arrival: Arrival) -> web.Response:
        if arrival.path.startswith(LOOK_UP):
            self.asked += 1
            is_found = arrival.path.removeprefix(LOOK_UP) in self.tokens_of_all and not self.lags
            return web.json_response({"id": "n-1"}) if is_found else web.Response(status=404)
        if self.is_down:
            return web.Response(status=503)
        self.sent.append(arrival.path)
        self.tokens_of_all.append(arrival.token)
        return web.json_response({"id": "n-1"})


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        database: Database = SqliteDatabase(tmp_path / "sendonce.db")
        migrate(url_of(database))
        yield Place(database, tmp_path, None)
        return
    server = start(local_binaries() or packaged(16), durable=True)
    try:
        database = PostgresDatabase(server.dsn(server.create_database()))
        migrate(database.url)
        yield Place(database, tmp_path, server)
    finally:
        server.stop()


class Scene:
    """Three receivers: one that is busy (a limit), one with a rate, one that is down (a breaker)."""

    def __init__(self, place: Place, receivers: dict[str, Lagging]) -> None:
        self.place, self.database, self.receivers = place, place.database, receivers
        self.config = place.folder / "sendonce.toml"
        self.config.write_text(
            "".join(
                f'[http.{name}]\nurl = "{each.url}/{name}/"\nlook_up = "{each.url}{LOOK_UP}{{token}}"\n'
                f"for_subscriptions = true\n"
                for name, each in receivers.items()
            )
        )

    @contextmanager
    def worker(self, *options: str) -> Iterator[Process]:
        with sendonce(
            "worker", "--config", str(self.config), "--lease", "20m", "--poll", "100ms", "--per-host", "2",
            "--breaker-after", "2", "--breaker-pause", "200ms", "--policy", json.dumps(POLICY), *options,
            database=url_of(self.database), environment={"SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8"},
        ) as worker:  # fmt: skip
            yield worker

    def command(self, *arguments: str) -> int:
        return run(*arguments, env={"SENDONCE_DATABASE": url_of(self.database)}).code

    def publish(self, *names: str) -> None:
        drafts = [
            Draft("memo.saved", {}, key=f"{name}-{nth}", to=f"{self.receivers[name].url}/{name}/{nth}")
            for name in names
            for nth in range(BACKLOG)
        ]
        with self.database.connection() as connection:
            Outbox().publish_many(connection, drafts)

    def subscribe(self) -> None:
        async def add(store: Store) -> None:
            await store.add_subscription(
                tenant="", types=["rated.*"], destination=f"{self.receivers['rated'].url}/rated/all", policy=None,
                description=None, operator="ada", rate=0.001,
            )  # fmt: skip

        self.ask(add)
        for nth in range(BACKLOG):
            self.database.publish("rated.memo", {}, key=f"rated-{nth}", to=None)

    def ask(self, work: Callable[[Store], Awaitable[None]]) -> None:
        async def asking() -> None:
            store = await self.database.open()
            try:
                await work(store)
            finally:
                await self.database.close()

        asyncio.run(asking())

    def parked(self, kind: str) -> int:
        asked = "select count(*) from sendonce_deliveries where parked_on like ?"
        return int(self.database.one(asked, f"{kind}:%"))

    def open(self) -> int:
        asked = "select count(*) from sendonce_deliveries where status not in ('Completed', 'DeadLettered')"
        return int(self.database.one(asked))

    def given_parked_backlog(self) -> None:
        """Behind a limit, a rate and a breaker, with some on their way."""
        self.receivers["busy"].is_held = True
        self.receivers["down"].is_down = True
        self.publish("busy", "down")
        self.subscribe()

    def is_all_parked(self) -> bool:
        return bool(self.parked("place") and self.parked("rate") and self.parked("destination"))

    def let_everything_out(self) -> None:
        self.receivers["busy"].is_held = False
        self.receivers["down"].is_down = False
        self.lift_rate()

    def is_all_sent(self) -> bool:
        """A probe that was let out as the server stopped for the backup is due again, and not after a whole lease."""
        self.database.execute("update sendonce_breakers set probe_at = updated_at where probe_at > updated_at")
        return self.open() == 0

    def lift_rate(self) -> None:
        async def unlimited(store: Store) -> None:
            await store.set_subscription_rate(1, None, operator="ada", reason=None)

        self.ask(unlimited)

    def doubled(self) -> list[str]:
        """The tokens of what was taken more than once."""
        taken = Counter(token for receiver in self.receivers.values() for token in receiver.tokens_of_all)
        return [token for token, times in taken.items() if times > 1]


@pytest.fixture
def scene(place: Place) -> Iterator[Scene]:
    with ExitStack() as stack:
        receivers = {name: stack.enter_context(Lagging()) for name in ("busy", "rated", "down")}
        yield Scene(place, receivers)


def given_sent_after_the_backup(scene: Scene, *options: str) -> None:
    """A backup with a parked backlog; then everything was sent, and settled; then the backup is restored."""
    scene.given_parked_backlog()
    with scene.worker(*options) as worker:
        until(scene.is_all_parked, "a backlog behind a limit, a rate and a breaker")
        scene.place.back_up()
        scene.let_everything_out()
        until(scene.is_all_sent, "everything is sent")
        worker.kill()
    for receiver in scene.receivers.values():
        receiver.lags = True
    scene.place.restore()
    end_leases(scene.database)  # whose workers are dead
    assert scene.open() > 2 * BACKLOG


def check_that_nothing_is_doubled(scene: Scene) -> None:
    """While look-ups lag nobody is asked and nothing is sent but what is new; then what had arrived is found."""
    busy = scene.receivers["busy"]
    busy.is_held = False
    scene.receivers["down"].is_down = False
    before = {name: list(each.sent) for name, each in scene.receivers.items()}
    with scene.database.connection() as connection:
        Outbox().publish(connection, "memo.saved", {}, key="new", to=f"{busy.url}/busy/new")
    until(lambda: "/busy/new" in busy.sent, "what is recorded after the restore is sent")
    assert {name: each.asked for name, each in scene.receivers.items()} == {"busy": 0, "rated": 0, "down": 0}
    assert [each for each in busy.sent if each != "/busy/new"] == before["busy"]
    assert [scene.receivers[name].sent for name in ("rated", "down")] == [before["rated"], before["down"]]
    for receiver in scene.receivers.values():
        receiver.lags = False
    scene.lift_rate()

    def is_over() -> bool:
        scene.database.execute(AN_HOUR_LATER[type(scene.database)])
        scene.database.execute("update sendonce_breakers set probe_at = updated_at where probe_at > updated_at")
        return scene.open() == 0

    until(is_over, "all was asked about")
    assert scene.doubled() == []
    assert sum(each.asked for each in scene.receivers.values()) >= 2 * BACKLOG
    assert scene.database.one("select count(*) from sendonce_dead_letters") == 0


def test_restore_with_the_commands_of_the_page_doubles_nothing(scene: Scene) -> None:
    given_sent_after_the_backup(scene)

    assert scene.command("doubt", "--open", "--even-if-running", "--wait", WAIT, "--reason", "restored") == 0
    assert scene.command("reconcile", "--config", str(scene.config)) == 1

    with scene.worker():
        check_that_nothing_is_doubled(scene)


def test_worker_with_a_state_file_notices_a_restore_by_itself(scene: Scene) -> None:
    state = str(scene.place.folder / "worker.state")
    given_sent_after_the_backup(scene, "--state", state)

    with scene.worker("--state", state) as worker:
        worker.says("this database has lost commits")
        check_that_nothing_is_doubled(scene)
        until(lambda: scene.database.one("select ended_by from sendonce_losses") == "sendonce worker", "its end")
