"""Policies: every number checked when read, and the formula of the delays."""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendonce.domain.policies import (
    DEFAULT_POLICY,
    IfUnsure,
    Policy,
    next_delay,
    override,
    parse_policy,
    span,
    spread_of,
)
from sendonce.errors import ConfigError
from tests.domain.values import policies, spreads

S, H, D = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
EXACT = Policy(first_delay=10 * S, longest_delay=100 * S, jitter=0)


@pytest.mark.parametrize(
    ("attempt", "delay"),
    [(-3, 10), (0, 10), (1, 10), (2, 20), (3, 40), (4, 80), (5, 100), (6, 100), (10**9, 100)],
)
def test_W10_backoff_is_base_times_two_to_the_attempt_minus_one_capped(attempt: int, delay: int) -> None:
    assert next_delay(EXACT, attempt, 0.7) == delay * S


@given(policy=policies(), attempt=st.integers(1, 30))
def test_W10_backoff_is_the_documented_formula(policy: Policy, attempt: int) -> None:
    formula = min(policy.longest_delay, policy.first_delay * 2 ** (attempt - 1))

    assert next_delay(policy, attempt, 0) == formula


@given(policy=policies(), spread=spreads)
def test_W10_backoff_never_gets_shorter_from_one_attempt_to_the_next(policy: Policy, spread: float) -> None:
    delays = [next_delay(policy, attempt, spread) for attempt in range(1, 60)]

    assert all(earlier <= later for earlier, later in pairwise(delays))


@given(policy=policies(), attempt=st.integers(1, 10_000), spread=spreads)
def test_W10_jitter_shortens_by_at_most_its_share(policy: Policy, attempt: int, spread: float) -> None:
    full = next_delay(policy, attempt, 0)
    rounding = timedelta(microseconds=1)

    assert full * (1 - policy.jitter) - rounding <= next_delay(policy, attempt, spread) <= full
    assert full <= policy.longest_delay


@given(delivery_id=st.integers(1, 2**63 - 1), attempt=st.integers(1, 10_000))
def test_W10_spread_is_reproducible_and_below_one(delivery_id: int, attempt: int) -> None:
    assert 0 <= spread_of(delivery_id, attempt) < 1
    assert spread_of(delivery_id, attempt) == spread_of(delivery_id, attempt)


def test_W10_formula_of_the_page_is_the_one_and_its_example_is_right() -> None:
    page = (Path(__file__).parents[2] / "docs/about/how-it-works.md").read_text("utf-8")
    mask = 2**64 - 1

    x = (42 * 0x9E3779B97F4A7C15 + 3 * 0xD1B54A32D192ED03) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    x = x ^ (x >> 31)
    spread = (x >> 11) / 2**53
    delay = next_delay(DEFAULT_POLICY, 3, spread_of(42, 3))

    assert spread_of(42, 3) == spread
    assert delay == timedelta(seconds=40) * (1 - 0.1 * spread)
    assert f"`spread` is {spread:.6f}" in page
    assert f"(1 − 0.1 · {spread:.6f}) = {delay.total_seconds():.3f} seconds" in page
    for number in ("0x9E3779B97F4A7C15", "0xD1B54A32D192ED03", "0xBF58476D1CE4E5B9", "0x94D049BB133111EB"):
        assert number in page


@pytest.mark.parametrize(
    ("max_attempts", "first", "longest", "seconds"),
    [(1, 10, 10, 10), (1, 10, 100, 10), (3, 10, 100, 70), (4, 10, 80, 150), (5, 10, 80, 230), (5, 10, 79, 228)],
)
def test_span_of_a_policy_is_the_sum_of_its_delays(max_attempts: int, first: int, longest: int, seconds: int) -> None:
    policy = Policy(
        max_attempts=max_attempts, first_delay=timedelta(seconds=first), longest_delay=timedelta(seconds=longest)
    )

    assert span(policy) == timedelta(seconds=seconds)


@given(policy=policies())
def test_span_is_the_sum_for_every_policy(policy: Policy) -> None:
    delays = [next_delay(policy, attempt, 0.0) for attempt in range(1, policy.max_attempts + 1)]

    assert span(policy) == sum(delays, timedelta(0))


def test_D6_span_of_the_default_is_more_than_a_day() -> None:
    assert timedelta(hours=28) < span(DEFAULT_POLICY) < timedelta(hours=29)


@pytest.mark.parametrize("series", [[(n, 1) for n in range(1, 10_001)], [(7, n) for n in range(1, 10_001)]])
def test_spread_is_even_over_neighbours(series: list[tuple[int, int]]) -> None:
    tenths = [0] * 10
    for delivery_id, attempt in series:
        tenths[int(spread_of(delivery_id, attempt) * 10)] += 1

    assert all(850 <= count <= 1150 for count in tenths)


@pytest.mark.parametrize("spread", [0.0, 0.999999])
def test_W11_default_outlasts_a_day_of_outage_whatever_the_jitter(spread: float) -> None:
    delays = [next_delay(DEFAULT_POLICY, attempt, spread) for attempt in range(1, DEFAULT_POLICY.max_attempts)]

    assert sum(delays, timedelta(0)) > D


def test_W11_settings_of_a_subscription_go_over_the_default() -> None:
    policy = parse_policy(DEFAULT_POLICY, '{"max_attempts": 5, "first_delay": "2s", "if_unsure": "hold"}')

    assert policy == Policy(max_attempts=5, first_delay=2 * S, if_unsure=IfUnsure.HOLD)


@pytest.mark.parametrize("text", [None, "", "{}"])
def test_policy_without_settings_is_unchanged(text: str | None) -> None:
    assert parse_policy(EXACT, text) == EXACT


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("max_attempts", 7, 7),
        ("max_attempts", 7.0, 7),
        ("longest_delay", "2h", 2 * H),
        ("timeout", 1.5, 1.5 * S),
        ("doubt_wait", 0, timedelta(0)),
        ("retry_after_cap", "30d", 30 * D),
        ("jitter", 1, 1.0),
        ("if_unsure", "hold", IfUnsure.HOLD),
        ("if_unsure", IfUnsure.RESEND, IfUnsure.RESEND),
        ("first_delay", timedelta(seconds=3), 3 * S),
    ],
)
def test_settings_are_read(name: str, value: object, read: object) -> None:
    assert getattr(override(DEFAULT_POLICY, {name: value}), name) == read


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("max_attempts", 0, "between 1 and 10000"),
        ("max_attempts", 10_001, "between 1 and 10000"),
        ("max_attempts", 1.5, "whole number"),
        ("max_attempts", "5", "whole number"),
        ("max_attempts", True, "whole number"),
        ("max_attempts", float("inf"), "whole number"),
        ("max_attempts", None, "whole number"),
        ("first_delay", 0, "first_delay"),
        ("first_delay", "2h", "longest_delay"),
        ("first_delay", "soon", "30s"),
        ("first_delay", None, "30s"),
        ("longest_delay", "31d", "30 days"),
        ("longest_delay", 1e300, "30s"),
        ("jitter", 1.1, "between 0 and 1"),
        ("jitter", -0.1, "between 0 and 1"),
        ("jitter", float("nan"), "between 0 and 1"),
        ("jitter", "much", "between 0 and 1"),
        ("timeout", 0, "timeout"),
        ("timeout", "61m", "timeout"),
        ("doubt_wait", -1, "doubt_wait"),
        ("retry_after_cap", "31d", "retry_after_cap"),
        ("if_unsure", "maybe", "resend or hold"),
        ("retries", 5, "unknown policy setting 'retries'"),
    ],
)
def test_policy_setting_that_is_wrong_is_refused_by_name(name: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        override(DEFAULT_POLICY, {name: value})

    assert name in str(refused.value)


@pytest.mark.parametrize("text", ["[]", "5", "{", "null "])
def test_policy_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="JSON object"):
        parse_policy(DEFAULT_POLICY, text)
