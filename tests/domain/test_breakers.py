"""Breakers, whatever happens to them: how long they wait, whom they listen to, and how much they let out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendonce.domain.breakers import (
    ENOUGH,
    FIRST_ROUND,
    Answers,
    Breaker,
    LetOut,
    Pauses,
    give_back,
    learn,
    let_out,
    opened,
)

S = timedelta(seconds=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAUSES = Pauses(first=10 * S, longest=300 * S)
HOLD = 30 * S
THROUGH, FAILED, UNTOLD = Answers(through=1), Answers(failed=1, code="http_503"), Answers(untold=1)


def an_open_one(**changes: object) -> Breaker:
    return replace(opened(NOW, PAUSES.first, code="http_503"), **changes)  # type: ignore[arg-type]


def a_ramping_one(**changes: object) -> Breaker:
    probing, out = let_out(an_open_one(), 1, NOW + 10 * S, HOLD)
    ramping = learn(probing, out.turn, THROUGH, NOW + 10 * S, PAUSES)
    assert ramping is not None
    return replace(ramping, **changes)  # type: ignore[arg-type]


def probed(breaker: Breaker, now: datetime, answers: Answers) -> Breaker:
    probing, out = let_out(breaker, 1, now, HOLD)
    assert out.amount == 1
    after = learn(probing, out.turn, answers, now, PAUSES)
    assert after is not None
    return after


class TestOpen:
    def test_breaker_lets_one_probe_out_after_its_pause(self) -> None:
        early, none = let_out(an_open_one(), 5, NOW + 9.99 * S, HOLD)
        probing, one = let_out(an_open_one(), 5, NOW + 10 * S, HOLD)

        assert (early, none.amount) == (an_open_one(), 0)
        assert (one.amount, probing.is_probing, probing.on_way) == (1, True, 1)

    def test_breaker_lets_out_another_probe_when_the_first_sender_must_be_dead(self) -> None:
        probing, first = let_out(an_open_one(), 1, NOW + 10 * S, HOLD)

        assert let_out(probing, 1, NOW + 39 * S, HOLD)[1].amount == 0
        again, second = let_out(probing, 1, NOW + 40 * S, HOLD)
        assert second.amount == 1
        assert learn(again, first.turn, THROUGH, NOW + 41 * S, PAUSES) == again, "it was given up: nobody listens"

    def test_failed_probe_waits_for_longer_and_longer_but_not_for_long_after_a_short_outage(self) -> None:
        breaker, now, pauses = an_open_one(), NOW, []
        while breaker.pause < PAUSES.longest:
            now = breaker.probe_at
            breaker = probed(breaker, now, FAILED)
            pauses.append(breaker.pause / S)

        assert pauses[:5] == [10, 10, 10, pytest.approx(13.33, abs=0.01), pytest.approx(17.78, abs=0.01)]
        assert pauses[-1] == 300

    def test_probe_that_says_nothing_is_made_again_after_the_same_pause(self) -> None:
        breaker = probed(an_open_one(pause=40 * S), NOW + 100 * S, UNTOLD)

        assert (breaker.pause, breaker.probe_at) == (40 * S, NOW + 140 * S)

    def test_probe_that_was_not_sent_is_anybodys_at_once(self) -> None:
        probing, out = let_out(an_open_one(), 1, NOW + 10 * S, HOLD)
        back = give_back(probing, out.turn, 1, NOW + 10 * S)

        assert (back.is_probing, back.pause) == (False, 10 * S)
        assert let_out(back, 1, NOW + 10 * S, HOLD)[1].amount == 1

    def test_probes_that_follow_each_other_look_at_far_places(self) -> None:
        breaker, now, seen = an_open_one(), NOW, []
        for _ in range(20):
            now += 400 * S
            breaker, out = let_out(breaker, 1, now, HOLD)
            assert out.spread is not None
            seen.append(out.spread)

        assert all(0 <= place < 1 for place in seen)
        assert {int(place * 5) for place in seen} == set(range(5))


class TestRamping:
    def test_probe_that_gets_through_is_followed_by_a_small_round_and_forgets_the_pause(self) -> None:
        breaker = probed(an_open_one(pause=200 * S), NOW + 900 * S, THROUGH)

        assert (breaker.allowance, breaker.is_probing, breaker.pause) == (FIRST_ROUND, False, 10 * S)

    def test_breaker_lets_out_its_share_whoever_takes_them(self) -> None:
        breaker = a_ramping_one(allowance=8)
        breaker, first = let_out(breaker, 5, NOW, HOLD)
        breaker, second = let_out(breaker, 5, NOW, HOLD)
        breaker, third = let_out(breaker, 5, NOW, HOLD)

        assert (first.amount, second.amount, third.amount) == (5, 3, 0)
        after = learn(breaker, breaker.turn, UNTOLD, NOW, PAUSES)
        assert after is not None
        assert let_out(after, 5, NOW, HOLD)[1].amount == 1

    def test_breaker_takes_back_probes_that_were_not_sent(self) -> None:
        breaker, out = let_out(a_ramping_one(), 2, NOW, HOLD)

        assert let_out(give_back(breaker, out.turn, 1, NOW), 2, NOW, HOLD)[1].amount == 1

    def test_breaker_takes_back_probes_of_dead_workers_after_a_while(self) -> None:
        breaker, _ = let_out(a_ramping_one(), 2, NOW, HOLD)

        assert let_out(breaker, 2, NOW + 29 * S, HOLD)[1].amount == 0
        assert let_out(breaker, 2, NOW + 30 * S, HOLD)[1].amount == 2

    @pytest.mark.parametrize("allowance", [2, 4, 8, 16, 32])
    def test_breaker_stays_closed_after_one_failure(self, allowance: int) -> None:
        after = learn(a_ramping_one(allowance=allowance), a_ramping_one().turn, FAILED, NOW, PAUSES)

        assert after is not None
        assert (after.allowance, after.failed) == (allowance, 1)

    @pytest.mark.parametrize(
        ("allowance", "through", "failed", "becomes"),
        [
            (2, 1, 1, 4), (2, 0, 2, 0), (4, 1, 3, 8), (4, 0, 4, 0), (4, 0, 3, 4), (8, 2, 6, 16), (8, 1, 7, 0),
            (8, 1, 6, 8), (16, 4, 0, 32), (16, 3, 13, 0), (16, 3, 12, 16), (32, 7, 25, 0),
        ],
    )  # fmt: skip
    def test_round_goes_well_when_one_of_four_gets_through(
        self, allowance: int, through: int, failed: int, becomes: int
    ) -> None:
        breaker = a_ramping_one(allowance=allowance)
        after = learn(breaker, breaker.turn, Answers(through=through, failed=failed), NOW, PAUSES)

        assert after is not None
        assert after.allowance == becomes

    def test_next_outage_begins_when_a_round_has_failed(self) -> None:
        breaker, now = a_ramping_one(), NOW + 500 * S
        after = learn(breaker, breaker.turn, Answers(failed=2, code="timeout"), now, PAUSES)

        assert after == replace(opened(now, PAUSES.first, code="timeout"), turn=breaker.turn + 1)

    def test_breaker_keeps_the_last_error(self) -> None:
        refused = Answers(failed=1, code="connection_refused")
        failing = a_ramping_one(allowance=8, failed=7)

        assert (FAILED + refused).code == (FAILED + refused + THROUGH).code == "connection_refused"
        for last, code in ((THROUGH, "http_503"), (refused, "connection_refused")):
            again = learn(failing, failing.turn, last, NOW, PAUSES)
            assert again is not None
            assert (again.allowance, again.error_code) == (0, code)

    def test_breaker_closes_when_enough_were_let_out_at_once(self) -> None:
        breaker: Breaker | None = a_ramping_one()
        rounds = []
        while breaker is not None:
            rounds.append(breaker.allowance)
            breaker = learn(breaker, breaker.turn, Answers(through=breaker.allowance), NOW, PAUSES)

        assert rounds == [2, 4, 8, 16, 32]
        assert rounds[-1] * 2 == ENOUGH


# Whatever happens, in any order: time passes, somebody takes what there is, says what came of it, or gives it back.
@dataclass(frozen=True)
class Step:
    seconds: float
    does: str
    answers: Answers
    whose: int


STEPS = st.lists(
    st.builds(
        Step,
        seconds=st.one_of(st.just(0.0), st.floats(0, 20), st.floats(0, 2000)),
        does=st.sampled_from(["take", "tell", "tell", "give back", "die"]),
        answers=st.builds(
            Answers, through=st.integers(0, 3), failed=st.integers(0, 3), untold=st.integers(0, 1), code=st.none()
        ),
        whose=st.integers(0, 5),
    ),
    max_size=60,
)


@dataclass(frozen=True)
class Seen:
    before: Breaker
    after: Breaker | None
    at: datetime
    step: Step
    turn: int | None


def played(steps: Sequence[Step]) -> list[Seen]:
    """What becomes of a breaker that is opened and to which all this happens; it ends when it is closed."""
    breaker: Breaker = an_open_one()
    now, seen = NOW, list[Seen]()
    taken: list[LetOut] = []
    for step in steps:
        now += step.seconds * S
        after: Breaker | None = breaker
        turn = None
        if step.does == "take":
            after, out = let_out(breaker, 3, now, HOLD)
            taken += [out] if out.amount else []
        elif taken and step.does != "die":
            out = taken.pop(step.whose % len(taken))
            turn = out.turn
            if step.does == "tell":
                after = learn(breaker, turn, step.answers, now, PAUSES)
            else:
                after = give_back(breaker, turn, out.amount, now)
        seen.append(Seen(breaker, after, now, step, turn))
        if after is None:
            break
        breaker = after
    return seen


@given(STEPS)
def test_pause_grows_only_by_a_probe_that_failed(steps: Sequence[Step]) -> None:
    for seen in played(steps):
        if seen.after is not None and seen.after.pause > seen.before.pause:
            assert seen.before.is_probing
            assert seen.step.does == "tell"
            assert seen.step.answers.failed
            assert not seen.step.answers.through
            assert seen.turn == seen.before.turn
            assert seen.after.pause <= 2 * seen.before.pause


@given(STEPS)
def test_breaker_pause_is_at_most_half_of_the_outage_or_the_first_pause(steps: Sequence[Step]) -> None:
    for seen in played(steps):
        if seen.after is None or seen.after == seen.before:
            continue
        outage = seen.at - seen.after.opened_at
        assert seen.after.pause <= max(PAUSES.first, outage / 2)
        assert seen.after.pause <= PAUSES.longest
        if not seen.after.allowance and not seen.after.is_probing:
            assert seen.after.probe_at <= seen.at + seen.after.pause
        assert seen.after.probe_at <= seen.at + max(seen.after.pause, HOLD)


@given(STEPS)
def test_probe_that_gets_through_sets_the_pause_back(steps: Sequence[Step]) -> None:
    for seen in played(steps):
        if seen.after is not None and seen.after.allowance:
            assert seen.after.pause == PAUSES.first


@given(STEPS)
def test_breaker_ignores_results_from_before_its_last_change(steps: Sequence[Step]) -> None:
    for seen in played(steps):
        if seen.turn is not None and seen.turn != seen.before.turn:
            assert seen.after == seen.before


@given(STEPS)
def test_breaker_never_lets_out_more_than_its_share(steps: Sequence[Step]) -> None:
    for seen in played(steps):
        if seen.after is not None:
            assert 0 <= seen.after.on_way <= max(1, seen.after.allowance)


@given(STEPS)
def test_change_of_state_begins_a_new_turn(steps: Sequence[Step]) -> None:
    def state(breaker: Breaker) -> tuple[bool, bool]:
        return breaker.is_probing, breaker.allowance > 0

    for seen in played(steps):
        if seen.after is not None:
            assert seen.after.turn >= seen.before.turn
            if state(seen.after) != state(seen.before):
                assert seen.after.turn > seen.before.turn


@given(share=st.floats(0.02, 1.0), seed=st.integers(0, 10_000))
def test_breaker_gives_a_receiver_that_answers_some_its_share(share: float, seed: int) -> None:
    """One after the other, for ten minutes: there is never more than a pause between two sends."""
    dice, breaker, now = Random(seed), an_open_one(), NOW
    through = sends = 0
    last = NOW
    while now < NOW + 600 * S:
        after, out = let_out(breaker, 1, now, HOLD)
        if not out.amount:
            assert now - last <= max(PAUSES.first, (now - breaker.opened_at) / 2)
            now = breaker.probe_at
            continue
        last, sends = now, sends + 1
        gets_through = dice.random() < share
        through += gets_through
        learnt = learn(after, out.turn, THROUGH if gets_through else FAILED, now, PAUSES)
        if learnt is None:
            return
        breaker = learnt
        now += S
    assert sends >= 8
    assert through or share < 0.7


@given(outage=st.floats(30, 3600))
def test_breaker_finds_a_receiver_again_within_half_of_its_outage(outage: float) -> None:
    """Half a minute: within fifteen seconds, with two seconds for a worker to look."""
    breaker, recovery = an_open_one(), NOW + outage * S
    while breaker.probe_at < recovery:
        breaker = probed(breaker, breaker.probe_at, FAILED)

    assert breaker.probe_at - recovery <= min(outage * S / 2 - 2 * S, PAUSES.longest)
