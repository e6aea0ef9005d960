import threading
from dataclasses import fields
from typing import Any

import pytest

from sendonce import Outbox
from sendonce.compose import open_connection
from sendonce.domain.outcomes import Delivered, Refused
from sendonce.domain.requests import RecipientState, RequestState
from sendonce.store.records import RequestRow
from tests.cli.workbench import Cli


def make(cli: Cli, **changed: Any) -> int:
    usual: dict[str, Any] = {"key": "job-1", "subject": "cl-7", "version": 3, "required": ["null:ada", "null:bob"]}
    with open_connection(cli.database) as connection:
        return Outbox().request(connection, "review.finished", {}, **(usual | changed)).request_id


def test_requests_are_listed(cli: Cli) -> None:
    assert cli("requests", "list").out == "no requests match\n"
    make(cli)
    cli.attempt(Delivered("n-1"))
    make(cli, key="job-2", version=4, rerun=True, tenant="acme")
    cli.attempt(Refused("http_410"))

    lines = cli("requests", "list").out.splitlines()
    rows = cli("requests", "list", "--json").rows

    assert lines[0].split() == ["ID", "STATE", "TYPE", "SUBJECT", "VERSION", "NOTIFIED", "TENANT", "RECORDED"]
    assert lines[1].split()[:11] == [
        "2",
        "retryable_failed",
        "review.finished",
        "cl-7",
        "4",
        "0",
        "of",
        "2,",
        "2",
        "given",
        "up",
    ]
    assert lines[2].split()[:8] == ["1", "succeeded", "review.finished", "cl-7", "3", "2", "of", "2"]
    assert list(rows[0]) == [field.name for field in fields(RequestRow)]
    assert [each["id"] for each in cli("requests", "list", "--subject", "cl-7", "--limit", "1", "--json").rows] == [2]
    assert [each["id"] for each in cli("requests", "list", "--status", "SUCCEEDED", "--json").rows] == [1]
    assert [each["id"] for each in cli("requests", "list", "--tenant", "acme", "--json").rows] == [2]
    assert cli("requests", "list", "--type", "other", "--json").rows == []


def test_request_is_shown_with_its_recipients(cli: Cli) -> None:
    made = make(cli, optional="null:eve")
    cli.attempt(Refused("http_410", "gone"))

    shown = cli("requests", "show", str(made)).out
    row = cli("requests", "show", str(made), "--json").json

    assert "status      retryable_failed" in shown
    assert "required  delivery 1  DeadLettered  null:ada  http_410\n" in shown
    assert "optional  delivery 3  DeadLettered  null:eve  http_410\n" in shown
    assert list(row) == [field.name for field in fields(RequestState)]
    assert list(row["recipients"][0]) == [field.name for field in fields(RecipientState)]


def test_R13_request_is_explained_by_each_of_its_keys(cli: Cli) -> None:
    make(cli)
    make(cli, key="job-2")
    cli.attempt(Delivered("n-1"))

    for key in ("job-1", "job-2"):
        explained = cli("explain", key)

        assert explained.code == 0
        assert "review.finished with the key cl-7/3 about cl-7, version 3" in explained.out
        assert explained.out.count("nothing more happens") == 2


def test_wait_for_a_request_ends_with_its_result(cli: Cli) -> None:
    good, bad = make(cli), make(cli, key="job-2", subject="cl-8", required="null:a", optional="null:b")
    cli.attempt(Delivered("n-1"))
    late = make(cli, key="job-3", subject="cl-9")
    cli("cancel", "5", "6", "--reason", "not wanted")

    done = cli("requests", "wait", str(good))
    other = cli("requests", "wait", str(bad), "--json")
    failed = cli("requests", "wait", str(late))

    assert (done.code, done.out) == (
        0,
        "request 1 ('cl-7', version 3) has succeeded: 2 of 2 required are notified\n",
    )
    assert other.json["status"] == "succeeded"
    assert failed.code == 1
    assert failed.err == (
        "sendonce: request 3 ('cl-9', version 3) has failed and can be requeued: 0 of 2 required are notified and"
        " 2 deliveries given up; see: sendonce requests show 3\n"
    )


def test_wait_for_a_request_times_out(lite: Cli) -> None:
    made = make(lite)

    over = lite("requests", "wait", str(made), "--timeout", "50ms", "--json")

    assert over.code == 1
    assert '"status": "in_progress"' in over.out
    assert "is in progress: 0 of 2 required are notified; 50ms are over; see: sendonce requests show 1" in over.err


def test_wait_for_a_request_sees_what_happens_meanwhile(lite: Cli) -> None:
    made = make(lite)
    sending = threading.Timer(0.2, lite.attempt, [Delivered("n-1")])
    sending.start()

    assert lite("requests", "wait", str(made), "--timeout", "50s").code == 0
    sending.join()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("show 99", 1, "there is no request 99"),
        ("wait 99", 1, "there is no request 99"),
        ("show x", 2, "'x' is not an id"),
        ("list --status done", 2, "'done' is none of in_progress, retryable_failed, succeeded"),
        ("wait 1 --timeout soon", 2, "soon"),
    ],
)
def test_mistakes_are_told_in_a_sentence(lite: Cli, words: str, code: int, said: str) -> None:
    ran = lite("requests", *words.split())

    assert ran.code == code
    assert said in ran.err
    assert ran.err.count("\n") == 1
