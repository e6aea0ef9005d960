import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sendonce import Admin
from sendonce.admin.status import alert_sentence, room_sentence, warnings
from sendonce.cli import status as cli_status
from sendonce.cli.advice import remark_line
from sendonce.domain.outcomes import Delivered, Failed, Refused, Unknown
from sendonce.store.records import COUNT_CAP, AlertRow, InboxCounts, Room, Status, StopRow, WorkerRow
from tests.cli.test_explain import park
from tests.cli.workbench import JUST_NOW, Cli

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def status(
    *, due: int = 1, waiting: int = 60, progressed: int | None = None, stops: tuple[StopRow, ...] = ()
) -> Status:
    workers: tuple[WorkerRow, ...] = ()
    if progressed is not None:
        long_ago = NOW - timedelta(days=1)
        moment = NOW - timedelta(seconds=progressed)
        workers = (
            WorkerRow(
                id=1, name="h:1", version="1", concurrency=1, started_at=long_ago, seen_at=NOW, progressed_at=moment,
                stopped_at=None,
            ),
        )  # fmt: skip
    oldest = NOW - timedelta(seconds=waiting) if due else None
    return Status(
        now=NOW, schema_version=1, due=due, oldest_due_at=oldest, scheduled=0, retrying=0, in_flight=0, in_doubt=0,
        parked=0, dead_letters=0, completed=0, workers=workers, stops=stops,
    )  # fmt: skip


def test_status_counts_everything(cli: Cli) -> None:
    cli.delivery("done")
    cli.attempt(Delivered())
    cli.delivery("refused")
    cli.attempt(Refused("http_410"))
    cli.delivery("retry")
    cli.attempt(Failed("http_503"))
    cli.delivery("doubt")
    cli.attempt(Unknown("timeout"), can_look_up=True)
    cli.delivery("flying")
    cli.claim(name="host:4711")
    cli.delivery("later", "null:a", "--deliver-at", "1h")
    cli.delivery("due")
    cli("cancel", str(cli.delivery("unwanted")), "--reason", "decided")

    found = cli("status", "--json").json
    text = cli("status").out

    counts = {name: found[name] for name in ("due", "in_flight", "in_doubt", "dead_letters", "completed", "parked")}
    assert counts == {"due": 1, "in_flight": 1, "in_doubt": 1, "dead_letters": 1, "completed": 1, "parked": 0}
    assert found["retrying"] == 2
    assert found["scheduled"] == 3
    assert [worker["name"] for worker in found["workers"]] == ["host:4711"]
    assert found["warnings"] == []
    assert re.search(rf"workers       1 alive\n                host:4711  no progress yet, seen {JUST_NOW}", text)
    lines = ["due now       1, the oldest for", "in doubt      1", "dead letters  1", "completed     1 ever"]
    for line in (*lines, "stopped       nothing"):
        assert f"  {line}" in text


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_status_that_is_watched_looks_again_each_time(
    lite: Cli, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    looks, looked = 0, cli_status._look

    async def look(admin: Admin) -> object:
        nonlocal looks
        looks += 1
        if looks > 3:
            raise KeyboardInterrupt
        if looks > 1:
            await admin.astop("channel", f"c{looks}")
        return await looked(admin)

    monkeypatch.setattr(cli_status, "_look", look)
    ran = lite("status", "--watch", "1ms", *(["--json"] if as_json else []))

    assert ran.code == 130
    if as_json:
        lines = [json.loads(line) for line in ran.out.splitlines()[:3]]
        assert [len(each["stops"]) for each in lines] == [0, 1, 2]
    else:
        pictures = ran.out.split("every 1ms; Ctrl-C ends it\n")[:3]
        assert [each.count("--channel c") for each in pictures] == [0, 1, 2]


def test_status_warns_of_work_without_a_worker() -> None:
    assert [remark_line(each) for each in warnings(status(due=14, waiting=200))] == [
        "14 deliveries are due, the oldest for 3m 20s, and no worker is alive; start one with: sendonce worker"
    ]
    assert warnings(status(due=1))[0].sentence.startswith("1 delivery is due")


def test_status_warns_of_a_consumer_that_nobody_runs() -> None:
    late = InboxCounts(waiting=3, oldest_due_at=NOW - timedelta(minutes=2), late_consumer="wallet")

    assert [remark_line(each) for each in warnings(replace(status(due=0), inbox=late))] == [
        "a message has been due at consumer wallet for 2m, and nobody handles it;"
        " start it with: sendonce consume wallet"
    ]
    just_due = replace(late, oldest_due_at=NOW - timedelta(seconds=5))
    assert warnings(replace(status(due=0), inbox=just_due)) == []


def test_workers_without_progress_are_a_warning() -> None:
    assert "no worker has made progress for 10m" in warnings(status(waiting=600, progressed=600))[0].sentence


@pytest.mark.parametrize(
    "quiet",
    [
        status(due=0),
        status(waiting=5),
        status(waiting=600, progressed=3),
        status(
            waiting=600,
            stops=(StopRow(scope="all", value="", operator="ada", reason=None, created_at=NOW),),
        ),
    ],
    ids=["nothing due", "just due", "being worked on", "stopped"],
)
def test_status_warns_of_nothing_without_need(quiet: Status) -> None:
    assert warnings(quiet) == []


def test_alert_says_when_it_was_told_and_whether_anybody_looks() -> None:
    raised, told = NOW - timedelta(hours=3), NOW - timedelta(hours=1)
    alert = AlertRow(name="dead_letters", message="3 wait", is_raised=True, seen=3, raised_at=raised, told_at=told)
    sentence = "dead_letters since 2026-01-31 09:00:00 UTC (3h ago), told 1h ago: 3 wait"

    assert alert_sentence(alert, status(progressed=1)) == sentence
    assert alert_sentence(alert, status()) == f"{sentence} (nobody looks now: no worker is alive)"


def test_counts_that_reached_their_cap_say_so() -> None:
    from sendonce.cli.status import _count

    assert _count(COUNT_CAP) == "100,000 or more"
    assert _count(COUNT_CAP - 1) == "99,999"


def test_subscription_that_holds_deliveries_back_is_named(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:hook")
    cli("subscriptions", "add", "--type", "other", "--to", "null:hook")
    for id in ("1", "2"):
        cli("subscriptions", "pause", id, "--reason", "they asked")
    cli.publish("k")
    park(cli)

    text, found = cli("status").out, cli("status", "--json").json

    go_on = "go on with: sendonce subscriptions resume 1"
    assert f"  waiting       1 waits for subscription 1, which is paused (they asked); {go_on}\n" in text
    assert found["held_back"] == [{"id": 1, "state": "paused", "waiting": 1}]


def test_status_says_what_no_live_worker_serves() -> None:
    rooms = (
        Room(name="channel:sms", waiting=12, is_served=False),
        Room(name="channel:subscription:https://runner.example/jobs/", waiting=1, is_served=False),
        Room(name="channel:fax", waiting=2),
    )
    found = replace(status(due=0), rooms=rooms)

    assert [each.sentence for each in warnings(found)] == [
        "12 wait for sms:, which no live worker serves; it goes out when one that has this channel is started",
        "1 waits for https://runner.example/jobs/ (subscriptions), which no live worker serves; it goes out when one"
        " that has this channel is started",
    ]
    assert room_sentence(rooms[2], NOW) == "2 wait for fax:, and a worker that serves it takes them in their turn"
