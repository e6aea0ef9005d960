"""While workers work, die and are replaced, retention removes and people act, nothing is found that is not wrong."""

import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count

import pytest

from sendonce.admin.verify import Verified, VerifyPlan, verify
from sendonce.cli import main
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import Store
from tests.processes import Process, sendonce, until
from tests.store.databases import Database
from tests.verify.channels import STUCK
from tests.verify.conftest import Scene
from tests.verify.plants import plant
from tests.verify.scene import AT_ONCE

pytestmark = [pytest.mark.slow]

ROUNDS = 8
EXPIRED = "select count(*) from sendonce_attempts where error_code = 'lease_expired'"
UNTRIED = (
    f"select count(*) from sendonce_deliveries where destination = '{STUCK}' and attempt_count = 0"
    " and status in ('Pending', 'InProgress')"
)
HOLDERS = (
    "select w.name from sendonce_attempts a join sendonce_deliveries d on d.id = a.delivery_id"
    " join sendonce_leases l on l.id = a.lease_id join sendonce_workers w on w.id = l.worker_id"
    f" where a.status = 'Leased' and a.attempt = 1 and d.destination = '{STUCK}'"
)
_numbers = count(1)
_POLICY = (
    '{"first_delay": "10ms", "longest_delay": "50ms", "doubt_wait": "20ms", "timeout": "500ms", "max_attempts": 4}'
)


def url_of(database: Database) -> str:
    url = database.url  # type: ignore[attr-defined]
    assert isinstance(url, str)
    return url


def worker(database: Database) -> Process:
    options = ("--app", "tests.verify.channels:channels", "--lease", "1s", "--poll", "20ms", "--policy", _POLICY)
    return sendonce("worker", *options, database=url_of(database))


def act(database: Database, number: int) -> None:
    """What callers and people do meanwhile."""
    url = url_of(database)
    with database.connection() as connection:
        drafts = [Draft("memo.live", {}, key=f"live-{number}-{n}", to=[f"any:{n}", "any:b"]) for n in range(20)]
        Outbox().publish_many(connection, drafts)
    for command in (
        ["dead-letters", "requeue", "--all", "--yes", "--even-if-sent"],
        ["prune", "--payloads", "0s", "--history", "0s", "--keys", "0s" if number % 2 else "1d", "--yes"],
    ):
        main([*command, "--reason", "test", "--database", url])
    scope = ["--channel", "any"]
    main(["stop", *scope, "--database", url])
    main(["resume", *scope, "--database", url])


def kill(database: Database, running: Sequence[Process]) -> Process:
    """One of them, in the middle of a send, as a power cut would."""
    found: list[Process] = []

    def is_found() -> bool:
        if not database.one(UNTRIED):
            database.publish("memo.live", {}, key=f"stuck-{next(_numbers)}", to=STUCK)
        found.extend(process for process in running if is_frozen_in_a_send(database, process))
        return bool(found)

    until(is_found, "a send")
    found[0].kill()
    for process in found[1:]:
        process.send(signal.SIGCONT)
    return found[0]


def is_frozen_in_a_send(database: Database, process: Process) -> bool:
    """Stop it if it is in the middle of a send: there it stays then."""
    if not is_in_a_send(database, process):
        return False
    process.send(signal.SIGSTOP)
    if is_in_a_send(database, process):
        return True
    process.send(signal.SIGCONT)
    return False


def is_in_a_send(database: Database, process: Process) -> bool:
    return any(name.endswith(f":{process.pid}") for (name,) in database.execute(HOLDERS))


def work(database: Database, reports: Sequence[Verified]) -> None:
    """Callers, people, and workers that are killed and replaced, for some rounds; in each one somebody looks."""
    with ExitStack() as stack:
        running = [stack.enter_context(worker(database)) for _ in range(2)]
        for process in running:
            process.says("slots")
        for number in range(ROUNDS):
            act(database, number)
            if number % 2:
                running.remove(kill(database, running))
                running.append(stack.enter_context(worker(database)))
            until(lambda number=number: len(reports) > number, "a look")  # type: ignore[misc]
        until(lambda: database.one(EXPIRED), "an expired lease")


async def look(store: Store) -> Verified:
    reports = [report async for report in verify(store, VerifyPlan(step=50, again_after=AT_ONCE))]
    return reports[-1]


@pytest.mark.sqlite_later
async def test_verify_finds_only_what_is_planted_while_everybody_is_at_work(scene: Scene, store: Store) -> None:
    database = scene.database
    reports: list[Verified] = []
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, database, reports)
        while not working.done():
            reports.append(await look(store))
        working.result()

    planted = plant(database, scene.ids, "history")
    last = await look(store)

    assert [report.findings for report in reports] == [{}] * len(reports)
    assert len(reports) >= ROUNDS
    assert {name: each.found for name, each in last.findings.items()} == {"history": [planted]}
    assert database.one("select sum(amount) from sendonce_counters where name = 'removed_completed'") > 20
