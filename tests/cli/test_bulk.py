"""What is done by filter: counted first, asked about, done in steps; and the operations log."""

import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from sendonce.domain.outcomes import Delivered, Failed, Refused, Unknown
from sendonce.domain.policies import IfUnsure, Policy
from tests.cli.workbench import Cli, clean_environment
from tests.processes import Process, until

WHY = ["--reason", "receiver is back"]
HOLDING = Policy(if_unsure=IfUnsure.HOLD)


def given_letters(cli: Cli, *keys: str, type: str = "order.created") -> None:
    for key in keys:
        cli.publish(key, "--to", "null:a", type=type)
    cli.attempt(Refused("http_410"))


def generations(cli: Cli) -> list[int]:
    return sorted(each["generation"] for each in cli("deliveries", "list", "--json").rows)


def test_dry_run_counts_and_changes_nothing(cli: Cli) -> None:
    given_letters(cli, "a", "b")
    cli.publish("c", "--to", "null:a", type="order.paid")
    cli.attempt(Unknown("timeout"), policy=HOLDING)
    cli("cancel", str(cli.delivery("d")), "--reason", "not wanted")

    said = cli("dead-letters", "requeue", "--type", "order.*", "--dry-run", *WHY)
    shown = cli("dead-letters", "requeue", "--type", "order.*", "--dry-run", "--json", *WHY).json

    assert said.out == (
        "3 match: open dead letters of order.*\n"
        "1 of them have arrived already, or may have: skipped, unless you add --even-if-sent\n"
        "2 would be requeued\n"
    )
    counts = [shown[name] for name in ("matching", "may_have_arrived", "cancelled", "would_skip", "would_affect")]
    assert counts == [3, 1, 0, 1, 2]
    assert "affected" not in shown
    assert generations(cli) == [0, 0, 0, 0]
    assert [row["kind"] for row in cli("operations", "list", "--json").rows] == ["cancel"]


def test_operation_leaves_out_what_was_cancelled_unless_asked_for(cli: Cli) -> None:
    given_letters(cli, "a")
    cancelled = str(cli.delivery("b"))
    cli("cancel", cancelled, "--reason", "not wanted")
    left_out = "1 more, which a person has cancelled, would be left out; to send them, "

    counted = [cli(*words, "--all", "--dry-run", *WHY).out for words in (("dead-letters", "requeue"), ("replay",))]
    replayed = cli("replay", "--all", "--yes", "--json", *WHY).json
    nothing = cli("dead-letters", "requeue", "--all", "--yes", *WHY)

    assert f"1 match: open dead letters\n{left_out}add --given-up-as cancelled\n1 would be requeued\n" == counted[0]
    assert f"{left_out}name their ids\n1 would be replayed\n" in counted[1]
    assert (replayed["affected"], replayed["skipped"]) == (1, 0)
    assert nothing.code == 0
    assert nothing.out.startswith(f"nothing matches: open dead letters\n{left_out}")
    assert cli("dead-letters", "requeue", "--given-up-as", "cancelled", "--yes", *WHY, "--json").json["affected"] == 1
    assert cli("deliveries", "show", "4", "--json").json["key"] == "b"


def test_operation_is_not_begun_where_nothing_matches(cli: Cli) -> None:
    said = cli("cancel", "--type", "order.*", "--yes", *WHY)
    shown = cli("replay", "--all", "--yes", "--json", *WHY).json

    assert (said.code, said.out) == (0, "nothing matches: waiting deliveries of order.*\nnothing was done\n")
    assert (shown["matching"], shown["would_affect"], shown["dry_run"]) == (0, 0, False)
    assert cli("operations", "list", "--json").rows == []


def test_requeue_by_filter_is_one_operation(cli: Cli) -> None:
    given_letters(cli, "a", "b")
    given_letters(cli, "c", type="memo.saved")

    said = cli("dead-letters", "requeue", "--type", "order.*", "--yes", *WHY, "--operator", "ada")

    assert said.out.splitlines()[-1] == "operation 1: 2 dead letters requeued"
    assert generations(cli) == [0, 0, 0, 1, 1]
    [row] = cli("operations", "list", "--json").rows
    assert (row["operator"], row["reason"], row["kind"], row["state"]) == ("ada", "receiver is back", "requeue", "done")
    assert (row["affected"], row["subject"]) == (2, "open dead letters of order.*")
    assert row["filter"] == {"type": "order.*"}


@pytest.mark.parametrize(("verb", "done"), [("attest", "attested"), ("discard", "discarded")])
def test_decision_by_filter_is_one_operation(cli: Cli, verb: str, done: str) -> None:
    given_letters(cli, "a", "b")
    given_letters(cli, "c", type="memo.saved")
    cli.publish("d", "--to", "null:a", type="order.paid")
    cli.attempt(Unknown("timeout"), policy=HOLDING)
    options = ("dead-letters", verb, "--type", "order.*")

    counted = cli(*options, "--dry-run", *WHY)
    said = cli(*options, "--yes", *WHY, "--operator", "ada")
    again = cli(*options, "--yes", *WHY, "--json").json

    assert counted.out == f"3 match: open dead letters of order.*\n3 would be {done}\n"
    assert said.out.splitlines()[-1] == f"operation 1: 3 dead letters {done}"
    assert (again["matching"], again["would_affect"]) == (0, 0)
    [row] = cli("operations", "list", "--json").rows
    assert (row["operator"], row["kind"], row["affected"], row["skipped"]) == ("ada", verb, 3, 0)
    assert [each["key"] for each in cli("dead-letters", "list", "--json").rows] == ["c"]
    assert generations(cli) == [0, 0, 0, 0, *([1, 1, 1] if verb == "attest" else [])]


def test_discard_by_filter_says_how_what_was_cancelled_is_closed_too(cli: Cli) -> None:
    cli("cancel", str(cli.delivery("a")), "--reason", "not wanted")

    nothing = cli("dead-letters", "discard", "--all", "--yes", *WHY)
    closed = cli("dead-letters", "discard", "--given-up-as", "cancelled", "--yes", "--json", *WHY).json

    assert "1 more, which a person has cancelled, would be left out; to close them, add --given-up-as cancelled" in (
        nothing.out
    )
    assert (closed["affected"], closed["state"]) == (1, "done")


def test_notification_id_is_of_one_dead_letter_and_not_of_a_filter(lite: Cli) -> None:
    said = lite("dead-letters", "attest", "--all", "--yes", "--notification-id", "n-1", *WHY)

    assert said.code == 2
    assert "--notification-id is the id of one message" in said.err


def test_replay_by_filter_skips_what_was_sent_unless_it_is_told_not_to(cli: Cli) -> None:
    cli.delivery("a")
    cli.attempt(Delivered("n"))

    careful = cli("replay", "--all", "--yes", *WHY)
    bold = cli("replay", "--destination", "null:a", "--since", "1h", "--yes", "--even-if-sent", *WHY, "--json").json

    assert "0 deliveries replayed, 1 skipped\nskipped is what may have arrived" in careful.out
    assert (bold["affected"], bold["skipped"], bold["state"]) == (1, 0, "done")


def test_cancel_by_filter_gives_up_what_waits(cli: Cli) -> None:
    cli.delivery("a", "null:a", "--tenant", "acme")
    cli.attempt(Failed("http_503"))
    cli.delivery("b", "null:a", "--tenant", "acme")
    cli.delivery("c")

    said = cli("cancel", "--tenant", "acme", "--yes", *WHY)

    assert said.out.splitlines()[-1] == "operation 1: 2 deliveries cancelled"
    assert cli("dead-letters", "list", "--json").rows == []
    letters = cli("dead-letters", "list", "--given-up-as", "cancelled", "--json").rows
    assert {each["reason"] for each in letters} == {"cancelled"}
    assert len(letters) == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "say which ones: ids, or a filter"),
        (["1", "--type", "order.*"], "give ids, or a filter; not both"),
        (["1", "--dry-run"], "--dry-run belongs to a filter"),
        (["--all", "--tenant", "acme"], "--all is without a filter"),
        (["--all"], "nobody can be asked here: count first with --dry-run, then add --yes"),
        (["--all", "--rate", "fast"], "is not a rate"),
        (["--type", "or*"], "'or*' is neither an event type nor a family like order.* or *"),
        (["--since", "1h", "--until", "2h"], "--until must be later than --since"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_sentence(lite: Cli, options: list[str], complaint: str) -> None:
    said = lite("dead-letters", "requeue", *options, *WHY)

    assert said.code == 2
    assert complaint in said.err


def test_reason_is_required(lite: Cli) -> None:
    assert "--reason" in lite("replay", "--all", "--yes").err


def test_operation_is_paused_and_resumed_from_another_terminal(cli: Cli) -> None:
    given_letters(cli, *(f"k{n}" for n in range(8)))
    options = ("dead-letters", "requeue", "--all", "--yes", "--rate", "4/s", *WHY)
    with Process("-m", "sendonce", *options, environment={"SENDONCE_DATABASE": cli.database}) as running:
        until(lambda: cli("operations", "list", "--json").rows, "the operation to have begun")
        paused = cli("operations", "pause", "1", "--operator", "bob", "--reason", "too fast")
        assert running.ended() == 1
    assert cli("operations", "pause", "1").code == 0, "and pausing it again is nothing"
    before = cli("operations", "show", "1", "--json").json
    assert "go on with: sendonce operations resume 1" in paused.out
    assert before["state"] == "paused"
    assert before["affected"] < 8

    done = cli("operations", "resume", "1", "--json").json

    assert (done["state"], done["affected"]) == ("done", 8)
    assert generations(cli).count(1) == 8
    log = [(row["kind"], row["operator"]) for row in cli("operations", "list", "--json").rows]
    assert log == [("resume", log[0][1]), ("pause", "bob"), ("requeue", log[2][1])]
    assert cli("operations", "resume", "1").err == "sendonce: operation 1 is done\n"


def test_operation_is_paused_by_an_interrupt(lite: Cli) -> None:
    given_letters(lite, *(f"k{n}" for n in range(6)))
    options = ("dead-letters", "requeue", "--all", "--yes", "--rate", "1/d", *WHY)
    with Process("-m", "sendonce", *options, environment={"SENDONCE_DATABASE": lite.database}) as running:
        until(lambda: any(row["affected"] for row in lite("operations", "list", "--json").rows), "a step")
        running.send(signal.SIGINT)
        assert running.ended() == 130
        assert running.count("operation 1 is paused; go on with: sendonce operations resume 1")
    assert lite("operations", "show", "1", "--json").json["state"] == "paused"


def test_cancelled_operation_goes_no_further(lite: Cli) -> None:
    given_letters(lite, "a")
    options = ("dead-letters", "requeue", "--all", "--yes", "--rate", "1/d", *WHY)
    given_letters(lite, "b")
    with Process("-m", "sendonce", *options, environment={"SENDONCE_DATABASE": lite.database}):
        until(lambda: any(row["affected"] for row in lite("operations", "list", "--json").rows), "a step")

    said = lite("operations", "cancel", "1", *WHY)

    assert said.out == "operation 1 is cancelled; what it has done stays\n"
    assert lite("operations", "resume", "1").err == "sendonce: operation 1 is cancelled\n"
    assert generations(lite).count(1) == 1


@pytest.mark.parametrize(("answer", "opened"), [("2", 2), ("y", 0), ("", 0)])
def test_operation_on_a_terminal_counts_asks_and_shows_a_bar(lite: Cli, answer: str, opened: int) -> None:
    given_letters(lite, "a", "b")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sendonce", "dead-letters", "requeue", "--all", *WHY, "--database", lite.database],
        stdin=theirs, stdout=theirs, stderr=theirs, env=clean_environment({"TERM": "xterm"}),
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    said = b""
    while True:
        try:
            said += (part := os.read(ours, 10_000))
        except OSError:  # a closed terminal cannot be read on Linux
            break
        if not part:
            break
    os.close(ours)
    assert process.wait(20) == (0 if opened else 1)

    text = re.sub(r"\x1b\[[0-9;]*[mK]", "", said.decode())
    assert "2 would be requeued" in text
    assert "type the number to go on [2]" in text
    assert ("100%  2 requeued" in text) == bool(opened)
    assert generations(lite).count(1) == opened


def test_log_says_who_did_what_when_and_why(cli: Cli) -> None:
    cli("stop", "--tenant", "acme", "--reason", "they asked", "--operator", "ada")

    table = cli("operations", "list").out
    shown = cli("operations", "show", "1").out

    for word in ("ada", "stop", "tenant acme", "they asked", "WHO", "WHY"):
        assert word in table
    assert "they asked" in shown
    assert "upper_id" not in shown
    assert cli("operations", "show", "99").err == "sendonce: there is no operation 99\n"
    assert cli("operations", "list", "--state", "running").out == "no operations match\n"
    bad = cli("operations", "list", "--state", "bad")
    assert (bad.code, bad.err.count("\n")) == (2, 1)
    assert "'bad' is none of running, paused, done, cancelled" in bad.err
