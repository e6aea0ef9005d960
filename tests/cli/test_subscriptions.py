import json
from datetime import timedelta

import pytest

from tests.cli.workbench import Cli


def test_subscription_is_added_as_it_is_kept(cli: Cli) -> None:
    row = cli(
        "subscriptions", "add", "--type", "order.*", "--type", "memo.saved", "--type", "order.*",
        "--to", "HTTPS://Hook.Example:443/x", "--tenant", "acme", "--policy", '{"max_attempts": 5}',
        "--description", "for the shop", "--rate", "90/m", "--json",
    ).json  # fmt: skip

    assert row["id"] == 1
    assert sorted(row["types"]) == ["memo.saved", "order.*"]
    assert (row["destination"], row["tenant"]) == ("https://hook.example/x", "acme")
    assert json.loads(row["policy"]) == {"max_attempts": 5}
    assert (row["state"], row["description"], row["rate"]) == ("active", "for the shop", 1.5)
    assert row.pop("secret").startswith("whsec_")
    assert cli("subscriptions", "list", "--tenant", "acme", "--json").rows == [row]
    assert cli("subscriptions", "list", "--tenant", "other", "--json").rows == []


def test_subscription_is_paused_resumed_and_removed_for_good(cli: Cli) -> None:
    added = cli("subscriptions", "add", "--type", "*", "--to", "null:a").out
    paused = cli("subscriptions", "pause", "1", "--reason", "they asked", "--json").json
    table = cli("subscriptions", "list").out
    resumed = cli("subscriptions", "resume", "1").out
    removed = cli("subscriptions", "remove", "1").out
    late = cli("subscriptions", "resume", "1")

    assert added == "subscription 1: * goes to null:a\n"
    assert (paused["state"], paused["state_reason"]) == ("paused", "they asked")
    assert table.splitlines()[1].split()[:4] == ["1", "paused", "*", "null:a"]
    assert (resumed, removed) == ("subscription 1 is active\n", "subscription 1 is removed\n")
    assert late.code == 1
    assert "subscription 1 was removed, which is for good" in late.err


def test_pause_a_second_time_is_no_error(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:a")
    cli("subscriptions", "pause", "1", "--reason", "first")

    again = cli("subscriptions", "pause", "1", "--reason", "second", "--json").json

    assert (again["state"], again["state_reason"]) == ("paused", "first")
    assert [row["kind"] for row in cli("operations", "list", "--json").rows] == ["pause", "add"]


def test_rate_is_set_shown_and_lifted(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:a", "--rate", "100/m")
    table = cli("subscriptions", "list").out
    faster = cli("subscriptions", "rate", "1", "10/s", "--reason", "they can take it").out
    lifted = cli("subscriptions", "rate", "1", "none", "--json").json

    assert [line.split()[4] for line in table.splitlines()] == ["RATE", "100/m"]
    assert faster == "subscription 1 is sent at most 10/s\n"
    assert lifted["rate"] is None


@pytest.mark.parametrize(
    "arguments", [("add", "--type", "*", "--to", "null:a", "--rate", "fast"), ("rate", "1", "fast")]
)
def test_rate_that_is_none_says_how_to_write_one(lite: Cli, arguments: tuple[str, ...]) -> None:
    wrong = lite("subscriptions", *arguments)

    assert wrong.code == 2
    assert "'fast' is not a rate; write 10/s, 100/m or 5000/h" in wrong.err


def test_subscription_shows_what_waits_for_it(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:a", "--rate", "1/s", "--description", "slow")
    for key in ("a", "b"):
        cli.publish(key)
    cli.ask(lambda store: store.start(1, 10, timedelta(seconds=30)))
    cli("subscriptions", "pause", "1", "--reason", "holiday")
    cli.publish("c")
    cli.ask(lambda store: store.start(1, 10, timedelta(seconds=30)))

    text = cli("subscriptions", "show", "1").out
    row = cli("subscriptions", "show", "1", "--json").json

    assert "1 delivery waits until it is resumed" in text
    assert "2 deliveries wait for its rate" in text
    assert [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("state_reason")] == ["holiday"]
    assert row["waiting"] == {"resume": 1, "rate": 2}
    assert (row["id"], row["description"], row["secrets"]) == (1, "slow", [])
    assert cli("subscriptions", "show", "7").err == "sendonce: there is no subscription 7\n"
