"""sendonce instance and sendonce restored: which database this is, and that nothing was lost."""

from datetime import timedelta

import pytest

from sendonce.domain.attempts import Witness
from sendonce.domain.outcomes import Unknown
from sendonce.domain.policies import Policy
from sendonce.store.ports import Store
from tests.cli.workbench import Cli
from tests.processes import sendonce

WHY = ["--reason", "the copy was made before anything was sent", "--operator", "ada"]


def given_loss(cli: Cli) -> None:
    """Two deliveries in doubt, because a worker has missed a claim."""
    for key in ("a", "b"):
        cli.delivery(key, "null:a")

    async def notice(store: Store) -> None:
        witness = Witness(1, 9, 77, 1, (await store.status()).now - timedelta(minutes=1))
        assert await store.notice_loss(witness, wait=timedelta(hours=1), noticed_by="host:7") is not None
        while await store.mark_loss(10):
            continue

    cli.ask(notice)


def test_database_has_no_name_until_it_is_given_one(cli: Cli) -> None:
    none = cli("instance")
    named = cli("instance", "production", "--operator", "ada")
    shown = cli("instance", "--json")
    gone = cli("instance", "--none", "--operator", "ada")

    assert none.out == "this database has no name: workers work on it whatever their settings say\n"
    assert named.out == "this database is 'production': only workers whose settings say so send from it\n"
    assert shown.json == {"instance": "production"}
    assert gone.out == none.out
    assert "instance" in cli("operations", "list").out


def test_status_shows_the_name(cli: Cli) -> None:
    assert "instance" not in cli("status").out

    cli("instance", "production")

    assert "  instance      production\n" in cli("status").out
    assert cli("status", "--json").json["instance"] == "production"


@pytest.mark.parametrize("name", ["Production", "", "a b", ".a", "x" * 64, "a\n", "ä"])
def test_name_that_is_none_is_refused_in_one_sentence(lite: Cli, name: str) -> None:
    ran = lite("instance", name)

    assert (ran.code, ran.out) == (2, "")
    assert "a name has up to 63 small letters, digits, dots, dashes and underscores, like production" in ran.err
    assert lite("instance", "--json").json == {"instance": None}


def test_name_and_none_at_once_is_refused(lite: Cli) -> None:
    ran = lite("instance", "production", "--none")

    assert (ran.code, ran.out) == (2, "")
    assert "not both" in ran.err


@pytest.mark.parametrize("settings", [[], ["--instance", "staging"]])
def test_worker_of_another_instance_says_so_and_sends_nothing(cli: Cli, settings: list[str]) -> None:
    cli.delivery("a", "null:a")
    cli("instance", "production")

    with sendonce("worker", "--until-idle", *settings, database=cli.database) as worker:
        assert worker.ended() == 1

    assert worker.count("this database is 'production' and the settings say") == 1
    assert worker.count("Traceback") == 0
    assert cli("status", "--json").json["due"] == 1
    with sendonce("worker", "--until-idle", "--instance", "production", database=cli.database) as worker:
        assert worker.ended() == 0
    assert cli("status", "--json").json["due"] == 0


def test_reconcile_asks_nobody_from_a_copy(cli: Cli) -> None:
    cli("instance", "production")

    ran = cli("reconcile")

    assert ran.code == 1
    assert "this database is 'production' and the settings say none, so nothing is sent" in ran.err


def test_reconcile_asks_from_the_instance_that_it_is_meant_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.delivery("a", "null:a")
    cli.attempt(Unknown("timeout"), can_look_up=True, policy=Policy(jitter=0, doubt_wait=timedelta(0)))
    cli("instance", "production")

    monkeypatch.setenv("SENDONCE_INSTANCE", "production")
    ran = cli("reconcile", "--json")

    assert ran.json["asked"] == 1


@pytest.mark.parametrize("repair", [[], ["--repair", *WHY]])
def test_audit_asks_nobody_from_a_copy(cli: Cli, repair: list[str]) -> None:
    cli("instance", "production")

    ran = cli("reconcile", "--audit", "--since", "1d", *repair)

    assert ran.code == 1
    assert "this database is 'production' and the settings say none, so nothing is sent" in ran.err


def test_reconcile_finishes_what_whoever_noticed_a_loss_has_begun(cli: Cli) -> None:
    cli.delivery("a", "null:a")

    async def notice(store: Store) -> None:
        witness = Witness(1, 9, 77, 1, (await store.status()).now - timedelta(minutes=1))
        assert await store.notice_loss(witness, wait=timedelta(0), noticed_by="host:7") is not None

    cli.ask(notice)

    assert cli("reconcile", "--json").json["asked"] == 1


def test_loss_is_loud_in_status(cli: Cli) -> None:
    given_loss(cli)

    said = cli("status").out

    assert "  commits       lost, as host:7 noticed" in said
    assert "2 deliveries are asked about before anything is sent again" in said
    assert "if you know that nothing was lost: sendonce restored --nothing-lost --reason TEXT" in said
    assert cli("status", "--json").json["loss"]["doubted"] == 2
    assert cli("status", "--json").json["in_doubt"] == 2


def test_person_who_knows_that_nothing_was_lost_ends_it(cli: Cli) -> None:
    given_loss(cli)

    ran = cli("restored", "--nothing-lost", *WHY)

    assert ran.out == "the loss of commits is over: 2 deliveries are sent without asking\n"
    status = cli("status", "--json").json
    assert (status["loss"], status["in_doubt"], status["due"]) == (None, 0, 2)
    again = cli("restored", "--nothing-lost", *WHY)
    assert again.out == "no worker has noticed a loss of commits: there is nothing to end\n"
    assert cli("restored", "--nothing-lost", *WHY, "--json").out == "null\n"


def test_instance_needs_a_reason_and_says_what_is_meant(lite: Cli) -> None:
    assert lite("restored", "--nothing-lost").code == 2
    bare = lite("restored", *WHY)
    assert bare.code == 2
    assert "--nothing-lost" in bare.err
