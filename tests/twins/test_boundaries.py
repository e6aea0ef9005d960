"""Both sides of every comparison with the clock, to the microsecond, on both databases at once."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from sendonce.domain.attempts import Lease, Report, Result, resolve
from sendonce.domain.outcomes import Delivered, Failed, Outcome, Refused, Unknown
from sendonce.domain.policies import Policy
from sendonce.outbox.outbox import Outbox
from sendonce.store.bulk import CANCEL, REPLAY, REQUEUE
from sendonce.store.filters import Filter
from sendonce.store.records import ALIVE
from sendonce.store.upkeep import REST, Stage, Turn
from tests.twins.follower import Follower
from tests.twins.pair import Pair

US, S = timedelta(microseconds=1), timedelta(seconds=1)
HOLD = 60 * S
POLICY = Policy(max_attempts=3, first_delay=10 * S, longest_delay=100 * S, jitter=0, doubt_wait=30 * S)
WHO = {"operator": "ada", "reason": "because"}
# Just before a moment, at it, and just after it.
SIDES = pytest.mark.parametrize("side", [-US, 0 * US, US], ids=["before", "at", "after"])


@pytest.fixture
def pair(follower: Follower) -> Iterator[Pair]:
    pair = Pair(follower)
    yield pair
    pair.compare()
    pair.close()


def publish(pair: Pair, key: str = "k", to: str = "null:a", **arguments: Any) -> int:
    event_id: int = pair.record(Outbox().publish, "memo.created", {}, key=key, to=to, **arguments).event_id
    return event_id


def claim(pair: Pair) -> Lease:
    lease: Lease = pair.call("start", 1, 10, HOLD).lease
    return lease


def settle(pair: Pair, outcome: Outcome, *, can_look_up: bool = False) -> Lease:
    lease = claim(pair)
    pair.call("settle", decided([Report(each, lease.id, outcome) for each in lease.claims], can_look_up=can_look_up))
    return lease


def decided(reports: Any, *, can_look_up: bool = False) -> list[Result]:
    return [resolve(report, POLICY, can_look_up=can_look_up) for report in reports]


def is_claimed(pair: Pair) -> bool:
    return pair.call("start", 1, 10, HOLD).lease is not None


@SIDES
def test_delivery_due_now_is_due(pair: Pair, side: timedelta) -> None:
    publish(pair, deliver_at=pair.now + S)

    pair.advance(S + side)

    is_due = side >= 0 * S
    assert pair.call("status").due == is_due
    assert pair.call("status").scheduled == (not is_due)
    assert pair.call("is_idle") is not is_due
    assert (pair.call("readings", HOLD).oldest_due_at is not None) is is_due
    assert is_claimed(pair) is is_due


@SIDES
def test_retry_comes_when_its_wait_is_over(pair: Pair, side: timedelta) -> None:
    publish(pair)
    settle(pair, Failed("503"))

    pair.advance(10 * S + side)

    assert is_claimed(pair) is (side >= 0 * S)


@SIDES
def test_lease_that_ends_now_is_over(pair: Pair, side: timedelta) -> None:
    publish(pair)
    lease = claim(pair)

    pair.advance(HOLD + side)

    is_over = side >= 0 * S
    assert pair.call("renew", [lease.id], 0 * S) == (set() if is_over else {lease.id})
    assert pair.call("verify_facts").expired_leases == (side > 0 * S)
    assert len(pair.call("expire", 10, decided)) == 1


@SIDES
def test_lease_is_closed_when_it_ends_and_not_before(pair: Pair, side: timedelta) -> None:
    publish(pair)
    claim(pair)

    pair.advance(HOLD + side)

    assert len(pair.call("expire", 10, decided)) == (side >= 0 * S)


@SIDES
@pytest.mark.parametrize(("verb", "named"), [("start", {}), ("start_doubtful", {"after": 0})])
def test_doubt_is_left_alone_until_its_moment_and_no_longer(
    pair: Pair, side: timedelta, verb: str, named: dict[str, Any]
) -> None:
    publish(pair)
    pair.call("doubt", 0, 10, wait=30 * S)

    pair.advance(30 * S + side)

    assert (pair.call(verb, 1, 10, HOLD, **named).lease is not None) is (side >= 0 * S)


@SIDES
def test_delivery_scheduled_for_later_than_the_wait_stays_so_when_put_in_doubt(pair: Pair, side: timedelta) -> None:
    publish(pair, deliver_at=pair.now + 90 * S)
    pair.call("doubt", 0, 10, wait=30 * S)

    pair.advance(90 * S + side)

    assert is_claimed(pair) is (side >= 0 * S)


@SIDES
def test_doubt_that_an_attempt_leaves_waits_as_long_as_the_policy_says(pair: Pair, side: timedelta) -> None:
    publish(pair)
    settle(pair, Unknown("timeout"), can_look_up=True)

    pair.advance(30 * S + side)

    assert is_claimed(pair) is (side >= 0 * S)


@SIDES
def test_claim_says_to_the_microsecond_how_much_time_is_left(pair: Pair, side: timedelta) -> None:
    publish(pair, expires_at=pair.now + S)
    pair.advance(S + side)

    [only] = claim(pair).claims

    assert only.seconds_left == pytest.approx(-side.total_seconds(), abs=1e-9)


@SIDES
def test_breaker_lets_a_probe_out_when_its_pause_is_over(pair: Pair, side: timedelta) -> None:
    pair.call("trip", "place:deaf", pause=30 * S, code="503")

    pair.advance(30 * S + side)

    assert pair.call("let_out", "place:deaf", 5, HOLD).amount == (side >= 0 * S)


@SIDES
def test_breaker_is_forgotten_when_nobody_has_touched_it_for_longer_than_its_age(pair: Pair, side: timedelta) -> None:
    pair.call("trip", "place:deaf", pause=S, code="503")

    pair.advance(100 * S + side)

    assert pair.call("forget_breakers", 100 * S) == (side > 0 * S)


@SIDES
def test_secret_is_good_until_it_ends(pair: Pair, side: timedelta) -> None:
    added = pair.call(
        "add_subscription", tenant="", types=["*"], destination="null:a", policy=None, description=None,
        operator="ada", secrets=lambda _: {"signing": b"plain:old"},
    )  # fmt: skip
    pair.call("rotate_secret", added, b"plain:new", overlap=S, **WHO)

    pair.advance(S + side)

    good = 2 if side < 0 * S else 1
    [found] = pair.call("secrets_of", [added])
    assert len(found.secrets) == good
    assert len(pair.call("kept_secrets", added)) == good
    assert pair.call("drop_rest", limit=10, workers=None, operations=None) == 2 - good


@SIDES
def test_worker_is_alive_for_less_than_so_long_after_it_was_seen(pair: Pair, side: timedelta) -> None:
    worker_id = pair.call("register", "w", "1", 4, is_listening=True)

    pair.advance(ALIVE + side)

    is_alive = side < 0 * S
    assert pair.call("is_eldest", worker_id) is is_alive
    assert len(pair.call("status").workers) == is_alive
    assert pair.call("verify_facts").workers == is_alive


@SIDES
def test_alert_is_told_again_when_so_long_has_passed(pair: Pair, side: timedelta) -> None:
    assert pair.call("raise_alert", "a", "m", seen=1, repeat=60 * S)

    pair.advance(60 * S + side)

    assert pair.call("raise_alert", "a", "m", seen=1, repeat=60 * S) is (side >= 0 * S)


@SIDES
def test_findings_count_for_less_than_the_window(pair: Pair, side: timedelta) -> None:
    publish(pair)
    pair.call("add_finding", 1, kind="no_evidence", details="x")

    pair.advance(60 * S + side)

    assert pair.call("readings", 60 * S).findings == (side < 0 * S)


@SIDES
@pytest.mark.parametrize("stage", Stage)
def test_retention_takes_what_has_ended_longer_ago_than_its_age(pair: Pair, side: timedelta, stage: Stage) -> None:
    publish(pair)
    pair.advance(5 * S)
    settle(pair, Delivered("n"))

    pair.advance(100 * S + side)

    wanted: dict[str, Any] = {"limit": 10, "age": 100 * S}
    assert pair.call("count_old", stage, 0, **wanted).events == (side > 0 * S)
    assert pair.call("retain", stage, 0, **wanted).events == (side > 0 * S)


@SIDES
@pytest.mark.parametrize("part", [*Stage, REST])
def test_turn_is_due_when_its_wait_is_over(pair: Pair, side: timedelta, part: str) -> None:
    first, second = Turn(1, 60 * S), Turn(2, 60 * S)
    assert pair.call("take_turn", str(part), first, whole=3600 * S) == 0
    pair.call("end_turn", str(part), first, wait=60 * S)

    pair.advance(60 * S + side)

    assert pair.call("take_turn", str(part), second, whole=3600 * S) == (0 if side >= 0 * S else None)


@SIDES
def test_workers_and_operations_are_dropped_when_they_are_older_than_their_age(pair: Pair, side: timedelta) -> None:
    pair.call("leave", pair.call("register", "w", "1", 4))
    pair.call("stop", "all", "", **WHO)

    pair.advance(100 * S + side)

    assert pair.call("drop_rest", limit=10, workers=100 * S, operations=None) == (side > 0 * S)
    assert pair.call("drop_rest", limit=10, workers=None, operations=100 * S) == (side > 0 * S)


@SIDES
def test_lists_begin_with_what_was_made_at_that_moment(pair: Pair, side: timedelta) -> None:
    publish(pair)
    publish(pair, "given up", "null:b")
    settle(pair, Refused("410"))
    since = pair.now + side

    is_shown = side <= 0 * S
    assert len(pair.call("events", Filter(since=since))) == 2 * is_shown
    assert len(pair.call("deliveries", Filter(since=since))) == 2 * is_shown
    assert len(pair.call("dead_letters", Filter(since=since))) == 2 * is_shown


@SIDES
@pytest.mark.parametrize("kind", [REQUEUE, REPLAY, CANCEL])
def test_selection_has_its_first_moment_and_not_its_last(pair: Pair, side: timedelta, kind: str) -> None:
    publish(pair)
    if kind != CANCEL:
        settle(pair, Refused("410"))

    def found(**wanted: Any) -> int:
        return len(pair.call("match", kind, Filter(**wanted), after=0, upper=10, window=10).found)

    assert found(since=pair.now + side) == (side <= 0 * S)
    assert found(until=pair.now + side) == (side > 0 * S)


@SIDES
def test_delivery_completed_since_a_moment_was_completed_then_or_later(pair: Pair, side: timedelta) -> None:
    publish(pair)
    settle(pair, Delivered("n"))

    assert len(pair.call("completed_after", 0, since=pair.now + side, limit=5).rows) == (side <= 0 * S)


@pytest.mark.parametrize(("passed", "tokens"), [(S / 2 - US, 0), (S / 2, 1), (S - US, 1), (S, 2)])
def test_token_is_there_when_its_part_of_a_second_is_over(pair: Pair, passed: timedelta, tokens: int) -> None:
    added = pair.call(
        "add_subscription", tenant="", types=["*"], destination="null:a", policy=None, description=None,
        operator="ada", rate=2.0,
    )  # fmt: skip
    while pair.call("take_tokens", added, 10):
        pass

    pair.advance(passed)

    assert pair.call("take_tokens", added, 10) == tokens


@SIDES
@pytest.mark.parametrize("stage", Stage)
def test_retention_looks_at_what_was_recorded_longer_ago_than_its_age(
    pair: Pair, side: timedelta, stage: Stage
) -> None:
    event_id = publish(pair)

    pair.advance(100 * S + side)

    assert pair.call("count_old", stage, 0, limit=10, age=100 * S).last_id == (event_id if side > 0 * S else None)


@SIDES
def test_secret_that_has_ended_is_gone_with_the_next_rotation(pair: Pair, side: timedelta) -> None:
    added = pair.call(
        "add_subscription", tenant="", types=["*"], destination="null:a", policy=None, description=None,
        operator="ada", secrets=lambda _: {"signing": b"plain:old"},
    )  # fmt: skip
    pair.call("rotate_secret", added, b"plain:new", overlap=S, **WHO)

    pair.advance(S + side)
    pair.call("rotate_secret", added, b"plain:newest", overlap=S, **WHO)

    assert len(pair.ids("select id from sendonce_subscription_secrets")) == (3 if side < 0 * S else 2)
