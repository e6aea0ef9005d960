"""explain: what was recorded, why it is where it is, what happens next."""

import re
from datetime import timedelta

import pytest

from sendonce import TenantAdmin, TenantExplanation
from sendonce.admin.explain import explain
from sendonce.admin.session import StoreSession
from sendonce.domain.outcomes import FOUND, Accepted, Delivered, Failed, Refused, Unknown
from sendonce.domain.policies import IfUnsure, Policy
from sendonce.sealing import SecretBox
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from tests.cli.workbench import JUST_NOW, Cli

WHY = ["--reason", "x"]
# Commands, variables, who works here and why: whatever is told to operators.
NOT_FOR_TENANTS = re.compile(
    r"sendonce |SENDONCE_|--|host:|worker \d|lease \d|no worker|\bada\b|outage|not wanted|\bothers?\b(?! side)"
)


def explained(cli: Cli, wanted: str) -> str:
    ran = cli("explain", wanted)
    assert ran.code == 0, ran.err
    assert cli("explain", wanted, "--json").json["wanted"] == wanted
    for told in cli.ask(told_to_tenants):
        assert told.sentences[0].startswith("event ")
        assert not [each for each in told.sentences if NOT_FOR_TENANTS.search(each)], told
        assert all(hasattr(TenantAdmin, each.verb) for each in told.advice)
    return ran.out


async def told_to_tenants(store: Store) -> list[TenantExplanation]:
    """Each delivery as its tenant is told of it."""
    session = StoreSession(store, SecretBox())
    rows = await store.deliveries(Filter(limit=100))
    return [await TenantAdmin(session, operator="ada", tenant=each.tenant).aexplain(each.id) for each in rows]


def test_explain_says_what_was_recorded_and_where_it_goes(cli: Cli) -> None:
    cli.publish("memo/7", "--to", "null:a", "--tenant", "acme", "--subject", "memo 7", "--version", "3")

    text = explained(cli, "1")

    assert text.startswith(
        "event 1: memo.saved with the key memo/7 about memo 7, version 3 for tenant acme, recorded 20"
    )
    assert "delivery 1 to null:a: Pending" in text
    assert "it has not been tried yet" in text
    assert "the 1st attempt has been due for" in text
    assert "→ no worker is alive\n  → start one with: sendonce worker\n" in text


def test_text_of_callers_cannot_steer_the_terminal(cli: Cli) -> None:
    cli.publish("a\x1b[2Jb\nc", "--to", "null:a", "--subject", "\x1b]0;x\x07\x9b")

    assert not {"\x1b", "\x9b", "\x07"} & set(explained(cli, "1") + cli("events", "show", "1").out)


def test_explain_finds_it_by_everything(cli: Cli) -> None:
    cli.publish("first")
    cli.delivery("memo/7")
    cli.attempt(Refused("http_410"))
    token = cli("explain", "1", "--json").json["events"][0]["deliveries"][0]["known"]["token"]

    for wanted in (
        "1",
        "d1",
        "delivery:1",
        "event:2",
        "e2",
        "dead-letter:1",
        "memo/7",
        "key:memo/7",
        token,
        f"token:{token}",
    ):
        assert "delivery 1 to null:a: DeadLettered" in explained(cli, wanted), wanted


def test_number_is_a_delivery_and_says_what_else_it_could_be(cli: Cli) -> None:
    cli.publish("a")
    cli.delivery("b")
    cli.publish("1")
    cli.publish("77")

    text = explained(cli, "1")

    assert "this is delivery 1, and there is an event 1\n" in text
    assert "see event 1 with: sendonce explain event:1\n" in text
    assert "an event with the key 1 is another one\n" in text
    assert "see the key 1 with: sendonce explain key:1\n" in text
    assert "there is no delivery 2; this is event 2" in explained(cli, "2")
    assert "with the key 77" in explained(cli, "77")
    assert "it goes nowhere" in explained(cli, "event:1")


def test_delivery_whose_event_has_its_number_is_not_confusing(cli: Cli) -> None:
    cli.delivery("1")

    assert explained(cli, "1").startswith("event 1: ")


def test_key_that_looks_like_an_id_is_found(cli: Cli) -> None:
    cli.delivery("e12")

    assert "with the key e12" in explained(cli, "e12")


def test_failed_attempt_and_the_next_one(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Failed("http_503", "Service\x1b[2J Unavailable"))

    text = explained(cli, "1")

    assert re.search(f"attempt 1, {JUST_NOW}, took", text)
    assert ": Failed (http_503: Service [2J Unavailable)" in text
    assert "the last attempt did not succeed (http_503: " in text
    assert "the 2nd attempt is due in" in text


def test_scheduled_delivery(cli: Cli) -> None:
    cli.publish("k", "--to", "null:a", "--deliver-at", "2h", "--expires-at", "3h")

    text = explained(cli, "1")

    assert "the 1st attempt is due in 2h" in text
    assert "it is given up if it does not succeed by 20" in text


def test_doubt_is_told_with_what_is_done_about_it(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Unknown("timeout", "no answer within 10s"), can_look_up=True)

    text = explained(cli, "1")

    assert "it may have been sent: attempt 1 ended without an answer (timeout: no answer within 10s)" in text
    assert "the 2nd attempt, which asks about it or else sends it again with the same token, is due in" in text


def test_explain_tells_accepted_from_confirmed(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Accepted("n-7"), can_look_up=True)

    text = explained(cli, "1")

    assert "Accepted, the other side's id is n-7" in text
    assert "attempt 1 was accepted by the other side but is not confirmed" in text


def test_delivery_that_is_being_sent(cli: Cli) -> None:
    cli.delivery("k")
    lease = cli.claim(name="host:4711")

    text = explained(cli, "1")

    assert re.search(f"attempt 1, {JUST_NOW}: has not ended, under lease {lease}", text)
    assert f"is being sent by worker host:4711 under lease {lease} until 20" in text
    assert "if that worker is dead it is taken over after that" in text


def test_lease_that_ran_out(cli: Cli) -> None:
    cli.delivery("k")
    lease = cli.claim(name="host:4711", hold=timedelta(0))

    assert f"was being sent by worker host:4711, whose lease {lease} ran out" in explained(cli, "1")


def test_explain_says_that_it_was_delivered(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Delivered("n-7"))

    text = explained(cli, "1")

    assert "delivered 20" in text
    assert "by attempt 1, where its id is n-7; nothing more happens" in text


def test_explain_tells_what_was_found_by_a_look_up(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Delivered("n-7", FOUND))

    assert "as attempt 1 has found by asking, where its id is n-7; nothing more happens" in explained(cli, "1")


def test_dead_letter_and_its_generations(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Failed("http_503", "no"), policy=Policy(max_attempts=1))
    before = explained(cli, "1")
    cli("dead-letters", "requeue", "1", *WHY)
    old, new = explained(cli, "1"), explained(cli, "2")

    assert "given up (exhausted) 20" in before
    assert ": last error http_503: no" in before
    assert "requeue with: sendonce dead-letters requeue 1 --reason TEXT\n" in before
    assert "generation 1 after it is delivery 2, Pending\n" in old
    assert "see generation 1 with: sendonce explain delivery:2\n" in old
    assert "requeue with" not in old
    assert "delivery 2 to null:a, generation 1: Pending" in new
    assert "generation 0 before it is delivery 1, DeadLettered" in new
    assert "delivery 1 to" not in explained(cli, "k")
    assert "more: sendonce events show" not in explained(cli, "k"), "an older generation is not one that is left out"


def test_dead_letter_in_doubt_says_what_a_requeue_needs(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Unknown("timeout"), policy=Policy(if_unsure=IfUnsure.HOLD))
    before = explained(cli, "1")
    cli("dead-letters", "requeue", "1", *WHY, "--even-if-sent")

    assert "given up (in_doubt)" in before
    assert "it may have been sent: attempt 1" in before
    assert "requeue 1 --reason TEXT --even-if-sent" in before
    assert "it may have been sent by an earlier generation" in explained(cli, "2")


def test_explain_tells_who_put_it_in_doubt(cli: Cli) -> None:
    cli.delivery("k")
    cli("doubt", "--open", "--wait", "0s", *WHY)
    before = explained(cli, "1")
    cli.attempt(Unknown("held"), policy=Policy(if_unsure=IfUnsure.HOLD))

    sentence = "it may have been sent: a person put all that was open in doubt"
    assert sentence in before
    assert sentence in explained(cli, "1")


def test_explain_tells_cancelled_from_discarded(cli: Cli) -> None:
    cli.delivery("k")
    cli("cancel", "1", "--reason", "not wanted")
    cli("dead-letters", "discard", "1", *WHY, "--operator", "ada")

    text = explained(cli, "1")

    assert "given up (cancelled)" in text
    assert ": not wanted" in text
    assert "its dead letter 1 was discarded by ada" in text


@pytest.mark.parametrize("parked", [False, True], ids=["not parked yet", "parked"])
def test_paused_subscription_holds_it_back(cli: Cli, parked: bool) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:hook")
    cli.publish("k")
    cli("subscriptions", "pause", "1", "--reason", "they asked")
    if parked:
        park(cli)

    text = explained(cli, "1")

    assert "delivery 1 to null:hook, for subscription 1: Pending" in text
    assert "→ waits: subscription 1 is paused (they asked)\n" in text
    assert "→ resume it with: sendonce subscriptions resume 1\n" in text


def test_removed_subscription_ends_it(cli: Cli) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:hook")
    cli.publish("k")
    cli("subscriptions", "remove", "1")

    assert "subscription 1 was removed: the next attempt gives it up" in explained(cli, "1")


@pytest.mark.parametrize("parked", [False, True], ids=["not parked yet", "parked"])
@pytest.mark.parametrize(
    "scope", [["--all"], ["--channel", "null"], ["--destination", "null:hook"], ["--tenant", "acme"]], ids=" ".join
)
def test_stop_holds_it_back(cli: Cli, scope: list[str], parked: bool) -> None:
    cli("subscriptions", "add", "--type", "*", "--to", "null:hook", "--tenant", "acme")
    cli.publish("k", "--tenant", "acme")
    cli("stop", *scope, "--reason", "outage", "--operator", "ada")
    if parked:
        park(cli)

    text = explained(cli, "1")

    spelled = " ".join(scope)
    assert f"held back by stop {spelled} since 20" in text
    assert "by ada (outage)\n" in text
    assert f"→ resume with: sendonce resume {spelled}\n" in text


def test_explain_tells_of_a_late_answer(cli: Cli) -> None:
    cli.delivery("k")
    late_delivered(cli)

    text = explained(cli, "1")

    assert "a late answer has shown" in text
    assert "which completes it without sending" in text


def test_structure_holds_sentences_rows_and_no_payload(cli: Cli) -> None:
    cli.publish("k", "--to", "null:a", "--payload", '"secret-content"')
    cli.attempt(Failed("http_503"))

    ran = cli("explain", "k", "--json")
    explanation = cli.ask(lambda store: explain(store, "k"))

    assert "secret-content" not in str(explanation)
    told = ran.json["events"][0]
    story = told["deliveries"][0]
    assert "secret-content" not in ran.out
    assert told["event"]["key"] == "k"
    assert story["known"]["attempts"][0]["error_code"] == "http_503"
    assert len(story["known"]["token"]) == 40
    assert ran.json["sentences"][0] == told["recorded"]
    assert set(story["whereabouts"]) <= set(ran.json["sentences"])


def test_explain_shows_the_first_of_many_deliveries(lite: Cli) -> None:
    lite.publish("k", *(word for number in range(25) for word in ("--to", f"null:{number}")))

    text = explained(lite, "k")

    assert text.count("\ndelivery ") == 20
    assert text.endswith("and 5 more: sendonce events show 1\n")


def park(cli: Cli) -> None:
    async def work(store: Store) -> None:
        assert (await store.start(1, 100, timedelta(seconds=30))).lease is None

    cli.ask(work)


def late_delivered(cli: Cli) -> None:
    """A worker loses its lease, and its Delivered comes after that."""
    from sendonce.domain.attempts import Report, Result
    from sendonce.domain.decide import complete, wait

    async def work(store: Store) -> None:
        started = await store.start(1, 100, timedelta(0))
        assert started.lease is not None
        lease = started.lease
        await store.expire(
            100, lambda reports: [Result(each, wait(timedelta(minutes=1), in_doubt=True)) for each in reports]
        )
        await store.settle([Result(Report(lease.claims[0], lease.id, Delivered("n-1")), complete())])

    cli.ask(work)


def test_explain_looks_at_no_more_than_the_newest_deliveries(lite: Cli) -> None:
    lite.publish("k", *(word for number in range(1001) for word in ("--to", f"null:{number}")))

    text = explained(lite, "k")

    assert "\n  only the newest 1,000 of its deliveries were looked at\n" in text
    assert text.endswith("and 980 more: sendonce events show 1\n")
