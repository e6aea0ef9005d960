"""sendonce subscriptions policy, types and test."""

import json

import pytest

from tests.cli.workbench import Cli


def test_policy_is_changed_and_taken_back(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:a", "--policy", '{"max_attempts": 5}')

    said = cli("subscriptions", "policy", "1", '{"timeout": "2s", "max_attempts": 3}', "--reason", "slow").out
    none = cli("subscriptions", "policy", "1", "none")
    row = cli("subscriptions", "show", "1", "--json").json

    assert said == 'subscription 1 has the policy {"max_attempts": 3, "timeout": "2s"}\n'
    assert none.out == "subscription 1 has no policy of its own\n"
    assert row["policy"] is None


def test_types_are_changed(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:a")

    said = cli("subscriptions", "types", "1", "order.*", "memo.saved").out

    assert said == "subscription 1 gets memo.saved, order.* from now on\n"
    assert cli.publish("a", type="invoice.sent")["deliveries"] == []


def test_test_event_is_sent_to_one(cli: Cli) -> None:
    for _ in range(2):
        cli("subscriptions", "add", "--type", "*", "--to", "null:a")

    said = cli("subscriptions", "test", "2").out
    row = cli("subscriptions", "test", "2", "--json").json

    assert said.startswith("delivery 1 of a test event goes to subscription 2\n")
    assert (row["type"], row["destination"], row["status"]) == ("sendonce.test", "subscription:2", "Pending")
    payload = json.loads(cli("events", "show", str(row["event_id"]), "--payload", "--json").json["payload"])
    assert payload == {"test": True, "subscription_id": 2}


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("policy", "1", '{"max_attempts": 0}'), 2, "max_attempts must be between 1 and 10000, not 0"),
        (("policy", "1", "5"), 2, "a policy must be a JSON object"),
        (("types", "1", "Order Paid"), 2, "a subscription listens to a type, a family like order.* or *"),
        (("policy", "1", "{}"), 1, "there is no subscription 1"),
        (("types", "1", "*"), 1, "there is no subscription 1"),
        (("test", "1"), 1, "there is no subscription 1"),
    ],
)
def test_subscription_options_that_are_wrong_are_refused_in_a_sentence(
    lite: Cli, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    ran = lite("subscriptions", *arguments)

    assert ran.code == code
    assert sentence in ran.err
