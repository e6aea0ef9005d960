"""An operation by filter, killed in the middle again and again and taken up again: none is skipped, none doubled."""

import pytest

from sendonce.store.bulk import ATTEST, DISCARD, REQUEUE
from tests.crash.accounts import url_of, worker
from tests.given import given_due_delivery
from tests.processes import Process, sendonce, until
from tests.store.bulkwork import given_many_dead_letters
from tests.store.databases import Database

# The second time it has not even begun to go on.
KILLED_AT = (0.1, 0.1, 0.3)
PROGRESS = "select affected from sendonce_operations where filter is not null"


CLOSED_AS = {REQUEUE: "requeued", ATTEST: "attested", DISCARD: "discarded"}


def decide_all(database: Database, rate: str, kind: str = REQUEUE) -> Process:
    options = ("--all", "--yes", "--rate", rate, "--reason", "receiver is back")
    return sendonce("dead-letters", kind, *options, database=url_of(database))


def resume(database: Database) -> Process:
    return sendonce("operations", "resume", "1", database=url_of(database))


def affected(database: Database) -> int:
    rows = database.execute(PROGRESS)
    return rows[0][0] if rows else 0


def wait_for(database: Database, process: Process, amount: float) -> None:
    """Until so much is done. One that has ended by itself is not waited for: it says why."""
    until(lambda: affected(database) >= amount or not process.is_running, f"{amount:g} to be done")
    assert affected(database) >= amount, f"it ended by itself with {process.ended()}: {process.said}"


def kill_and_resume(database: Database, amount: int, rate: str, kind: str = REQUEUE) -> None:
    """Kill it with SIGKILL whenever so much is done, have another one go on, and look at what there is in the end.

    The last one has no rate to keep.
    """
    given_many_dead_letters(database, amount)
    closed = f"select count(*) from sendonce_dead_letters where closed_as = '{CLOSED_AS[kind]}'"
    process = decide_all(database, rate, kind)
    for part in KILLED_AT:
        with process:
            wait_for(database, process, part * amount)
            process.kill()
        assert affected(database) < amount, "it was killed in the middle"
        assert database.one(closed) == affected(database)
        if part == KILLED_AT[-1]:
            database.execute("update sendonce_operations set rate = 1000000 where id = 1")
        process = resume(database)
    with process:
        assert process.ended() == 0, process.said

    assert database.execute("select state, looked, affected, skipped from sendonce_operations where id = 1") == [
        ("done", amount, amount, 0)
    ]
    generations = database.execute(
        "select generation, count(*), count(distinct event_id) from sendonce_deliveries group by 1"
    )
    again = [] if kind == DISCARD else [(1, amount, amount)]
    assert sorted(generations) == [(0, amount, amount), *again]
    assert database.one(closed) == amount
    assert database.one("select count(*) from sendonce_findings") == (amount if kind == ATTEST else 0)


@pytest.mark.sqlite_later
@pytest.mark.slow
@pytest.mark.parametrize("kind", CLOSED_AS)
def test_bulk_operation_killed_in_the_middle_skips_none_and_doubles_none(database: Database, kind: str) -> None:
    # One step a second: when it is killed, what is left would take it ten seconds more.
    kill_and_resume(database, 8_000, "500/s", kind)


@pytest.mark.soak
def test_hundred_thousand_killed_in_the_middle(database: Database) -> None:
    kill_and_resume(database, 100_000, "1000000/s")


@pytest.mark.slow
def test_workers_go_on_sending_meanwhile(database: Database) -> None:
    given_many_dead_letters(database, 3_000)
    with worker(database) as sending:
        sending.says("slots; channels")
        with decide_all(database, "50/s") as operation:
            until(lambda: affected(database) >= 50, "the operation to have begun")
            fresh = given_due_delivery(database)
            until(
                lambda: database.one("select status from sendonce_deliveries where id = ?", fresh) == "Completed",
                "what is due to be sent",
            )
            assert affected(database) < 3_000, "the operation was still going on"
            until(lambda: database.one(
                "select count(*) from sendonce_deliveries where generation = 1 and status = 'Completed'"
            ) >= 50, "what was requeued to be sent")  # fmt: skip
            operation.kill()
        sending.kill()
