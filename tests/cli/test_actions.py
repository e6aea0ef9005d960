"""requeue, replay, cancel, discard, stop and resume."""

import getpass

import pytest

from sendonce.domain.outcomes import Delivered, Refused, Unknown
from sendonce.domain.policies import IfUnsure, Policy
from tests.cli.workbench import Cli

WHY = ["--reason", "it was a mistake"]
HOLDING = Policy(if_unsure=IfUnsure.HOLD)


def test_dead_letter_is_requeued_as_the_next_generation(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Refused("http_410"))

    said = cli("dead-letters", "requeue", "1", *WHY)

    assert said.out == "delivery 1 is sent again as delivery 2 to null:a\n"
    new = cli("deliveries", "show", "2", "--json").json
    assert (new["generation"], new["status"], new["attempt_count"]) == (1, "Pending", 0)
    assert cli("deliveries", "show", "1", "--json").json["status"] == "DeadLettered"
    assert cli("dead-letters", "list", "--json").rows == []


def test_requeue_a_second_time_is_refused_with_who_did_it(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Refused("http_410"))
    cli("dead-letters", "requeue", "1", *WHY, "--operator", "ada")

    again = cli("dead-letters", "requeue", "1", *WHY)

    assert again.code == 1
    assert "dead letter 1 was requeued by ada on 20" in again.err


def test_dead_letter_that_cannot_be_requeued_leaves_all_as_they_are(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Refused("http_410"))

    assert cli("dead-letters", "requeue", "1", "99", *WHY).code == 1

    assert len(cli("deliveries", "list", "--json").rows) == 1
    assert len(cli("dead-letters", "list", "--json").rows) == 1


def test_dead_letter_in_doubt_is_requeued_only_with_even_if_sent(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Unknown("timeout", "no answer"), policy=HOLDING)

    refused = cli("dead-letters", "requeue", "1", *WHY)
    reopened = cli("dead-letters", "requeue", "1", *WHY, "--even-if-sent", "--json").json

    assert refused.code == 1
    assert "dead letter 1 may have been sent already" in refused.err
    assert "--even-if-sent" in refused.err
    assert reopened == [{"old_delivery_id": 1, "delivery_id": 2, "destination": "null:a", "may_repeat": True}]


def test_dead_letters_are_requeued_in_the_order_given(cli: Cli) -> None:
    for key in "abc":
        cli.delivery(key, f"null:{key}")
    cli.attempt(Refused("http_410"))
    letters = {row["destination"]: str(row["id"]) for row in cli("dead-letters", "list", "--json").rows}

    order = ["null:c", "null:a", "null:b", "null:c"]
    reopened = cli("dead-letters", "requeue", *(letters[each] for each in order), *WHY, "--json").json

    assert [each["destination"] for each in reopened] == order[:3]
    for each in reopened:
        assert cli("deliveries", "show", str(each["delivery_id"]), "--json").json["destination"] == each["destination"]


def test_completed_delivery_is_replayed_only_when_said_so(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Delivered("n-1"))

    refused = cli("replay", "1", *WHY)
    replayed = cli("replay", "1", *WHY, "--even-if-sent")
    again = cli("replay", "1", *WHY, "--even-if-sent")

    assert (refused.code, replayed.code, again.code) == (1, 0, 1)
    assert "delivery 1 was sent" in refused.err
    assert replayed.out.startswith("delivery 1 is sent again as delivery 2 to null:a; it may arrive twice")
    assert "newer generation" in again.err


def test_open_delivery_is_not_replayed(cli: Cli) -> None:
    cli.delivery("k")

    ran = cli("replay", "1", *WHY)

    assert ran.code == 1
    assert "delivery 1 is Pending; only a finished one can be replayed" in ran.err


def test_cancel_takes_what_waits_and_names_the_rest(cli: Cli) -> None:
    cli.delivery("a")
    cli.attempt(Delivered())
    cli.delivery("b")
    cli.claim()
    cli.delivery("c")

    ran = cli("cancel", "1", "2", "3", "99", *WHY)

    assert ran.code == 1
    assert ran.out == "delivery 3 is cancelled\n"
    assert ran.err.splitlines() == [
        "sendonce: delivery 1 is Completed already and stays so",
        "sendonce: delivery 2 is being sent now; see what comes of it first",
        "sendonce: there is no delivery 99",
    ]
    assert cli("dead-letters", "show", "1", "--json").json["reason"] == "cancelled"


def test_cancel_of_what_may_have_been_sent_says_so(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Unknown("timeout"), can_look_up=True)

    ran = cli("cancel", "1", *WHY)

    assert (ran.code, ran.out) == (0, "delivery 1 is cancelled; it may have been sent before\n")


def test_dead_letter_is_discarded_once(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Refused("http_410"))

    assert cli("dead-letters", "discard", "1", *WHY, "--operator", "ada").out == "dead letter 1 is discarded\n"

    letter = cli("dead-letters", "show", "1", "--json").json
    assert (letter["closed_as"], letter["closed_by"]) == ("discarded", "ada")
    assert "was discarded by ada" in cli("dead-letters", "discard", "1", *WHY).err


@pytest.mark.parametrize(
    ("scope", "spelled"),
    [
        (["--all"], "--all"),
        (["--channel", "MAILTO:"], "--channel mailto"),
        (["--destination", "mailto:Ada@EXAMPLE.com"], "--destination mailto:Ada@example.com"),
        (["--destination", "subscription:42"], "--destination subscription:42"),
        (["--tenant", "it's acme"], "--tenant 'it'\"'\"'s acme'"),
        (["--tenant", ""], "--tenant ''"),
    ],
)
def test_stop_holds_back_sends_until_resume(cli: Cli, scope: list[str], spelled: str) -> None:
    stopped = cli("stop", *scope, "--reason", "outage")
    again = cli("stop", *scope)
    status = cli("status").out
    resumed = cli("resume", *scope)

    assert stopped.out == f"stopped: nothing is sent for {spelled} from now on\ngo on with: sendonce resume {spelled}\n"
    assert again.out.startswith(f"{spelled} was stopped already")
    assert f"stopped       {spelled} since" in status
    assert "(outage)" in status
    assert (resumed.code, resumed.out) == (0, f"resumed: {spelled} is sent again\n")
    assert cli("resume", *scope).code == 1
    assert cli("status", "--json").json["stops"] == []


def test_resume_names_the_stops(cli: Cli) -> None:
    cli("stop", "--channel", "mailto")

    assert "--all is not stopped; stopped are: --channel mailto" in cli("resume", "--all").err


def test_operator_is_named_by_option_setting_or_user(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("stop", "--all")
    monkeypatch.setenv("SENDONCE_OPERATOR", "grace")
    cli("stop", "--tenant", "a")
    cli("stop", "--tenant", "b", "--operator", "ada")

    stops = cli("status", "--json").json["stops"]
    operators = {(row["scope"], row["value"]): row["operator"] for row in stops}
    assert operators["all", ""].startswith(f"{getpass.getuser()}@")
    assert operators["tenant", "a"] == "grace"
    assert operators["tenant", "b"] == "ada"
