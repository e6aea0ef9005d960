import json

from tests.cli.workbench import Cli


def test_a_subscription_is_added_as_it_is_kept(cli: Cli) -> None:
    row = cli(
        "subscriptions", "add", "--type", "order.*", "--type", "memo.saved", "--type", "order.*",
        "--to", "HTTPS://Hook.Example:443/x", "--tenant", "acme", "--policy", '{"max_attempts": 5}',
        "--description", "for the shop", "--json",
    ).json  # fmt: skip

    assert row["id"] == 1
    assert sorted(row["types"]) == ["memo.saved", "order.*"]
    assert (row["destination"], row["tenant"]) == ("https://hook.example/x", "acme")
    assert json.loads(row["policy"]) == {"max_attempts": 5}
    assert (row["state"], row["description"]) == ("active", "for the shop")
    assert cli("subscriptions", "list", "--tenant", "acme", "--json").json == [row]
    assert cli("subscriptions", "list", "--tenant", "other", "--json").json == []


def test_a_subscription_is_paused_resumed_and_removed_for_good(cli: Cli) -> None:
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


def test_pausing_twice_is_no_error(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:a")
    cli("subscriptions", "pause", "1", "--reason", "first")

    again = cli("subscriptions", "pause", "1", "--reason", "second", "--json").json

    assert (again["state"], again["state_reason"]) == ("paused", "first")
