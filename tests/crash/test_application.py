"""The application killed around its commit and at random: the event is there exactly when its own row is."""

import random
import signal

import pytest

from tests.crash.accounts import settle_accounts, url_of, worker
from tests.processes import Process, until
from tests.receiver import Receiver
from tests.store.databases import Database

AMOUNT = 20
KILLS = 4
# Publishes memos one transaction after the other. At a step of the one that is named it dies by its own hand.
PROGRAM = """
import os, signal, sqlite3, sys
import psycopg
from sendonce import Outbox

url, receiver, first, per_transaction, step = sys.argv[1:]
number = int(first)
is_sqlite = url.startswith("sqlite:")
def die():
    os.kill(os.getpid(), signal.SIGKILL)

def send_commit():
    if is_sqlite:
        connection.set_trace_callback(lambda sql: die() if sql == "COMMIT" else None)
        connection.commit()
    connection.pgconn.send_query(b"COMMIT")
    while connection.pgconn.flush():
        pass
    die()

connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=200) if is_sqlite else psycopg.connect(url)
connection.execute("create table if not exists memos (number integer)")
connection.commit()
while True:
    for _ in range(int(per_transaction)):
        connection.execute(f"insert into memos (number) values ({number})")
        if step == "before publishing":
            die()
        Outbox().publish(connection, "memo.created", {"memo": number}, key=str(number), to=f"{receiver}/{number}")
        number += 1
    if step == "before the commit":
        die()
    if step == "while COMMIT is on its way":
        send_commit()
    connection.commit()
    if step == "after the commit":
        die()
    print("committed", file=sys.stderr, flush=True)
"""
STEPS = {
    "before publishing": {0},
    "before the commit": {0},
    "while COMMIT is on its way": {0, 1},
    "after the commit": {1},
}


def application(database: Database, receiver: Receiver, *, first: int = 0, each: int = 1, step: str = "") -> Process:
    return Process("-c", PROGRAM, url_of(database), receiver.url, str(first), str(each), step)


def check_that_events_are_where_rows_are(database: Database, receiver: Receiver, title: str) -> int:
    """How many there are; all of them are delivered then."""
    memos = {row[0] for row in database.execute("select number from memos")}
    assert {int(row["key"]) for row in database.rows("events")} == memos
    with worker(database, "--until-idle") as here:
        assert here.ended() == 0
    assert not settle_accounts(database, receiver, len(memos), title=title).repeated.total()
    return len(memos)


@pytest.mark.parametrize("step", STEPS)
def test_event_is_there_exactly_when_the_memo_is(database: Database, receiver: Receiver, step: str) -> None:
    with application(database, receiver, each=AMOUNT, step=step) as killed:
        assert killed.ended() == -signal.SIGKILL

    there = check_that_events_are_where_rows_are(database, receiver, f"application killed {step}")

    assert there in {AMOUNT * each for each in STEPS[step]}


@pytest.mark.slow
def test_application_killed_at_random_leaves_whole_transactions_only(database: Database, receiver: Receiver) -> None:
    rng = random.Random(7)

    for number in range(KILLS):
        with application(database, receiver, first=number * 1_000_000, each=3) as killed:
            wanted = rng.randint(1, 40)
            until(lambda: killed.count("committed") >= wanted, f"{wanted} commits")  # noqa: B023
            killed.kill()
    there = check_that_events_are_where_rows_are(database, receiver, f"application killed {KILLS} times at random")

    assert there >= 3 * KILLS
    assert there % 3 == 0
