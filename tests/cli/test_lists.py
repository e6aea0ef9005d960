import os
import pty
import re
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from sendonce.domain.outcomes import Delivered, Failed, Refused
from sendonce.store import dead_letters
from sendonce.store.records import AttemptRow, DeadLetterRow, DeliveryRow, EventRow, SubscriptionRow
from tests.cli.workbench import Cli, clean_environment, run


def names(row: type) -> list[str]:
    return [field.name for field in fields(row)]


@pytest.mark.parametrize(
    ("noun", "said"),
    [
        ("events", "no events match"),
        ("deliveries", "no deliveries match"),
        ("dead-letters", "no dead letters match"),
        ("subscriptions", "no subscriptions match"),
    ],
)
def test_list_that_is_empty_says_so(cli: Cli, noun: str, said: str) -> None:
    assert cli(noun, "list").out == f"{said}\n"
    assert cli(noun, "list", "--json").rows == []


def test_json_has_the_fields_of_the_rows(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "x", "--to", "null:a")
    cli.delivery("k", "null:a")
    cli.attempt(Refused("http_410", "gone"))

    assert list(cli("deliveries", "list", "--json").rows[0]) == names(DeliveryRow)
    assert list(cli("dead-letters", "list", "--json").rows[0]) == names(DeadLetterRow)
    assert list(cli("dead-letters", "show", "1", "--json").json) == names(DeadLetterRow)
    assert list(cli("subscriptions", "list", "--json").rows[0]) == names(SubscriptionRow)
    event_names = [name for name in names(EventRow) if name not in ("payload", "headers")]
    assert list(cli("events", "list", "--json").rows[0]) == event_names
    assert list(cli("events", "show", "1", "--json").json) == [*event_names, "deliveries", "next_before"]
    shown = cli("deliveries", "show", "1", "--json").json
    assert list(shown) == [*names(DeliveryRow), "attempts", "next_before"]
    assert list(shown["attempts"][0]) == names(AttemptRow)
    assert shown["created_at"].endswith("Z")
    assert abs(datetime.fromisoformat(shown["created_at"]) - datetime.now(UTC)) < timedelta(minutes=5)


def test_payloads_are_shown_on_request_only(cli: Cli) -> None:
    cli.publish("k", "--to", "null:a", "--payload", '{"card": "secret-of-ada"}')

    everything = ["events list", "events show 1", "deliveries list", "deliveries show 1", "explain k", "status"]
    shown = [cli(*words.split(), *more).out for words in everything for more in ([], ["--json"])]

    assert not any("secret-of-ada" in each for each in shown)
    assert '{"card":"secret-of-ada"}' in cli("events", "show", "1", "--payload").out


def test_events_are_filtered_by_what_became_of_a_delivery(cli: Cli) -> None:
    cli.delivery("a", "null:a")
    cli.attempt(Delivered("n-1"))
    cli.publish("b", "--to", "null:b")

    def keys(*options: str) -> list[str]:
        return [row["key"] for row in cli("events", "list", "--json", *options).rows]

    assert keys("--status", "completed") == ["a"]
    assert keys("--destination", "null:b") == ["b"]
    assert keys("--destination", "null:b", "--status", "completed") == []


def test_deliveries_are_filtered(cli: Cli) -> None:
    cli.delivery("a", "null:a", "--tenant", "acme")
    cli.attempt(Delivered("n-1"))
    cli.delivery("b", "null:b")
    cli.attempt(Failed("http_503"))
    cli.publish("c", "--to", "mailto:Ada@Example.COM", type="order.paid")
    cli.publish("d", "--to", "null:a", "--deliver-at", "1h", type="order.paid")

    def keys(*options: str) -> list[str]:
        return [row["key"] for row in cli("deliveries", "list", "--json", *options).rows]

    assert keys() == ["d", "c", "b", "a"]
    assert keys("--limit", "2") == ["d", "c"]
    assert keys("--status", "completed") == ["a"]
    assert keys("--status", "PENDING") == ["d", "c"]
    assert keys("--status", "pending-retry") == keys("--status", "PendingRetry") == ["b"]
    assert keys("--status", "dead_lettered") == []
    assert keys("--type", "order.paid") == ["d", "c"]
    assert keys("--destination", "MAILTO:Ada@EXAMPLE.com") == ["c"]
    assert keys("--tenant", "acme") == ["a"]
    assert keys("--tenant", "") == ["d", "c", "b"]
    assert keys("--since", "1h", "--destination", "null:a") == ["d", "a"]
    assert keys("--since", "2999-01-01") == []


def test_events_and_dead_letters_are_filtered(cli: Cli) -> None:
    cli.delivery("a", "null:a")
    cli.attempt(Refused("http_410"))
    cli.publish("b", "--to", "null:b", "--tenant", "acme", type="order.paid")
    cli("cancel", "2", "--reason", "not wanted")

    events = [row["key"] for row in cli("events", "list", "--tenant", "acme", "--type", "order.paid", "--json").rows]
    refused = [row["key"] for row in cli("dead-letters", "list", "--given-up-as", "refused", "--json").rows]
    cancelled = ("--given-up-as", "cancelled", "--json")
    others = [row["key"] for row in cli("dead-letters", "list", "--type", "order.paid", *cancelled).rows]

    assert (events, refused, others) == (["b"], ["a"], ["b"])
    assert [row["key"] for row in cli("dead-letters", "list", "--json").rows] == ["a"]
    assert cli("dead-letters", "list", "--destination", "null:b", "--since", "1h", *cancelled).rows[0]["key"] == "b"


def test_table_is_aligned_and_tells_what_matters(cli: Cli) -> None:
    cli.delivery("a", "null:a")
    cli.attempt(Failed("http_503"))
    cli.publish("longer-key", "--to", "null:b")

    lines = cli("deliveries", "list").out.splitlines()

    assert lines[0].split() == ["ID", "STATE", "TYPE", "KEY", "DESTINATION", "TRIES", "NEXT", "RECORDED"]
    assert lines[1].split()[:7] == ["2", "Pending", "memo.saved", "longer-key", "null:b", "0", "due"]
    assert lines[2].split()[:7] == ["1", "PendingRetry", "memo.saved", "a", "null:a", "1", "in"]
    assert lines[1].index("longer-key") == lines[2].index("a  ")
    assert "\x1b" not in cli("deliveries", "list").out


def test_table_is_cut_to_the_terminal_and_not_cut_in_a_pipe(lite: Cli) -> None:
    lite.delivery("k" * 300)

    narrow = run("deliveries", "list", "--database", lite.database, env={"COLUMNS": "70"})
    piped = run("deliveries", "list", "--database", lite.database)

    assert max(map(len, narrow.out.splitlines())) == 70
    assert "k" * 300 in piped.out


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(lite: Cli, env: dict[str, str], coloured: bool) -> None:
    lite.delivery("k")
    lite.attempt(Delivered())
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sendonce", "deliveries", "list", "--database", lite.database],
        env=clean_environment({"NO_COLOR": "", **env}),
        stdout=theirs,
    )
    os.close(theirs)
    shown = _read_all(ours)

    assert process.wait(30) == 0
    assert "Completed" in shown
    assert ("\x1b[32mCompleted\x1b[0m" in shown) is coloured
    assert ("\x1b" in shown) is coloured


def test_command_show_is_for_people_too(cli: Cli) -> None:
    cli.delivery("k", "null:a")
    cli.attempt(Refused("http_410", "gone\x1b[2J for\ngood"))

    delivery = cli("deliveries", "show", "1").out
    letter = cli("dead-letters", "show", "1").out

    assert "status            DeadLettered" in delivery
    assert "  error_message  gone [2J for good\n" in delivery
    assert "in plain words: sendonce explain delivery:1" in letter
    assert "reason         refused" in letter


def _read_all(descriptor: int) -> str:
    shown = b""
    try:
        while chunk := os.read(descriptor, 65536):
            shown += chunk
    except OSError:  # Linux says so when the other side has ended
        pass
    finally:
        os.close(descriptor)
    return shown.decode()


def test_summary_counts_dead_letters_alike(cli: Cli) -> None:
    for key, to in (("a", "https://a.example/1"), ("b", "https://a.example/2"), ("c", "null:c")):
        cli.publish(key, "--to", to, "--tenant", "acme")
    cli.publish("d", "--to", "null:d", type="order.paid")
    cli.attempt(Refused("http_410"))

    said = cli("dead-letters", "summary")
    rows = cli("dead-letters", "summary", "--tenant", "acme", "--json").rows
    cut = cli("dead-letters", "summary", "--limit", "1")

    lines = [line.split()[:5] for line in said.out.splitlines()]
    assert lines == [
        ["COUNT", "REASON", "ERROR", "TYPE", "HOST"],
        ["2", "refused", "http_410", "memo.saved", "a.example"],
        ["1", "refused", "http_410", "memo.saved", "null"],
        ["1", "refused", "http_410", "order.paid", "null"],
    ]
    assert [(row["host"], row["count"]) for row in rows] == [("a.example", 2), ("null", 1)]
    assert rows[0]["oldest_at"] <= rows[0]["newest_at"]
    assert cut.out.endswith("these are the 1 largest groups; for more, give a higher --limit\n")
    assert cli("dead-letters", "summary", "--type", "memo.gone").out == "no dead letters match\n"


def test_summary_says_how_far_it_looked(lite: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "DEARER", (2,))
    for key in ("a", "b", "c"):
        lite.publish(key, "--to", "null:a")
        lite.attempt(Refused("http_410"))

    newest = lite("dead-letters", "summary")
    rest = lite("dead-letters", "summary", "--before", "2", "--json").rows

    assert newest.out.splitlines()[1].split()[0] == "2"
    assert re.search(r"looked back to .* UTC; older ones: --before 2\n", newest.out)
    assert [row["count"] for row in rest] == [1]
