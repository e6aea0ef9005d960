"""sendonce reconcile, sendonce doubt, and dead-letters attest."""

import signal
from datetime import timedelta

import pytest

from sendonce.channels.protocol import Message
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import Delivered, Found, LookUp, NoAnswer, NotThere, Outcome, Unknown
from sendonce.domain.policies import IfUnsure, Policy
from sendonce.store.ports import Store
from tests.cli.workbench import Cli, Ran
from tests.processes import sendonce, until

WHY = ["--reason", "the provider had an outage"]
HOLDING = Policy(if_unsure=IfUnsure.HOLD)
AT_ONCE = Policy(jitter=0, doubt_wait=timedelta(0))
APP = ["--app", "tests.cli.test_reconcile:channels"]


class Provider:
    """What the other side has, by the event's key."""

    def __init__(self) -> None:
        self.has: dict[str, LookUp] = {}
        self.sent: list[str] = []

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        self.sent.append(message.key)
        return Delivered(f"id-{message.key}")

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        return self.has.get(message.key, NotThere())


provider = Provider()
channels = Channels()
channels.add(provider, "asked", doubt_wait="0s")


@channels.channel("plain", if_unsure="hold")
async def plain(message: Message, *, timeout: float) -> Outcome:
    return Delivered()


@pytest.fixture(autouse=True)
def _nothing_yet() -> None:
    provider.has.clear()
    provider.sent.clear()


def given_in_doubt(cli: Cli, *keys: str, to: str = "asked:a") -> None:
    for key in keys:
        cli.delivery(key, to)
    cli.attempt(Unknown("timeout"), can_look_up=True, policy=AT_ONCE)


def reconcile(cli: Cli, *options: str) -> Ran:
    return cli("reconcile", *APP, *options)


def in_doubt(cli: Cli) -> int:
    amount = cli("status", "--json").json["in_doubt"]
    assert isinstance(amount, int)
    return amount


def test_R11_everything_in_doubt_is_asked_about_and_nothing_is_sent(cli: Cli) -> None:
    given_in_doubt(cli, "there", "gone")
    given_in_doubt(cli, "plain", to="plain:a")
    provider.has["there"] = Found("p-1")

    ran = reconcile(cli, "--verbose")

    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "delivery 1 to asked:a had arrived and is completed (p-1)",
        "delivery 2 to asked:a had not arrived: a worker sends it (not_found)",
        "delivery 3 to plain:a cannot be asked about and is held for a person (held)",
        "asked about 3 deliveries in doubt:",
        "  1 had arrived and is completed",
        "  1 had not arrived: a worker sends it",
        "  1 cannot be asked about and is held for a person",
    ]
    assert provider.sent == []
    assert cli("deliveries", "show", "1", "--json").json["notification_id"] == "p-1"
    assert cli("status", "--json").json["workers"] == []


def test_reconcile_without_an_answer_exits_with_1(cli: Cli) -> None:
    given_in_doubt(cli, "there")
    provider.has["there"] = NoAnswer("down")

    ran = reconcile(cli, "--json", "--verbose")

    assert ran.code == 1
    assert '"no_answer": 1' in ran.out
    assert '"still_in_doubt": 1' in ran.out
    assert '"destination": "asked:a"' in ran.out
    assert "still in doubt: 1" in reconcile(cli).out


def test_reconcile_with_nothing_in_doubt_asks_nothing(cli: Cli) -> None:
    assert reconcile(cli) == Ran(0, "asked about 0 deliveries in doubt\n", "")
    assert reconcile(cli, "--json").json == {
        "asked": 0, "answers": {}, "still_in_doubt": 0, "deliveries": [], "left_alone": 0, "left_alone_until": None,
    }  # fmt: skip


def given_sent(cli: Cli, *keys: str) -> None:
    for key in keys:
        cli.delivery(key, "asked:a")
    cli.attempt(Delivered("p-1"))


def test_R17_audit_reports_what_has_no_evidence_and_changes_nothing(cli: Cli) -> None:
    given_sent(cli, "there", "gone")
    provider.has["there"] = Found("p-1")

    ran = reconcile(cli, "--audit", "--since", "2d")

    assert ran.code == 1
    assert ran.out.splitlines() == [
        "delivery 2 to asked:a: no_evidence",
        "checked 2 deliveries:",
        "  1 the other side has",
        "  1 the other side has no record of",
        "1 would be sent again with: --repair --reason TEXT",
    ]
    assert "(found before)" in reconcile(cli, "--audit", "--since", "2d").out
    assert len(cli("deliveries", "list", "--json").rows) == 2
    assert "no_evidence" in cli("explain", "delivery:2").out


def test_R17_repair_sends_what_is_missing_again_within_the_cap(cli: Cli) -> None:
    given_sent(cli, "a", "b", "c")

    ran = reconcile(cli, "--audit", "--since", "2d", "--repair", "--cap", "2", *WHY, "--operator", "ada")

    assert ran.code == 1
    assert "2 deliveries are sent again, each after it was looked up once more" in ran.out
    assert "1 left as they are: --cap is 2" in ran.out
    assert [row["in_doubt"] for row in cli("deliveries", "list", "--status", "pending", "--json").rows] == [True, True]
    assert in_doubt(cli) == 2


def test_audit_as_json(cli: Cli) -> None:
    given_sent(cli, "gone", "there")
    provider.has["there"] = Found("p-9")

    ran = reconcile(cli, "--audit", "--since", "2d", "--json", "--destination", "asked:a")

    assert ran.code == 1
    for said in ('"checked": 2', '"no_evidence": 1', '"found_id": "p-9"', '"can_be_repaired": 1', '"repaired": []'):
        assert said in ran.out
    assert reconcile(cli, "--audit", "--since", "2d", "--destination", "asked:b").out == "checked 0 deliveries\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--audit"], "an audit needs --since"),
        (["--audit", "--since", "2d", "--repair"], "--repair needs --reason"),
        (["--audit", "--since", "2d", "--cap", "5"], "--cap and --reason belong to --repair"),
        (["--since", "2d"], "--since belongs to an audit; add --audit"),
        (["--repair", *WHY], "--repair belongs to an audit"),
        (["--policy", "no"], "a policy must be a JSON object"),
        (["--app", "tests.cli.test_reconcile:nothing"], "has no sendonce.channels.Channels named nothing"),
    ],
)
def test_reconcile_used_wrongly_is_one_sentence(lite: Cli, options: list[str], sentence: str) -> None:
    ran = lite("reconcile", *options)

    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_doubt_covers_everything_open_and_is_logged(cli: Cli) -> None:
    for key in ("a", "b"):
        cli.delivery(key, "asked:a")
    cli.attempt(Delivered("p-1"))
    cli.delivery("c", "asked:a")
    cli.claim(hold=timedelta(seconds=1))
    cli.delivery("d", "asked:a")
    refused = cli("doubt", "--open", *WHY)

    ran = cli("doubt", "--open", *WHY, "--even-if-running", "--operator", "ada")

    assert refused.code == 1
    assert "1 worker alive (host:7): stop first, or add --even-if-running" in refused.err
    assert ran.out == (
        "2 open deliveries put in doubt; nobody asks about them or sends them for at least 5m, then workers do\n"
    )
    assert in_doubt(cli) == 2
    early = reconcile(cli)
    assert early.code == 1
    assert "asked about 0 deliveries in doubt\n  1 is not asked about before 20" in early.out
    again = cli("doubt", "--open", *WHY, "--even-if-running", "--wait", "0", "--operator", "ada")
    assert again.out == "2 open deliveries put in doubt; ask now with: sendonce reconcile\n"


def test_restore_with_doubt_does_not_resend_what_had_arrived(cli: Cli) -> None:
    for key in ("sent before the loss", "never sent"):
        cli.delivery(key, "asked:a")
    provider.has["sent before the loss"] = Found("p-1")

    assert cli("doubt", "--open", "--wait", "0s", *WHY).code == 0
    assert reconcile(cli).code == 0

    assert [row["status"] for row in cli("deliveries", "list", "--json").rows] == ["PendingRetry", "Completed"]
    assert in_doubt(cli) == 0


def given_held(cli: Cli, key: str = "k") -> None:
    cli.delivery(key)
    cli.attempt(Unknown("timeout"), policy=HOLDING)


def test_dead_letter_that_was_held_is_attested_as_sent(cli: Cli) -> None:
    given_held(cli)
    advice = cli("explain", "1").out

    ran = cli(
        "dead-letters", "attest", "1", "--reason", "seen in the mailbox", "--operator", "ada",
        "--notification-id", "m-7",
    )  # fmt: skip

    assert "if you know that it arrived: sendonce dead-letters attest 1 --reason TEXT" in advice
    assert "sendonce dead-letters requeue 1 --reason TEXT --even-if-sent" in advice
    assert ran.out == "dead letter 1 is attested as sent: delivery 2 to null:a is completed\n"
    told = cli("explain", "delivery:2").out
    assert "as attested by ada: seen in the mailbox, where its id is m-7; nothing more happens" in told
    assert "finding" not in told
    assert cli("dead-letters", "show", "1", "--json").json["closed_as"] == "attested"


def test_attest_is_refused_when_it_is_not_open(cli: Cli) -> None:
    given_held(cli)
    cli("dead-letters", "discard", "1", *WHY, "--operator", "ada")

    again, none = cli("dead-letters", "attest", "1", *WHY), cli("dead-letters", "attest", "9", *WHY)

    assert (again.code, none.code) == (1, 1)
    assert "dead letter 1 was discarded by ada" in again.err
    assert "there is no dead letter 9" in none.err
    assert len(cli("deliveries", "list", "--json").rows) == 1


def test_dead_letters_are_attested_together_without_an_id(cli: Cli) -> None:
    given_held(cli, "a")
    given_held(cli, "b")

    wrong = cli("dead-letters", "attest", "1", "2", *WHY, "--notification-id", "x")
    right = cli("dead-letters", "attest", "1", "2", *WHY, "--json").json

    assert wrong.code == 2
    assert [(each["dead_letter_id"], each["delivery_id"]) for each in right] == [(1, 3), (2, 4)]


def test_reconcile_interrupted_leaves_no_lease_behind(cli: Cli) -> None:
    given_in_doubt(cli, "a", "b")

    with sendonce("reconcile", "--app", "tests.cli.slow_provider:channels", database=cli.database) as process:
        until(lambda: cli("status", "--json").json["in_flight"] == 2, "two questions on their way")
        process.send(signal.SIGINT)
        assert process.ended() == 130

    status = cli("status", "--json").json
    assert (status["in_flight"], status["in_doubt"], status["workers"]) == (0, 2, [])

    async def leases(store: Store) -> bool:
        return await store.lease_of(1) is None and await store.lease_of(2) is None

    assert cli.ask(leases)
