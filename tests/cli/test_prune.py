"""sendonce prune and sendonce erase, as a person uses them."""

import gzip
import json
from pathlib import Path

import pytest

from sendonce.domain.outcomes import Delivered
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from tests.cli.workbench import Cli

WHY = ("--reason", "test")
AT_ONCE = ("--payloads", "0s", "--history", "0s", "--keys", "0s")


@pytest.fixture
def finished(cli: Cli) -> Cli:
    """Three events that were delivered to a and b."""
    for key in ("k1", "k2", "k3"):
        cli.publish(key, "--to", "null:a", "--to", "null:b", "--payload", '{"name": "Ada"}', "--subject", "ada")
    cli.attempt(Delivered("n", response="thanks, Ada"))
    return cli


def events(cli: Cli) -> int:
    async def read(store: Store) -> int:
        return len(await store.events(Filter()))

    return cli.ask(read)


def test_M13_prune_says_what_has_gone(finished: Cli) -> None:
    ran = finished("prune", *AT_ONCE, *WHY, "--yes")

    assert ran.code == 0
    assert "3 events deleted, with their keys" in ran.out
    assert "6 deliveries deleted, with their attempts" in ran.out
    assert events(finished) == 0
    [row] = finished("operations", "list", "--json").rows
    assert (row["kind"], row["subject"]) == ("prune", "payloads 0s, history 0s, keys 0s")


def test_M13_by_default_prune_keeps_what_the_workers_keep(finished: Cli, tmp_path: Path) -> None:
    assert finished("prune", *WHY, "--yes", "--json").json["events"] == 0

    settings = tmp_path / "own.toml"
    settings.write_text('[retention]\npayloads = "0s"\nhistory = "0s"\nkeys = "1d"\n')
    ran = finished("prune", "--config", str(settings), *WHY, "--yes", "--json")

    assert (ran.json["contents"], ran.json["deliveries"], ran.json["events"]) == (3, 6, 0)


def test_dry_run_counts_and_removes_nothing(finished: Cli) -> None:
    ran = finished("prune", "--dry-run", *AT_ONCE, *WHY, "--json")

    assert (ran.json["contents"], ran.json["events"], ran.json["dry_run"]) == (3, 3, True)
    assert events(finished) == 3


@pytest.mark.parametrize("name", ["old.jsonl", "old.jsonl.gz"])
def test_M13_archive_is_json_lines_that_can_be_read_back(finished: Cli, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    ran = finished("prune", *AT_ONCE, "--archive", str(path), *WHY, "--yes", "--json")

    raw = path.read_bytes()
    lines = [json.loads(line) for line in (gzip.decompress(raw) if name.endswith(".gz") else raw).splitlines()]
    assert ran.json["archived"] == len(lines) == 6
    blanked, gone = lines[:3], lines[3:]
    assert {line["event"]["payload"] for line in blanked} == {'{"name":"Ada"}'}
    assert [line["event"]["key"] for line in gone] == ["k1", "k2", "k3"]
    assert [each["attempts"][0]["outcome"] for each in gone[0]["deliveries"]] == ["Delivered", "Delivered"]
    assert path.stat().st_mode & 0o077 == 0


def test_archive_that_is_there_is_not_touched(finished: Cli, tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text("mine\n")

    ran = finished("prune", *AT_ONCE, "--archive", str(path), *WHY, "--yes")

    assert (ran.code, path.read_text()) == (1, "mine\n")
    assert "is there already" in ran.err
    assert events(finished) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--keys", "1d"), "keys"),
        (("--payloads", "soon"), "not a duration"),
        (("--dry-run", "--archive", "x"), "a dry run archives nothing"),
        (AT_ONCE, "nobody can be asked here: count first with --dry-run, then add --yes"),
    ],
)
def test_prune_used_wrongly_is_told_in_a_sentence(finished: Cli, words: tuple[str, ...], said: str) -> None:
    ran = finished("prune", *words, *WHY)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert events(finished) == 3


def test_erase_asks_for_yes_first(finished: Cli) -> None:
    ran = finished("erase", "--subject", "ada", *WHY)

    assert ran.code == 1
    assert "3 events: 3 payloads and 0 contents of their own would be blanked" in ran.out
    assert "add --yes" in ran.err
    assert "Ada" in finished("events", "show", "1", "--payload").out


def test_erase_blanks_and_says_what_is_kept(finished: Cli) -> None:
    ran = finished("erase", "--destination", "null:a", "--yes", *WHY)
    assert ran.code == 0
    assert "3 payloads kept" in ran.err

    ran = finished("erase", "--destination", "null:a", "--shared", "--yes", *WHY, "--json")

    assert (ran.json["erased"]["payloads"], ran.json["erased"]["kept"]) == (3, 0)
    assert "no longer kept" in finished("events", "show", "1", "--payload").out
    told = finished("explain", "k1").out
    assert "its content was removed" in told
    assert "thanks" in told  # to null:b, who has not asked


def test_erase_reports_what_is_being_sent(cli: Cli) -> None:
    cli.delivery("k", "null:a")
    cli.claim()

    ran = cli("erase", "--destination", "null:a", "--yes", *WHY)

    assert ran.code == 1
    assert "run it again" in ran.err


def test_subject_that_was_erased_is_found_by_nobody(finished: Cli) -> None:
    assert finished("erase", "--subject", "ada", "--yes", *WHY, "--json").json["erased"]["events"] == 3

    again = finished("erase", "--subject", "ada", "--yes", *WHY)
    assert (again.code, again.out, again.err) == (1, "", "sendonce: nothing was found\n")
    assert "ada" not in finished("events", "show", "1").out


def test_erase_that_finds_nothing_says_how_to_write_an_address(cli: Cli) -> None:
    cli.delivery("k", "mailto:ada@example.com")

    ran = cli("erase", "--destination", "mailto:ADA@example.com", "--yes", *WHY)

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "sendonce: nothing was found; the part before @ must be written as it was recorded\n"
    assert cli("operations", "list", "--json").rows == []
