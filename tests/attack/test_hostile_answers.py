"""A real worker among receivers that mean harm: it says what became of each, stays small, and serves the others."""

import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.attack.receivers import FLOODS, OK, ONCE, Villain, bombs, dripping
from tests.channels.troubles import raw_server
from tests.given import given_due_delivery
from tests.processes import Process, sendonce, until_async
from tests.store.databases import SqliteDatabase

# A busy machine may stand still for seconds, and what answers must have answered by then.
TIMEOUT = 10
POLICY = '{"max_attempts": 1, "timeout": "%ds", "doubt_wait": "1d", "first_delay": "1h"}'
LARGEST_GROWTH = 64_000_000
DRIPS = {
    "before the status": b"",
    "within the status": b"HTTP/1.1 2",
    "within the headers": OK + b"X-Slow: ",
    "within the body": OK + b"\r\n",
    "within a chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n",
}


def peak_of(process: Process) -> int:
    """The most memory that it ever had, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def worker(database: SqliteDatabase, *, timeout: int = TIMEOUT) -> Process:
    return sendonce("worker", "--poll", "100ms", "--policy", POLICY % timeout, database=database.url)


async def settled(database: SqliteDatabase, amount: int, seconds: float = 50) -> dict[str, tuple[str, str | None]]:
    """When so many attempts have ended: outcome and kept answer of each, by the key of its event."""
    sql = (
        "select e.key, a.outcome, a.response from sendonce_attempts a"
        " join sendonce_deliveries d on d.id = a.delivery_id join sendonce_events e on e.id = d.event_id"
        " where a.outcome is not null"
    )
    await until_async(lambda: len(database.execute(sql)) >= amount, f"{amount} attempts that have ended", seconds)
    return {str(key): (str(outcome), response) for key, outcome, response in database.execute(sql)}


@pytest.mark.slow
async def test_floods_bombs_and_nonsense_end_in_time_and_fill_no_memory(sqlite: SqliteDatabase) -> None:
    said = {kind: each.outcomes for kind, each in FLOODS.items()} | {kind: each for kind, (_, each) in ONCE.items()}
    villains = {kind: Villain(each.first, each.again) for kind, each in FLOODS.items()}
    villains |= {kind: Villain(answer) for kind, (answer, _) in ONCE.items()}
    for coding, body in bombs():
        villains[coding] = Villain(OK + b"Content-Encoding: %b\r\n\r\n" % coding.encode() + body)
        said[coding] = frozenset({"Delivered"})

    async with AsyncExitStack() as stack:
        with worker(sqlite) as process:
            await until_async(lambda: process.count("worker"), "the worker's first line")
            before = peak_of(process)
            for kind, villain in villains.items():
                port = await stack.enter_async_context(raw_server(villain.connected))
                given_due_delivery(sqlite, to=f"http://127.0.0.1:{port}/", key=kind)
            ended = await settled(sqlite, len(villains))
            growth = peak_of(process) - before
            assert process.is_running

    assert {kind: outcome for kind, (outcome, _) in ended.items() if outcome not in said[kind]} == {}
    assert all(response is None or len(response) <= 1000 for _, response in ended.values())
    assert [kind for kind, (_, response) in ended.items() if re.search("[\x00-\x08\x0b-\x1f]", response or "")] == []
    assert growth < LARGEST_GROWTH


@pytest.mark.slow
async def test_receivers_of_one_byte_a_second_hold_up_nobody_and_end_at_the_timeout(sqlite: SqliteDatabase) -> None:
    slow = {kind: dripping(first) for kind, first in DRIPS.items()}
    good = Villain(OK + b"Content-Length: 0\r\n\r\n")

    async with AsyncExitStack() as stack:
        for kind, villain in slow.items():
            port = await stack.enter_async_context(raw_server(villain.connected))
            for number in range(5):
                given_due_delivery(sqlite, to=f"http://127.0.0.1:{port}/{number}", key=f"{kind} {number}")
        with worker(sqlite) as process:
            await until_async(lambda: sum(each.listening for each in slow.values()) == 25, "25 slow answers")
            port = await stack.enter_async_context(raw_server(good.connected))
            given_due_delivery(sqlite, to=f"http://127.0.0.1:{port}/", key="good")
            await until_async(lambda: good.requests, "the good receiver's message")
            still_slow = sum(each.listening for each in slow.values())
            ended = await settled(sqlite, 26)
            assert process.is_running

    assert still_slow == 25
    assert ended["good"][0] == "Delivered"
    outcomes = {kind: {ended[f"{kind} {number}"][0] for number in range(5)} for kind in DRIPS}
    assert outcomes == {
        "before the status": {"Unknown"},
        "within the status": {"Unknown"},
        "within the headers": {"Unknown"},
        "within the body": {"Delivered"},
        "within a chunk": {"Delivered"},
    }
