"""The application killed around its commit: before it nothing is there, after it everything is delivered."""

import signal

import pytest

from tests.crash.accounts import settle_accounts, url_of, worker
from tests.processes import Process
from tests.receiver import Receiver
from tests.stores.databases import Database

AMOUNT = 20
PROGRAM = """
import sys, time
from sendonce.compose import open_connection
from sendonce.outbox.outbox import Outbox

url, receiver, amount, when = sys.argv[1:]
def say():
    print("ready", file=sys.stderr, flush=True)
    time.sleep(60)

with open_connection(url) as connection:
    connection.execute("create table if not exists memos (number integer)")
    for number in range(int(amount)):
        connection.execute(f"insert into memos (number) values ({number})")
        Outbox().publish(connection, "memo.created", {"memo": number}, key=("memo", number), to=f"{receiver}/{number}")
    if when == "before":
        say()
say()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_event_is_there_exactly_when_the_memo_is(database: Database, receiver: Receiver, when: str) -> None:
    with Process("-c", PROGRAM, url_of(database), receiver.url, str(AMOUNT), when) as application:
        application.says("ready")
        application.kill()
    with worker(database, "--until-idle") as here:
        assert here.ended() == 0

    assert application.ended() == -signal.SIGKILL
    if when == "before":
        assert database.rows("events") == []
        assert receiver.arrivals == []
        return
    assert database.one("select count(*) from memos") == AMOUNT
    assert settle_accounts(database, receiver, AMOUNT).repeated == {}
