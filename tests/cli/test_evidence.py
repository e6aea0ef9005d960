"""sendonce evidence: what comes in later about what was sent, one by one or as a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from sendonce.admin.evidence import CHUNK
from sendonce.domain.outcomes import Delivered, Unknown
from sendonce.domain.policies import IfUnsure, Policy
from tests.cli.workbench import Cli

HOLDING = Policy(if_unsure=IfUnsure.HOLD)


def held(cli: Cli, *keys: str) -> list[str]:
    """Deliveries that may have been sent and wait for a person; their tokens."""
    ids = [cli.delivery(key) for key in keys]
    cli.attempt(Unknown("timeout"), policy=HOLDING)
    return [
        cli("explain", f"delivery:{each}", "--json").json["events"][0]["deliveries"][0]["known"]["token"]
        for each in ids
    ]


def counts(cli: Cli) -> dict[str, int]:
    status = cli("status", "--json").json
    rows = cli("deliveries", "list", "--json").rows
    return {"completed": sum(each["status"] == "Completed" for each in rows), "open letters": status["dead_letters"]}


def test_evidence_of_one_delivery_settles_it_and_explain_tells_so(cli: Cli) -> None:
    [token] = held(cli, "a")
    given = ["--token", token, "--outcome", "delivered", "--source", "bank file", "--notification-id", "n-1",
             "--occurred-at", "2026-01-31T12:00:00+00:00"]  # fmt: skip

    first, again = cli("evidence", "add", *given), cli("evidence", "add", *given)

    assert (first.code, again.code) == (0, 0)
    assert first.out.splitlines() == ["it settles a delivery", "look at it with: sendonce explain delivery:2"]
    assert again.out.splitlines()[0] == "it settles a delivery (it had come in before)"
    told = cli("explain", "delivery:2").out
    assert "as attested by" in told
    assert "bank file says that it was delivered" in told
    assert "evidence: " in told
    assert "bank file said Delivered, as of 2026-01-31" in told
    assert "that settled it" in told


def test_evidence_that_matches_nothing_is_said_and_exits_1(cli: Cli) -> None:
    ran = cli("evidence", "add", "--token", "0" * 40, "--outcome", "Delivered", "--source", "x")

    assert (ran.code, ran.out) == (1, "it matches no delivery that was looked at; nothing is written\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--token", "a", "--outcome", "perhaps", "--source", "x"], "the outcome of evidence is Delivered or Refused"),
        (["--outcome", "Delivered", "--source", "x"], "evidence needs a token or a notification id"),
        (["--token", "a", "--outcome", "Delivered", "--source", " "], "the source of evidence is a name"),
    ],
)
def test_evidence_that_says_nothing_sure_is_wrong_use(lite: Cli, arguments: list[str], sentence: str) -> None:
    ran = lite("evidence", "add", *arguments)

    assert ran.code == 2
    assert sentence in ran.err


def written(tmp_path: Path, rows: list[dict[str, Any]], name: str = "log.jsonl") -> str:
    path = tmp_path / name
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def test_file_settles_what_is_held_once(cli: Cli, tmp_path: Path) -> None:
    tokens = held(cli, "a", "b", "c")
    cli.delivery("d")
    cli.attempt(Delivered("n-4"))
    rows: list[dict[str, Any]] = [{"token": each, "outcome": "Delivered", "reference": f"r{each}"} for each in tokens]
    file = written(tmp_path, [*rows, {"token": "f" * 40, "outcome": "Delivered"}])

    dry = cli("evidence", "import", file, "--source", "log", "--dry-run")
    before = counts(cli)
    ran = cli("evidence", "import", file, "--source", "log")
    again = cli("evidence", "import", file, "--source", "log", "--json")

    assert dry.code == ran.code == again.code == 1  # a line that matches nothing
    assert dry.out.splitlines() == [
        "3 lines: each settles a delivery",
        "1 line: each matches no delivery that was looked at; nothing is written",
        "no delivery for line 4",
        "nothing was written: this was a dry run",
    ]
    assert before == {"completed": 1, "open letters": 3}
    assert ran.out.splitlines()[:1] == ["3 lines: each settles a delivery"]
    assert counts(cli) == {"completed": 4, "open letters": 0}
    assert json.loads(again.out)["repeated"] == 3
    assert counts(cli)["completed"] == 4


def test_csv_is_known_by_the_other_sides_id(cli: Cli, tmp_path: Path) -> None:
    cli.delivery("a")
    cli.attempt(Delivered("n-1"))
    path = tmp_path / "bank.csv"
    path.write_text("Notification_ID,outcome,error_code,ignored\nn-1,refused,no_funds,x\n\nn-1,delivered,,y\n")

    ran = cli("evidence", "import", str(path), "--source", "bank", "--match", "notification-id")

    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "1 line: each says what was known",
        "1 line: each contradicts what was known: a finding, and nothing is changed",
        "a contradiction in line 2",
    ]
    assert "contradiction" in cli("explain", "delivery:1").out


def test_bad_lines_are_named_and_nothing_is_written(cli: Cli, tmp_path: Path) -> None:
    tokens = held(cli, "a")
    path = tmp_path / "log.jsonl"
    good = json.dumps({"token": f"<{tokens[0].upper()}@shop.example>", "outcome": "Delivered"})
    path.write_text(f"{good}\nnot json\n[1]\n{{\"token\": \"x\", \"outcome\": \"Delivered\"}}\n"
                    f"{{\"token\": \"{tokens[0]}\"}}\n{{\"outcome\": \"Delivered\"}}\n"
                    f"{{\"token\": \"{tokens[0]}\", \"outcome\": \"Refused\", \"occurred_at\": \"today\"}}\n"
                    f"{{\"token\": true, \"outcome\": \"Refused\"}}\n")  # fmt: skip

    ran = cli("evidence", "import", str(path), "--source", "log")

    assert ran.code == 1
    assert ran.out.splitlines() == [
        "7 lines cannot be read, so nothing was written:",
        "line 2: it is not one JSON object on one line",
        "line 3: it is not one JSON object on one line",
        "line 4: its token is not 40 hexadecimal digits, alone or in a Message-ID",
        "line 5: the outcome of evidence is Delivered or Refused: it settles what is sure, and nothing else",
        "line 6: it has no token",
        "line 7: its occurred_at is no time like 2026-01-31T12:00:00+00:00",
        "line 8: its token is no text",
    ]
    assert counts(cli) == {"completed": 0, "open letters": 1}
    path.write_text(good + "\n")
    assert cli("evidence", "import", str(path), "--source", "log").code == 0


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        ("token,token\na,b\n", 2, "names its columns, each once"),
        ("a,b\n1,2\n", 2, "names its columns, each once"),
        ("", 2, "names its columns, each once"),
        ("token,outcome\n", 2, "there is no line of evidence in it"),
        ("token,outcome\nonly\n", 1, "line 2: it has not as many values as columns"),
        ('token,outcome\n"unclosed', 1, "it is not CSV"),
        ("token,outcome\na\x00b,Delivered\n", 1, "line"),
    ],
)
def test_csv_that_is_none_is_refused(lite: Cli, tmp_path: Path, text: str, code: int, sentence: str) -> None:
    path = tmp_path / "bank.csv"
    path.write_text(text)

    ran = lite("evidence", "import", str(path), "--source", "bank")

    assert ran.code == code
    assert sentence in ran.out + ran.err


def test_file_of_several_chunks_is_applied_whole(lite: Cli, tmp_path: Path) -> None:
    tokens = held(lite, "a", "b")
    rows = [{"token": f"{number:040x}", "outcome": "Delivered"} for number in range(CHUNK)]
    file = written(tmp_path, [{"token": tokens[0], "outcome": "Delivered"}, *rows,
                              {"token": tokens[1], "outcome": "Delivered"}])  # fmt: skip

    report = json.loads(lite("evidence", "import", file, "--source", "log", "--json").out)

    assert report["effects"] == {"settled": 2, "unmatched": CHUNK}
    assert report["lines"] == CHUNK + 2
