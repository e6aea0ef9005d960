"""The alarm: who tells, by which ways, and that nothing of it floods people or holds up the work."""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sendonce.channels.protocol import Message
from sendonce.channels.registry import Channels
from sendonce.domain.attempts import Report, Result, Witness
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Outcome, Refused
from sendonce.engine.alerter import TRIES, Alerter, AlertTransport, Notice, OwnFaults, transports_of
from sendonce.engine.alerts import AlertSettings
from sendonce.errors import ConfigError, StoreBusy, StoreError
from sendonce.observability.facts import Alerted, AlertFailed, Fact
from sendonce.observability.logs import worded
from sendonce.signing import key_of, new_secret
from sendonce.store.ports import Store
from tests.alarms import given_finding, let_pass
from tests.domain.values import a_claim
from tests.engine.rig import Told, never, serving
from tests.given import decided, given_dead_letter, given_due_delivery
from tests.store.databases import Database

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
WEBHOOK, MAIL = "https://ops.example/alerts", "mailto:oncall@example.com"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


class Post(Told):
    """Keeps what it was given to send."""

    @property
    def texts(self) -> list[str]:
        return [str(json.loads(message.body).get("message")) for message in self.sent]


def alarm_on(
    store: Store, facts: list[Fact], *, channel: Told | None = None, webhook: str | None = WEBHOOK, **settings: Any
) -> Alerter:
    chosen = AlertSettings(webhook=webhook, **settings)
    sinks = transports_of(chosen, serving(channel or Post(Delivered()), "https", "mailto"), "namespace")
    return Alerter(store, chosen, sinks, facts.append)


def results_of(outcome: Outcome, address: str, amount: int = 1, **claim: Any) -> list[Result]:
    """The results of so many attempts, all with this outcome."""
    report = Report(
        claim=a_claim(address=address, destination=address, **claim),
        lease_id=1,
        outcome=outcome,
    )
    return decided([report] * amount)


def met(code: str, scheme: str, amount: int = 1) -> list[Result]:
    """The results of attempts that met a fault on our side."""
    return results_of(Deferred(code), f"{scheme}:a", amount)


def said(facts: list[Fact]) -> list[tuple[str, bool]]:
    return [(fact.name, fact.is_over) for fact in facts if isinstance(fact, Alerted)]


async def test_M12_it_is_told_once_repeated_after_a_while_and_told_when_it_is_over(
    database: Database, store: Store
) -> None:
    await given_dead_letter(database, store)
    facts: list[Fact] = []
    post = Post(Delivered())
    alarm = alarm_on(store, facts, channel=post)

    for _ in range(3):
        await alarm.look()
    assert post.texts == ["1 dead letter waits for a person; see: sendonce dead-letters list"]

    let_pass(database, timedelta(minutes=61))
    await alarm.look()
    await alarm.look()
    assert len(post.sent) == 2

    [dead_letter] = database.rows("dead_letters")
    await store.discard([dead_letter["id"]], operator="ada", reason="known")
    let_pass(database, timedelta(minutes=6))
    await alarm.look()
    await alarm.look()

    assert post.texts[2:] == ["over: dead letters that wait for a person"]
    assert said(facts) == [("dead_letters", False), ("dead_letters", False), ("dead_letters", True)]
    assert (await store.status()).alerts == ()


async def test_M12_of_two_workers_one_tells(database: Database, store: Store) -> None:
    await given_dead_letter(database, store)
    facts: list[Fact] = []
    post = Post(Delivered())
    alarms = [alarm_on(each, facts, channel=post) for each in (store, await database.open())]

    for _ in range(3):
        await asyncio.gather(*(alarm.look() for alarm in alarms))

    assert len(post.sent) == 1
    assert said(facts) == [("dead_letters", False)]


async def test_alert_of_another_worker_is_not_ended_by_one_that_sees_no_fault(database: Database, store: Store) -> None:
    facts: list[Fact] = []
    seeing, other = alarm_on(store, facts), alarm_on(await database.open(), facts)
    seeing.note(met("our_server", "mailto", 2))

    await seeing.look()
    await other.look()
    await seeing.look()

    assert said(facts) == [("our_server:mailto", False)]
    let_pass(database, timedelta(minutes=59))
    await other.look()
    assert len(said(facts)) == 1


@pytest.mark.parametrize("outcome", [Delivered(), Accepted("1")], ids=["delivered", "accepted"])
async def test_fault_on_our_side_is_over_with_the_first_success(
    database: Database, store: Store, outcome: Outcome
) -> None:
    """The password was corrected and the workers restarted: another one than the one that has met the fault sees it."""
    facts: list[Fact] = []
    failing = alarm_on(store, facts)
    failing.note(met("our_credentials", "mailto"))
    await failing.look()
    let_pass(database, timedelta(minutes=6))
    restarted = alarm_on(await database.open(), facts)
    await restarted.look()

    restarted.note(results_of(outcome, "sms:1"))
    await restarted.look()
    assert len(said(facts)) == 1, "another channel's success says nothing"
    restarted.note(results_of(outcome, "mailto:ada@example.com"))
    await restarted.look()
    await restarted.look()

    assert said(facts) == [("our_credentials:mailto", False), ("our_credentials:mailto", True)]
    assert (await store.status()).alerts == ()


async def test_success_of_another_subscription_or_host_ends_nothing(database: Database, store: Store) -> None:
    facts: list[Fact] = []
    alarm = alarm_on(store, facts)
    one, other = "https://one.example/hook", "https://other.example/hook"
    alarm.note(results_of(Deferred("our_credentials"), one, subscription_id=7))
    alarm.note(results_of(Deferred("our_server"), one))
    await alarm.look()
    let_pass(database, timedelta(minutes=6))

    alarm.note(results_of(Delivered(), one, subscription_id=8) + results_of(Delivered(), other))
    await alarm.look()
    assert len(said(facts)) == 2
    alarm.note(results_of(Delivered(), one, subscription_id=7) + results_of(Delivered(), one))
    await alarm.look()

    assert said(facts)[2:] == [("our_credentials:https", True), ("our_server:https", True)]


async def test_alert_that_comes_and_goes_is_not_told_each_time(database: Database, store: Store) -> None:
    facts: list[Fact] = []
    alarm = alarm_on(store, facts)

    for _ in range(8):
        alarm.note(met("our_server", "mailto"))
        await alarm.look()
        alarm.note(results_of(Delivered(), "mailto:b"))
        let_pass(database, timedelta(seconds=30))
        await alarm.look()
    assert said(facts) == [("our_server:mailto", False)]
    let_pass(database, timedelta(minutes=5))
    await alarm.look()

    assert said(facts) == [("our_server:mailto", False), ("our_server:mailto", True)]


async def test_fault_that_is_met_again_after_a_success_is_not_over(database: Database, store: Store) -> None:
    facts: list[Fact] = []
    alarm = alarm_on(store, facts)
    alarm.note(met("our_server", "mailto"))
    await alarm.look()
    let_pass(database, timedelta(minutes=6))

    alarm.note(results_of(Delivered(), "mailto:b") + met("our_server", "mailto"))
    await alarm.look()
    await alarm.look()
    assert said(facts) == [("our_server:mailto", False)], "it was met after the last success"
    alarm.note(results_of(Delivered(), "mailto:b"))
    await alarm.look()

    assert said(facts) == [("our_server:mailto", False), ("our_server:mailto", True)]


async def test_alert_that_has_grown_tenfold_is_told_again(database: Database, store: Store) -> None:
    facts: list[Fact] = []
    alarm = alarm_on(store, facts)
    await given_dead_letter(database, store)
    await alarm.look()

    for _ in range(8):
        await given_dead_letter(database, store)
    await alarm.look()
    assert len(said(facts)) == 1, "nine are not ten times one"
    await given_dead_letter(database, store)
    await alarm.look()
    await alarm.look()

    told = [fact.message.partition(";")[0] for fact in facts if isinstance(fact, Alerted)]
    assert told == ["1 dead letter waits for a person", "10 dead letters wait for a person"]


async def test_alert_tells_of_lost_commits(database: Database, store: Store) -> None:
    facts: list[Fact] = []
    witness = Witness(given_due_delivery(database), 1, 7, 1, database.now())
    await store.notice_loss(witness, wait=timedelta(0), noticed_by="host:1")

    await alarm_on(store, facts).look()

    assert ("commits_lost", False) in said(facts)


async def test_R17_findings_are_told(database: Database, store: Store) -> None:
    facts: list[Fact] = []
    given_finding(database, "no_evidence")

    await alarm_on(store, facts).look()

    assert said(facts) == [("findings", False)]


async def test_alerts_carry_nothing_that_is_recorded(database: Database, store: Store) -> None:
    given_due_delivery(database, to="test:private-address", tenant="private-tenant", key="private-key")
    post = Post(Delivered())
    facts: list[Fact] = []
    alarm = alarm_on(store, facts, channel=post)
    let_pass(database, timedelta(minutes=6))
    alarm.note(met("our_server", "test", 1))

    await alarm.look()

    everything = repr(facts) + "".join(message.body for message in post.sent)
    assert len(post.sent) == 2
    assert "private" not in everything


async def test_alert_token_is_the_same_for_every_try_and_differs_between_alerts(sqlite_store: Store) -> None:
    post = Post(Failed("http_503"), Delivered())
    alarm = alarm_on(sqlite_store, [], channel=post)
    alarm.note(met("our_server", "mailto", 1))
    await alarm.look()
    await alarm.look()
    alarm.note(met("our_server", "sms", 1))
    await alarm.look()

    first, again, second = post.sent
    assert (first.token, first.body) == (again.token, again.body)
    assert (first.attempt, again.attempt) == (1, 2)
    assert first.token != second.token
    found = json.loads(first.body)
    assert found.keys() == {"alert", "state", "message", "at"}
    assert (found["alert"], found["state"], first.type) == ("our_server:mailto", "raised", "sendonce.alert")


async def test_webhook_is_signed_and_a_mail_is_a_mail(sqlite_store: Store) -> None:
    secret = new_secret()
    post = Post(Delivered())
    alarm = alarm_on(sqlite_store, [], channel=post, webhook_secret=secret, mail=MAIL)
    alarm.note(met("our_server", "sms", 1))

    await alarm.look()

    by_address: dict[str, Message] = {message.address: message for message in post.sent}
    assert by_address.keys() == {WEBHOOK, MAIL}
    assert by_address[WEBHOOK].credentials.signing == (key_of(secret),)
    assert by_address[MAIL].credentials.signing == ()
    mail = json.loads(by_address[MAIL].body)
    assert by_address[MAIL].has_content
    assert mail["subject"] == "sendonce: our_server:sms (raised)"
    assert mail["text"].startswith("sms: 1 attempt put off")


async def test_log_can_be_switched_off(sqlite_store: Store) -> None:
    facts: list[Fact] = []
    alarm = alarm_on(sqlite_store, facts, log=False)
    alarm.note(met("our_server", "sms", 1))

    await alarm.look()

    assert facts == []


class Broken(Post):
    """Fails for one scheme only."""

    def __init__(self, scheme: str, trouble: object) -> None:
        super().__init__(Delivered())
        self._scheme = scheme
        self._trouble = trouble

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        if message.address.startswith(self._scheme):
            self.script = [self._trouble]
        else:
            self.script = [Delivered()]
        return await super().send(message, timeout=timeout)


@pytest.mark.parametrize(
    "trouble",
    [Failed("http_503"), Deferred("our_credentials"), RuntimeError("secret"), OSError("secret"), None],
    ids=repr,
)
async def test_way_that_fails_is_logged_tried_again_and_holds_up_no_other(sqlite_store: Store, trouble: object) -> None:
    facts: list[Fact] = []
    channel = Broken("mailto", trouble)
    alarm = alarm_on(sqlite_store, facts, channel=channel, mail=MAIL)
    alarm.note(met("our_server", "sms", 1))

    for _ in range(TRIES + 3):
        await alarm.look()

    addresses = [message.address for message in channel.sent]
    assert addresses.count(WEBHOOK) == 1
    assert addresses.count(MAIL) == TRIES
    failures = [fact for fact in facts if isinstance(fact, AlertFailed)]
    assert {fact.way for fact in failures} == {"mail"}
    assert len(failures) == TRIES
    assert "secret" not in repr(facts)


async def test_alert_after_one_that_failed_is_told_in_its_turn(sqlite_store: Store) -> None:
    channel = Post(Failed("http_503"), Failed("http_503"), Delivered())
    alarm = alarm_on(sqlite_store, [], channel=channel)
    alarm.note(met("our_server", "sms") + met("our_credentials", "sms") + met("our_account", "sms"))

    for _ in range(3):
        await alarm.look()

    first, again, *others = channel.texts
    assert first == again == others[0], "those behind it wait until it has got through"
    assert len(set(others)) == len(others) == 3


async def test_way_that_refuses_is_not_tried_again(sqlite_store: Store) -> None:
    channel = Post(Refused("http_404"))
    alarm = alarm_on(sqlite_store, [], channel=channel)
    alarm.note(met("our_server", "sms", 1))

    await alarm.look()
    await alarm.look()

    assert len(channel.sent) == 1


async def test_mail_that_is_broken_makes_no_alert_about_itself(database: Database, store: Store) -> None:
    """The alert about the mail server goes through the same mail server."""
    facts: list[Fact] = []
    alarm = alarm_on(store, facts, channel=Post(Deferred("our_credentials")), webhook=None, mail=MAIL)
    alarm.note(met("our_credentials", "mailto", 1))

    for _ in range(10):
        await alarm.look()

    assert said(facts) == [("our_credentials:mailto", False)]
    assert database.rows("deliveries") == []
    assert [row["name"] for row in database.rows("alerts")] == ["our_credentials:mailto"]


class Unwell:
    """A store on which one call raises, and then is as it was."""

    def __init__(self, store: Store, call: str, *errors: Exception) -> None:
        self._store = store
        self._call = call
        self._errors = list(errors)

    def __getattr__(self, name: str) -> Any:
        if name == self._call and self._errors:
            raise self._errors.pop(0)
        return getattr(self._store, name)


@pytest.mark.parametrize("call", ["readings", "alerts", "raise_alert"])
async def test_database_that_is_away_costs_no_fault_and_no_word(sqlite_store: Store, call: str) -> None:
    facts: list[Fact] = []
    store: Any = Unwell(sqlite_store, call, StoreBusy("away"), StoreBusy("away"))
    alarm = alarm_on(store, facts)
    alarm.note(met("our_server", "sms", 1))

    await alarm.look()
    await alarm.look()
    assert facts == []
    await alarm.look()

    assert said(facts) == [("our_server:sms", False)]


def test_alert_counts_what_could_not_be_written_before() -> None:
    faults = OwnFaults()
    faults.note(met("our_server", "sms", 2))
    not_written = faults.take()
    faults.note(met("our_server", "sms", 1))

    faults.put_back(not_written)

    assert {name: each.times for name, each in faults.take().items()} == {"our_server:sms": 3}


def test_alert_raised_again_is_not_ended_by_an_older_success() -> None:
    """Another worker met it again."""
    faults = OwnFaults()
    faults.know({"our_server:sms": None})
    faults.note(results_of(Delivered(), "sms:a"))
    assert sorted(faults.over) == ["our_server:sms"]

    faults.know({})
    faults.know({"our_server:sms": None})

    assert sorted(faults.over) == []


async def test_rights_that_are_missing_are_said_once(sqlite_store: Store) -> None:
    facts: list[Fact] = []
    store: Any = Unwell(
        sqlite_store, "readings", StoreError("not allowed"), StoreError("not allowed"), StoreError("not allowed")
    )
    alarm = alarm_on(store, facts)

    for _ in range(4):
        await alarm.look()

    assert facts == [AlertFailed(way="database", reason="not allowed")]


def test_way_that_nothing_serves_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match=re.escape("[alerts] mail: this worker has no channel for mailto:")):
        transports_of(AlertSettings(mail=MAIL), Channels(), "namespace")


def test_alerts_are_warnings_in_the_log() -> None:
    facts: list[Fact] = [
        Alerted(name="dead_letters", message="3 wait", is_over=False),
        AlertFailed(way="mail", reason="our_server"),
        AlertFailed(way="database", reason="no rights"),
    ]

    assert [worded(fact) for fact in facts] == [
        (30, "alert dead_letters: 3 wait"),
        (30, "an alert could not be told by mail: our_server"),
        (30, "alerts cannot be looked at: no rights"),
    ]


async def test_sink_gives_up_on_a_channel_that_does_not_know_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sendonce.engine.alerter.SECONDS", -0.9)
    sink = AlertTransport("webhook", WEBHOOK, Told(never), "namespace")
    failure = await sink.tell(Notice(name="a", message="b", is_over=False, at=NOW), 1)

    assert failure is not None
    assert failure.reason == "TimeoutError"
