"""What the receiver does with an order."""

import json

from sendonce.demo.inbox import Counts, Inbox
from sendonce.demo.plan import KILL_AT, ORDERS, REFUSED, ROLLED_BACK, SLOTS, TIMEOUT_SECONDS, WAVES, Mood, answer_to


def test_an_order_with_a_known_token_is_not_acted_upon_again() -> None:
    inbox = Inbox()
    answers = [inbox.take(1, "token", Mood.WELL) for _ in range(3)]

    assert all(answer.is_yes for answer in answers)
    assert inbox.counts().acted == {1: 1}
    assert inbox.counts().recognised == {1: 2}
    assert not inbox.counts().doubled


def test_an_order_without_a_token_is_acted_upon_each_time() -> None:
    inbox = Inbox()
    for _ in range(2):
        inbox.take(1, None, Mood.WELL)

    assert inbox.counts().acted == {1: 2}
    assert inbox.counts().doubled == {1}


def test_what_is_turned_away_is_not_acted_upon_and_its_token_stays_unknown() -> None:
    inbox = Inbox()
    inbox.take(48, "token", Mood.BUSY)
    inbox.take(50, "other", Mood.WELL)

    assert inbox.take(48, "token", Mood.WELL).is_yes
    assert inbox.counts().acted == {48: 1}
    assert inbox.counts().refused == {50: 1}
    assert inbox.counts().busy == 1


def test_what_is_not_answered_yet_is_in_flight() -> None:
    inbox = Inbox()
    for order in (1, 2, 3):
        inbox.take(order, None, Mood.SLOW)
    inbox.answered(is_heard=True)
    inbox.answered(is_heard=False)

    counts = inbox.counts()
    assert (counts.in_flight, counts.heard, counts.unheard) == (1, 1, 1)


def test_counts_survive_the_wire() -> None:
    counts = Counts(acted={1: 2}, recognised={3: 1}, refused={50: 1}, busy=4, in_flight=5, heard=6, unheard=7)

    assert Counts.from_json(json.loads(json.dumps(counts.as_json()))) == counts


def test_the_plan_is_what_is_announced() -> None:
    assert len(ORDERS) == 60
    assert len(ROLLED_BACK) == 5
    assert set(WAVES[2]) - ROLLED_BACK >= REFUSED
    assert KILL_AT <= SLOTS


def test_a_slow_receiver_is_sometimes_slower_than_anybody_waits() -> None:
    seconds = {order: answer_to(order, Mood.SLOW).seconds for order in WAVES[0]}

    assert {each > TIMEOUT_SECONDS for each in seconds.values()} == {True, False}
