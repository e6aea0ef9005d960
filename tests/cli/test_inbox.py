"""sendonce inbox, and what explain, status, doctor and verify say of messages that came in."""

from pathlib import Path

import pytest

from sendonce.config.load import load_retention
from sendonce.errors import ConfigError
from tests.cli.workbench import Cli
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.store.messages import given_message, given_receipt

WHY = ("--reason", "the wallet is there now", "--operator", "ada")


@pytest.fixture
def database(cli: Cli) -> Database:
    """The command line's database, to be written into past it."""
    if cli.database.startswith("sqlite"):
        return SqliteDatabase(Path(cli.database.removeprefix("sqlite:///")))
    return PostgresDatabase(cli.database)


def test_inbox_is_listed_and_shown(cli: Cli, database: Database) -> None:
    row_id = given_message(database, "payment-7")
    given_message(database, "payment-8", status="PendingRetry", consumer="mailer")
    given_receipt(database, "payment-7", consumer="mailer", seen=0)

    listed, dead = cli("inbox", "list"), cli("inbox", "list", "--dead")
    shown = cli("inbox", "show", str(row_id))

    assert "payment-7" in listed.out
    assert "PendingRetry" in listed.out
    assert "payment-8" not in dead.out
    assert "exhausted" in dead.out
    assert "wallet.py line 7" in shown.out
    assert "handled by mailer, and 1 duplicates were recognised" in shown.out
    assert cli("inbox", "list", "--consumer", "nobody").out == "no messages match\n"
    assert [each["message_id"] for each in cli("inbox", "list", "--limit", "1", "--json").rows] == ["payment-8"]
    assert cli("inbox", "show", str(row_id), "--json").json["tries"][0]["outcome"] == "Failed"


def test_inbox_is_retried_discarded_and_erased(cli: Cli, database: Database) -> None:
    first, second = given_message(database, "payment-7"), given_message(database, "payment-8")

    retried = cli("inbox", "retry", str(first), *WHY)
    discarded = cli("inbox", "discard", str(second), *WHY)
    erased = cli("inbox", "erase", "payment-8", *WHY)

    assert retried.out == f"message {first} is handled again, as message {second + 1}\n"
    assert discarded.out == f"message {second} is discarded\n"
    assert "'payment-8' is erased" in erased.out
    again = cli("inbox", "retry", str(first), *WHY)
    assert (again.code, again.err) == (1, f"sendonce: message {first} was retried by ada before\n")
    assert [row["operator"] for row in database.rows("operations")] == ["ada"] * 3


def test_explain_tells_what_became_of_a_message(cli: Cli, database: Database) -> None:
    row_id = given_message(database, "payment-7")
    given_receipt(database, "payment-7", consumer="mailer", seen=0)

    said = cli("explain", "message:payment-7").out

    assert "mailer has handled message 'payment-7'" in said
    assert "it came again 1 time" in said
    assert f"sendonce inbox retry {row_id} --reason TEXT" in said
    assert cli("explain", "payment-7").out == said
    told = cli("explain", "message:payment-7", "--json").json
    assert [each["verb"] for each in told["advice"]] == ["retry_messages"]
    assert "; ".join([*told["sentences"][-1:], "try it again with"]) in said
    assert cli("explain", "message:other").code == 1


def test_status_doctor_and_verify_know_of_the_inbox(cli: Cli, database: Database) -> None:
    assert "messages" not in cli("status").out
    assert "no message that came in is late or waits for a person" in cli("doctor").out
    given_message(database, "payment-7")
    assert "1 message that came in were given up" in cli("doctor").out
    given_message(database, "payment-8", status="PendingRetry", age=3600)
    given_message(database, "payment-9", status="Completed")

    assert "messages wait or are being handled" in cli("status").out
    assert "has been due for" in cli("doctor").out
    found = cli("verify")
    assert found.code != 0
    assert "its consumer has no receipt for it" in found.out + found.err
    given_receipt(database, "payment-9")
    assert cli("verify").code == 0


def settings(folder: Path, text: str) -> Path:
    path = folder / "sendonce.toml"
    path.write_text(text)
    return path


def test_settings_refuse_a_window_shorter_than_what_the_sender_keeps(tmp_path: Path) -> None:
    path = settings(tmp_path, '[inbox]\nkeep = "7d"\nsender_keeps = "30d"\n')

    with pytest.raises(ConfigError, match=r"\[inbox\] keep must be at least 30d \(sender_keeps\), not 7d"):
        load_retention(path, {})


def test_settings_say_how_long_a_message_is_known(tmp_path: Path) -> None:
    kept = load_retention(settings(tmp_path, '[inbox]\nkeep = "never"\nsender_keeps = "900d"\n'), {})

    assert kept.inbox.keep is None
    assert load_retention(None, {"SENDONCE_INBOX_KEEP": "100d"}).inbox.keep is not None
