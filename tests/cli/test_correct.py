"""dead-letters correct: another address or other content for what was given up; and how explain tells it (M9)."""

import json

import pytest

from sendonce.compose import open_connection
from sendonce.domain.emails import Attachment, Email
from sendonce.domain.outcomes import Refused, Unknown
from sendonce.domain.policies import IfUnsure, Policy
from sendonce.outbox.outbox import Outbox
from tests.cli.workbench import Cli

WHY = ["--reason", "a typo", "--operator", "ada"]
HOLDING = Policy(if_unsure=IfUnsure.HOLD)
LETTER = Email(
    "ada@exmaple.com", subject="Saved", text="Your memo is saved.", reply_to="shop@example.com",
    headers={"X-Campaign": "7"}, attachments=[Attachment("memo.txt", b"memo")],
)  # fmt: skip


def given_bad_mail(cli: Cli) -> None:
    with open_connection(cli.database) as connection:
        Outbox().publish(connection, "memo.saved", {"memo": 1}, key="memo-1", to=LETTER)
    cli.attempt(Refused("smtp_550", "no such user"))


def content(cli: Cli, delivery_id: int) -> dict[str, object]:
    text = cli.ask(lambda store: store.content(delivery_id))
    assert text is not None
    parts: dict[str, object] = json.loads(text)
    return parts


def test_M9_mail_goes_to_the_right_address_with_its_content(cli: Cli) -> None:
    given_bad_mail(cli)

    said = cli("dead-letters", "correct", "1", "--to", "mailto:ada@example.com", *WHY)

    assert said.out == "delivery 1 is corrected: delivery 2 goes to mailto:ada@example.com\n"
    new = cli("deliveries", "show", "2", "--json").json
    assert (new["status"], new["key"], new["corrections"], new["generation"]) == ("Pending", "memo-1", 1, 0)
    assert content(cli, 2) == content(cli, 1)
    assert cli("dead-letters", "show", "1", "--json").json["closed_as"] == "corrected"


def test_M9_only_the_parts_of_a_mail_that_are_named_change(cli: Cli) -> None:
    given_bad_mail(cli)

    done = cli("dead-letters", "correct", "1", "--subject", "Your memo", *WHY, "--json").json

    assert done == {
        "old_delivery_id": 1,
        "delivery_id": 2,
        "destination": "mailto:ada@exmaple.com",
        "may_repeat": False,
    }
    assert content(cli, 2) == content(cli, 1) | {"subject": "Your memo"}
    assert content(cli, 1)["subject"] == "Saved"


def test_payload_is_corrected(cli: Cli) -> None:
    cli.delivery("k", "https://runner.example/hook", "--payload", '{"memo": 1}')
    cli.attempt(Refused("http_422"))

    cli("dead-letters", "correct", "1", "--payload", '{"memo": 2}', "--to", "https://runner.example/v2", *WHY)

    assert content(cli, 2) == {"memo": 2}
    assert cli("events", "show", "1", "--json").json["key"] == "k"


def test_M9_both_tell_the_whole_story(cli: Cli) -> None:
    given_bad_mail(cli)
    cli("dead-letters", "correct", "1", "--to", "mailto:ada@example.com", *WHY)

    old, new = (cli("explain", f"delivery:{number}").out for number in (1, 2))

    assert "smtp_550: no such user" in old
    assert "its dead letter 1 was corrected by ada" in old
    assert "by ada (a typo): delivery 2 goes instead, to mailto:ada@example.com\n" in old
    assert "see what goes instead with: sendonce explain delivery:2\n" in old
    assert "by ada (a typo): it goes instead of delivery 1 to mailto:ada@exmaple.com" in new
    assert "the 1st attempt has been due" in new
    assert old.splitlines()[-1] != new.splitlines()[-1], "the token is a new one"


def test_correction_is_shown_before_it_is_made(lite: Cli) -> None:
    given_bad_mail(lite)

    assert (
        "correct it with: sendonce dead-letters correct 1 --to URI --reason TEXT" in lite("explain", "delivery:1").out
    )


def test_correction_of_content_is_told_as_such(lite: Cli) -> None:
    given_bad_mail(lite)
    lite("dead-letters", "correct", "1", "--text", "Hello", *WHY)

    assert "delivery 2 goes instead, with other content" in lite("explain", "delivery:1").out
    assert "it goes instead of delivery 1, with other content" in lite("explain", "delivery:2").out


def test_dead_letter_in_doubt_is_corrected_only_with_even_if_sent(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Unknown("timeout"), policy=HOLDING)

    refused = cli("dead-letters", "correct", "1", "--to", "null:b", *WHY)
    done = cli("dead-letters", "correct", "1", "--to", "null:b", *WHY, "--even-if-sent", "--json").json

    assert refused.code == 1
    assert "may have been sent already" in refused.err
    assert done["may_repeat"] is True
    assert cli("deliveries", "show", "2", "--json").json["in_doubt"] is False


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        ([], 2, "say what is corrected"),
        (["--text", "x", "--payload", "{}"], 2, "make an e-mail"),
        (["--payload", "{}"], 2, "an e-mail's content is its subject, text and html"),
        (["--to", "https://runner.example/", "--text", "x"], 2, "subject, text and html belong to an e-mail"),
        (["--to", "https://runner.example/"], 1, "its content was made for mailto; give the content for https too"),
        (["--to", "mailto:ada@exmaple.com"], 1, "nothing would change"),
        (["--to", "nowhere"], 2, "has no channel"),
        (["--subject", "a\nb"], 2, "must be one line"),
        (["--text", "", "--html", ""], 2, "needs text or html"),
    ],
)
def test_correction_that_is_impossible_is_refused_in_a_sentence(
    lite: Cli, options: list[str], code: int, complaint: str
) -> None:
    given_bad_mail(lite)

    said = lite("dead-letters", "correct", "1", *options, *WHY)

    assert (said.code, complaint in said.err) == (code, True), said.err
    assert len(lite("deliveries", "list", "--json").rows) == 1


def test_dead_letter_that_is_not_there(lite: Cli) -> None:
    assert "there is no dead letter 7" in lite("dead-letters", "correct", "7", "--to", "null:b", *WHY).err
