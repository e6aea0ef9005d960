"""Whose fault an outcome is, and which breaker counts it."""

import pytest

from sendonce.domain.outcomes import (
    LEASE_EXPIRED,
    Accepted,
    Deferred,
    Delivered,
    Failed,
    Fault,
    Outcome,
    Refused,
    Unknown,
    counts_for_breaker,
    fault_of,
    is_our_own,
)

BAD = (Refused, Failed, Unknown, Deferred)
NOT_ARRIVED = (Failed, Unknown, Deferred)


@pytest.mark.parametrize("outcome", [Delivered(), Delivered("1"), Accepted("1")])
def test_outcome_that_arrived_is_nobodys_fault(outcome: Outcome) -> None:
    assert fault_of(outcome) is None


@pytest.mark.parametrize("kind", BAD)
def test_channel_that_does_not_say_means_the_destination(kind: type[Failed]) -> None:
    assert fault_of(kind("busy")) is Fault.DESTINATION


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("code", ["busy", "our_server"])
def test_fault_that_a_channel_names_counts(kind: type[Failed], fault: Fault, code: str) -> None:
    assert fault_of(kind(code, fault=fault)) is fault


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (Deferred("our_server"), Fault.CHANNEL),
        (Deferred("ours"), Fault.DESTINATION),
        (Failed("our_server"), Fault.DESTINATION),
        (LEASE_EXPIRED, Fault.OURS),
    ],
)
def test_code_of_ours_is_the_channels_where_it_defers(outcome: Outcome, fault: Fault) -> None:
    assert fault_of(outcome) is fault


@pytest.mark.parametrize("kind", NOT_ARRIVED)
@pytest.mark.parametrize(
    ("fault", "by_destination", "by_channel"),
    [
        (Fault.RECIPIENT, False, False),
        (Fault.DESTINATION, True, False),
        (Fault.CHANNEL, True, True),
        (Fault.OURS, False, False),
    ],
)
def test_channels_breaker_counts_what_is_the_channels_own(
    kind: type[Failed], fault: Fault, by_destination: bool, by_channel: bool
) -> None:
    outcome = kind("busy", fault=fault)

    assert counts_for_breaker(outcome, of_channel=False) is by_destination
    assert counts_for_breaker(outcome, of_channel=True) is by_channel


@pytest.mark.parametrize("outcome", [Delivered(), Accepted("1"), *(Refused("no", fault=fault) for fault in Fault)])
@pytest.mark.parametrize("of_channel", [True, False])
def test_breaker_does_not_count_what_was_answered(outcome: Outcome, of_channel: bool) -> None:
    assert not counts_for_breaker(outcome, of_channel=of_channel)


@pytest.mark.parametrize(
    ("outcome", "is_own"),
    [
        (Deferred("our_server"), True),
        (Deferred("our_server", fault=Fault.CHANNEL), True),
        (Deferred("no_secret", fault=Fault.OURS), True),
        (Deferred("http_503"), False),
        (Deferred("rate_limited", fault=Fault.CHANNEL), False),
        (Deferred("greylisted", fault=Fault.RECIPIENT), False),
        (Failed("our_server", fault=Fault.OURS), False),
    ],
)
def test_outcomes_that_wait_for_us_are_known(outcome: Outcome, is_own: bool) -> None:
    assert is_our_own(outcome) is is_own
