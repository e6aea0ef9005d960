"""sendonce verify, as a person uses it."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sendonce.domain.outcomes import Delivered, Refused
from sendonce.store.postgres.store import PostgresStore
from sendonce.store.sqlite.store import SqliteStore
from sendonce.store.verifying import Inspected, Walk
from tests.cli.workbench import Cli
from tests.processes import sendonce, until
from tests.store.aging import without_rules
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase


@pytest.fixture
def worked(cli: Cli) -> Cli:
    """Two delivered, one refused, one due."""
    cli.publish("sent", "--to", "null:a", "--to", "null:b")
    cli.attempt(Delivered("n"))
    cli.delivery("refused")
    cli.attempt(Refused("410"))
    cli.delivery("due")
    return cli


def database_of(cli: Cli) -> Database:
    if cli.database.startswith("sqlite"):
        return SqliteDatabase(Path(cli.database.removeprefix("sqlite:///")))
    return PostgresDatabase(cli.database)


def spoil(cli: Cli) -> None:
    with without_rules(database_of(cli)) as connection:
        connection.execute("delete from sendonce_dead_letters")


def test_verify_says_that_all_is_consistent(worked: Cli) -> None:
    ran = worked("verify")

    assert ran.code == 0
    assert (
        ran.out
        == "looked at 3 events, 4 deliveries, 0 leases, 0 requests, 0 operations, 0 messages: nothing is wrong\n"
    )


def test_verify_says_what_is_wrong_with_its_id_and_what_to_do(worked: Cli) -> None:
    spoil(worked)

    ran = worked("verify")

    assert ran.code == 1
    assert ran.out.splitlines() == [
        "wrong: dead_letters (1): it was given up and has no dead letter, or has one and was not given up",
        "  delivery: 3",
        "  to do: nobody would see that it failed; requeue it or publish it again;"
        " look with: sendonce explain delivery:3",
        "looked at 3 events, 4 deliveries, 0 leases, 0 requests, 0 operations, 0 messages: "
        "1 of the checks found something",
    ]


def test_verify_says_as_json_the_same_with_all_ids(worked: Cli) -> None:
    spoil(worked)

    ran = worked("verify", "--json")

    [finding] = json.loads(ran.out)["findings"]
    assert ran.code == 1
    assert (finding["check"], finding["of"], finding["found"]) == ("dead_letters", "delivery", [3])


def test_verify_makes_only_the_checks_that_are_asked_for(worked: Cli) -> None:
    spoil(worked)

    assert worked("verify", "--only", "routed", "--only", "tokens").code == 0
    assert worked("verify", "--only", "dead_letters").code == 1


def test_check_or_place_that_there_is_not_is_wrong_use(worked: Cli) -> None:
    ran = worked("verify", "--only", "feelings")
    elsewhere = worked("verify", "--since", "everything")

    assert (ran.code, elsewhere.code) == (2, 2)
    assert "there is no check 'feelings'; the checks are: rules, routed," in ran.err
    assert "must be like deliveries:120000" in elsewhere.err


@pytest.mark.parametrize("as_json", [False, True])
def test_verify_interrupted_says_what_it_has_found(worked: Cli, monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    spoil(worked)
    of_store = SqliteStore if worked.database.startswith("sqlite") else PostgresStore
    inspect = of_store.inspect

    async def until_leases(self: Any, walk: Walk, *args: Any, **options: Any) -> Inspected:
        if walk is Walk.LEASES:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        return await inspect(self, walk, *args, **options)

    monkeypatch.setattr(of_store, "inspect", until_leases)
    # A program of its own begins like this; in this process others may have put something in its place.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        ran = worked("verify", *(["--json"] if as_json else []))
    finally:
        signal.signal(signal.SIGINT, before)

    assert ran.code == 130
    assert re.search(r"stopped at deliveries:(\d+); go on with: sendonce verify --since deliveries:\1", ran.err)
    if as_json:
        document = json.loads(ran.out)
        assert [each["found"] for each in document["findings"]] == [[3]]
        assert document["stopped_at"].startswith("deliveries:")
    else:
        assert "  delivery: 3\n" in ran.out


def test_check_that_cannot_be_made_from_there_on_is_wrong_use(worked: Cli) -> None:
    for check in ("counters", "rules", "routed"):
        ran = worked("verify", "--only", check, "--only", "tokens", "--since", "deliveries:1")

        assert ran.code == 2
        assert f"{check} cannot be checked from deliveries:1 on; leave --since out" in ran.err
    assert worked("verify", "--only", "tokens", "--since", "deliveries:1").code == 0


def test_verify_that_cannot_look_exits_with_3(worked: Cli) -> None:
    database_of(worked).execute("drop table sendonce_corrections")

    ran = worked("verify")

    assert (ran.code, ran.out) == (3, "")
    assert ran.err == "sendonce: table sendonce_corrections is missing; restore it from a backup\n"


def test_event_is_spoken_of_in_the_singular(worked: Cli) -> None:
    with without_rules(database_of(worked)) as connection:
        connection.execute("update sendonce_events set routed = null where key = 'due'")

    assert "note: 1 event cannot be compared with its deliveries yet" in worked("verify").out


@pytest.mark.parametrize("cli", ["postgres"], indirect=True)
def test_verify_interrupted_says_where_to_go_on(cli: Cli) -> None:
    database = database_of(cli)
    database.publish_many(30)
    ours = "datname = current_database() and pid <> pg_backend_pid() and application_name = 'sendonce'"
    with (
        psycopg.connect(cli.database) as holding,
        sendonce("verify", "--rate", "10/s", database=cli.database) as process,
    ):
        holding.execute("lock table sendonce_events in access exclusive mode")
        until(
            lambda: database.one(f"select count(*) from pg_stat_activity where {ours} and wait_event_type = 'Lock'"),
            "its first step to have begun",
        )
        holding.rollback()
        until(
            lambda: database.one(f"select count(*) from pg_stat_activity where {ours} and xact_start is null"),
            "its first step to be over",
        )
        process.send(signal.SIGINT)

        assert process.ended() == 130
    assert re.search(r"stopped at events:(\d+); go on with: sendonce verify --since events:\1", process.said)
