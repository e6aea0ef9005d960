import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.workbench import Cli, run


def test_event_is_recorded_with_its_deliveries(cli: Cli) -> None:
    said = cli("publish", "memo.saved", "--key", "m/1", "--to", "mailto:Ada@Example.COM", "--to", "null:b").out
    answer = cli.publish("m/2", "--to", "mailto:Ada@Example.COM", "--payload", '{"a": 1}')

    assert said == "event 1 is recorded, with 2 deliveries\n"
    assert answer["new"] is True
    assert answer["deliveries"] == [
        {"id": 3, "destination": "mailto:Ada@example.com", "generation": 0, "status": "Pending"}
    ]
    shown = cli("events", "show", str(answer["event_id"]), "--payload", "--json").json
    assert json.loads(shown["payload"]) == {"a": 1}


def test_key_published_again_adds_nothing(cli: Cli) -> None:
    first = cli.publish("k", "--to", "null:a")
    again = cli.publish("k", "--to", "null:a")
    said = cli("publish", "memo.saved", "--key", "k", "--to", "null:a").out

    assert again == {**first, "new": False}
    assert said == "event 1 was recorded with this key before; nothing was added\n"


def test_key_reused_with_other_content_is_refused_unless_the_first_is_kept(cli: Cli) -> None:
    first = cli.publish("k", "--payload", "1")

    refused = cli("publish", "memo.saved", "--key", "k", "--subscriptions-only", "--payload", "2")
    kept = cli.publish("k", "--payload", "2", "--if-different", "keep_first")

    assert refused.code == 1
    assert "the key 'k' of memo.saved was used before, for different content" in refused.err
    assert kept == {**first, "new": False}


def test_option_is_kept(cli: Cli) -> None:
    options = ["--tenant", "acme", "--subject", "memo 7", "--version", "0", "--if-unsure", "hold", "--expires-at", "3h"]
    before = datetime.now(UTC)
    answer = cli.publish("k", "--to", "null:a", "--deliver-at", "2h", *options)

    event = cli("events", "show", str(answer["event_id"]), "--json").json
    delivery = event["deliveries"][0]
    assert [event[name] for name in ("tenant", "subject", "version", "key")] == ["acme", "memo 7", 0, "k"]
    assert delivery["if_unsure"] == "hold"
    due = datetime.fromisoformat(delivery["next_attempt_at"])
    assert timedelta(hours=2) <= due - before < timedelta(hours=2, minutes=1)
    assert datetime.fromisoformat(delivery["expires_at"]) - due == pytest.approx(
        timedelta(hours=1), abs=timedelta(seconds=1)
    )


def test_deadline_before_the_start_is_refused_and_nothing_is_written(cli: Cli) -> None:
    ran = cli("publish", "memo.saved", "--key", "k", "--subscriptions-only", "--deliver-at", "2h", "--expires-at", "1h")

    assert ran.code == 1
    assert "expires_at must be later than deliver_at" in ran.err
    assert cli("events", "list", "--json").rows == []


def test_payload_comes_from_a_file_or_from_standard_input(lite: Cli, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_bytes(b'\xef\xbb\xbf{"from": "file"}')
    publish = ["publish", "memo.saved", "--database", lite.database]

    lite.publish("file", "--payload-file", str(tmp_path / "payload.json"))
    for key, option in (("1", "--payload"), ("2", "--payload-file")):
        assert run(*publish, "--key", key, "--to", "null:a", option, "-", stdin=b'{"from": "stdin"}').code == 0

    payloads = [lite("events", "show", str(number), "--payload", "--json").json["payload"] for number in (1, 2, 3)]
    assert payloads == ['{"from":"file"}', '{"from":"stdin"}', '{"from":"stdin"}']


def test_payload_that_is_no_json_is_not_repeated(lite: Cli) -> None:
    ran = run(
        "publish",
        "a.b",
        "--key",
        "k",
        "--subscriptions-only",
        "--payload",
        "-",
        "--database",
        lite.database,
        stdin=b'{"card": 4111',
    )
    odd = run(
        "publish",
        "a.b",
        "--key",
        "k",
        "--subscriptions-only",
        "--payload",
        "-",
        "--database",
        lite.database,
        stdin=b"\xff",
    )

    assert (ran.code, odd.code) == (2, 2)
    assert ran.err == "sendonce: standard input is not JSON (line 1, column 14)\n"
    assert odd.err == "sendonce: standard input is not UTF-8 text\n"


def test_values_that_json_has_no_word_for_are_refused(lite: Cli) -> None:
    ran = lite("publish", "a.b", "--key", "k", "--subscriptions-only", "--payload", "NaN")

    assert ran.code == 1
    assert "the payload is not JSON" in ran.err


def test_subscriptions_that_match_get_a_delivery(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "memo.*", "--to", "https://hook.example")

    answer = cli.publish("k")

    assert [each["destination"] for each in answer["deliveries"]] == ["subscription:1"]
