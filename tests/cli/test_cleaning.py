"""Everything from outside is cleaned where it is printed: no command lets it steer a terminal or forge a line."""

import argparse
import asyncio
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from sendonce import Admin
from sendonce.cli.parser import Parser, every_verb
from tests.admin.planted import OPERATOR, planted
from tests.cli.workbench import Cli, Ran
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

# An escape sequence, C1 controls, overrides of the direction, and whatever ends a line; then a line of its own.
NASTY = "\x1b]0;x\x07\x9b31m\u200f\u202e\u2066\u2028\x85\x0b\r\nforged"
STEERING = {each for each in NASTY if not each.isprintable() and each != "\n"}
# A document, in which texts are escaped: they come out of it after it has been read.
DOCUMENTS = {"headers"}
# What came from outside, or what a person has said.
FROM_OUTSIDE = {
    "sendonce_events": {"type", "key", "subject", "tenant", "headers"},
    "sendonce_deliveries": {"destination", "parked_on", "notification_id", "final_error_code"},
    "sendonce_attempts": {"error_code", "error_message", "notification_id", "response"},
    "sendonce_dead_letters": {"error_code", "error_message", "closed_by"},
    "sendonce_requests": {"subject", "tenant", "type"},
    "sendonce_subscriptions": {"tenant", "destination", "description", "state_reason"},
    "sendonce_operations": {"operator", "reason", "subject"},
    "sendonce_stops": {"value", "operator", "reason"},
    "sendonce_findings": {"notification_id", "details"},
    "sendonce_evidence": {"source", "reference", "details", "operator"},
    "sendonce_workers": {"name", "version"},
    "sendonce_breakers": {"error_code"},
    "sendonce_alerts": {"name", "message"},
    "sendonce_messages": {"consumer", "message_id", "source", "error_code", "error_message", "headers"},
    "sendonce_tries": {"error_message"},
    "sendonce_receipts": {"consumer", "message_id", "result"},
}
WHY = ("--reason", NASTY, "--operator", NASTY)
# The first ones belong to one tenant; each of the others has come to another end.
IDS = tuple(str(each) for each in range(1, 30))
FEW = ("1", "2", "5", "6", "8")
# How a command is run on what was planted; what is not here is run only with arguments that are wrong.
LOOKS: dict[str, list[tuple[str, ...]]] = {
    "status": [()],
    "events list": [(), ("--limit", "1")],
    "events show": [(each,) for each in FEW],
    "deliveries list": [(), ("--status", "DeadLettered")],
    "deliveries show": [(each,) for each in (*FEW, "14", "19")],
    "requests list": [()],
    "requests show": [(each,) for each in ("1", "2")],
    "requests wait": [(each, "--timeout", "0s") for each in ("1", "2")],
    "explain": [(each,) for each in (*(f"delivery:{each}" for each in IDS), f"planted-message{NASTY}")],
    "dead-letters list": [()],
    "dead-letters summary": [()],
    "dead-letters show": [(each,) for each in FEW],
    "inbox list": [()],
    "inbox show": [("1",)],
    "operations list": [()],
    "operations show": [(each,) for each in FEW],
    "subscriptions list": [()],
    "subscriptions show": [(each,) for each in FEW],
    "verify": [()],
    "doctor": [()],
    "config": [()],
    "grants": [("--sql",)],
}
ACTS: dict[str, list[tuple[str, ...]]] = {
    "publish": [("memo.created", "--key", NASTY, "--subject", NASTY, "--tenant", NASTY, "--to", "null:a")],
    "dead-letters requeue": [(each, *WHY, "--even-if-sent") for each in FEW] + [("--type", NASTY, *WHY, "--yes")],
    "dead-letters correct": [(each, *WHY, "--to", "null:z", "--even-if-sent") for each in FEW],
    "dead-letters attest": [(each, *WHY, "--notification-id", NASTY) for each in FEW],
    "dead-letters discard": [(each, *WHY) for each in FEW],
    "inbox retry": [("1", *WHY)],
    "inbox discard": [("2", *WHY)],
    "inbox erase": [("planted-message" + NASTY, *WHY)],
    "doubt": [WHY],
    "restored": [WHY],
    "evidence add": [("--token", "0" * 40, "--outcome", "Delivered", "--source", NASTY, "--reference", NASTY)],
    "evidence import": [("evidence.csv", "--source", "bank")],
    "replay": [(each, *WHY, "--even-if-sent") for each in FEW],
    "cancel": [(each, *WHY) for each in FEW] + [("--destination", "null:z", *WHY, "--dry-run")],
    "operations pause": [(each, *WHY) for each in FEW],
    "operations resume": [(each, *WHY) for each in FEW],
    "operations cancel": [(each, *WHY) for each in FEW],
    "stop": [("--tenant", NASTY, *WHY), ("--tenant", NASTY, *WHY)],
    "resume": [("--tenant", NASTY), ("--tenant", NASTY)],
    "prune": [("--dry-run", *WHY)],
    "erase": [("--subject", "planted-subject" + NASTY, *WHY, "--yes")],
    "subscriptions add": [("--type", "a.b", "--to", "null:a", "--tenant", NASTY, "--description", NASTY)],
    "subscriptions types": [("2", "a.c", *WHY)],
    "subscriptions test": [("2",)],
    "subscriptions pause": [(each, *WHY) for each in FEW],
    "subscriptions resume": [(each, *WHY) for each in FEW],
    "subscriptions rate": [("2", "10/s", *WHY)],
    "subscriptions policy": [("2", "{}", *WHY)],
    "subscriptions ask": [("2", "none", *WHY)],
    "subscriptions rotate-secret": [("2", *WHY)],
    "subscriptions reseal": [()],
    "subscriptions remove": [(each, *WHY) for each in FEW],
    "instance": [(NASTY, "--reason", NASTY), ()],
}
# These say nothing that comes from outside, or wait for somebody; `receive` and logs have tests of their own.
OTHERS = {"migrate", "new-key", "completion", "receive", "demo", "worker", "consume", "reconcile"}


@pytest.fixture
def database(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database of the command line, with everything in it, and something nasty in every text that is there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENDONCE_OPERATOR", "ada")
    if cli.database.startswith("sqlite"):
        made: Database = SqliteDatabase(Path(cli.database.removeprefix("sqlite:///")))
    else:
        made = PostgresDatabase(cli.database)
    asyncio.run(_fill(cli.database, made))
    _allow_changes(made)
    for table, columns in FROM_OUTSIDE.items():
        for each in sorted(columns):
            _spoil(made, table, each)
    return made


async def _fill(url: str, database: Database) -> None:
    store = await database.open()
    async with Admin.aopen(url, operator=OPERATOR) as admin:
        await planted(database, store, admin)
    await database.close()


def _allow_changes(database: Database) -> None:
    """Take away what holds what was recorded as it is."""
    if isinstance(database, SqliteDatabase):
        for (name,) in database.execute("select name from sqlite_master where type = 'trigger'"):
            database.execute(f"drop trigger {name}")
    else:
        for (name,) in database.execute("select tablename from pg_tables where starts_with(tablename, 'sendonce')"):
            database.execute(f"alter table {name} disable trigger all")


def _spoil(database: Database, table: str, column: str) -> None:
    """Have every value of the column end in something nasty; in a document, what comes out when it is read."""
    if column in DOCUMENTS:
        database.execute(f"update {table} set {column} = ?", json.dumps({f"a{NASTY}": NASTY}))
    else:
        database.execute(f"update {table} set {column} = {column} || ? where {column} is not null", NASTY)
    assert database.one(f"select count(*) from {table} where {column} is not null"), (table, column)


def is_clean(ran: Ran, *, is_json: bool = False) -> None:
    for text in (ran.out, ran.err):
        assert not STEERING & set(text), ascii(text)
        assert not [line for line in text.split("\n") if line.startswith("forged")], ascii(text)
    if is_json:
        assert ran.out.isascii()
        json.loads(ran.out)


def test_commands_are_all_in_the_table() -> None:
    assert {each.name for each in every_verb()} == LOOKS.keys() | ACTS.keys() | OTHERS


def test_text_from_outside_is_cleaned_by_each_command(cli: Cli, database: Database) -> None:
    Path("evidence.csv").write_text(
        f"token,outcome,details\n{'0' * 40},Delivered,x\n\x1b[2Jx,Refused,\u202e\n", "utf-8"
    )
    seen = set()
    for name, runs in (LOOKS | ACTS).items():
        for arguments in runs:
            for more in ((), ("--wide",), ("--json",)) if arguments == runs[0] else ((),):
                ran = cli(*name.split(), *arguments, *more)
                is_clean(ran, is_json="--json" in more)
                if "forged" in ran.out + ran.err:
                    seen.add((name, more))

    silent = {"verify", "doctor", "config", "grants"}
    assert {name for name, more in seen if not more} >= LOOKS.keys() - silent
    assert {name for name, more in seen if more == ("--json",)} >= LOOKS.keys() - silent


def wrong_uses() -> Iterator[tuple[str, ...]]:
    """Every argument of every command, with something nasty for its value."""
    for verb in every_verb():
        parser = Parser(prog="sendonce")
        verb.add_to(parser)
        named = [each for each in parser._actions if each.option_strings and each.nargs != 0]
        others = tuple(NASTY for each in parser._actions if not each.option_strings)
        words = tuple(verb.name.split())
        yield (*words, f"--{NASTY}")
        if others:
            yield (*words, *others)
        for each in named:
            if each.dest not in ("help", "database"):
                yield (*words, *others, each.option_strings[0], NASTY, *_required(named, each))


def _required(named: list[argparse.Action], given: argparse.Action) -> Iterator[str]:
    for each in named:
        if each.required and each is not given:
            yield from (each.option_strings[0], NASTY)


def test_argument_that_is_wrong_is_cleaned_in_the_error(
    lite: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tried = count()
    for arguments in (*wrong_uses(), (NASTY,), ("status", "--database", NASTY), ("explain", "1", "--json", NASTY)):
        # What runs until it is stopped is not begun: no file has this name.
        is_clean(lite(*arguments, *(("--config", NASTY) if arguments[0] in ("worker", "consume") else ())))
        next(tried)

    assert next(tried) > 200
