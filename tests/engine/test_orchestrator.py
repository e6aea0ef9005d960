"""The orchestrator decides through decide() alone, with the right policy and the right knowledge of the channel."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from sendonce.channels.registry import Channels
from sendonce.domain.attempts import Claim, Report
from sendonce.domain.decide import Decision, complete
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.outcomes import Delivered, Failed, NotThere, Outcome, Unknown
from sendonce.domain.policies import Policy
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.errors import ConfigError
from sendonce.store.ports import OrchestratorStore
from tests.domain.values import a_claim
from tests.engine.rig import QUICK, Asked, Told

SLOW = json.dumps({"first_delay": "7s", "longest_delay": "7s", "jitter": 0})


def orchestrator() -> Orchestrator:
    channels = Channels()
    channels.add(Told(), "test", max_attempts=1)
    channels.add(Told(), "held", if_unsure="hold")
    channels.add(Asked(answers=[NotThere()]), "asked", if_unsure="hold")
    return Orchestrator(cast(OrchestratorStore, None), Policies(QUICK, channels.settings()), channels)


def decided(claim: Claim, outcome: Outcome, *, cleared: bool = False) -> Decision:
    [result] = orchestrator().decide([Report(claim, 1, outcome, cleared)])
    return result.decision


@pytest.mark.parametrize("in_doubt", [True, False])
def test_delivery_that_got_through_is_completed(in_doubt: bool) -> None:
    assert decided(a_claim(address="fax:1", in_doubt=in_doubt), Delivered()) == complete()


def test_channels_policy_holds() -> None:
    decision = decided(a_claim(address="test:a"), Failed("503"))

    assert (decision.to, decision.reason) == (DeliveryState.DEAD_LETTERED, ReasonClass.EXHAUSTED)


def test_subscriptions_policy_goes_before_it() -> None:
    decision = decided(a_claim(address="test:a", policy='{"max_attempts": 2}'), Failed("503"))

    assert decision.to is DeliveryState.PENDING_RETRY


def test_subscriptions_policy_goes_on_top_of_the_channels() -> None:
    decision = decided(a_claim(address="test:a", attempt_count=0, policy=SLOW), Failed("503"))

    assert decision.to is DeliveryState.DEAD_LETTERED


def test_policy_that_cannot_be_read_does_not_stop_the_rest() -> None:
    decision = decided(a_claim(address="null:a", policy="{nonsense"), Failed("503"))

    assert (decision.to, decision.delay) == (DeliveryState.PENDING_RETRY, QUICK.first_delay)


@pytest.mark.parametrize(
    ("scheme", "if_unsure", "to"),
    [
        ("held", None, DeliveryState.DEAD_LETTERED),
        ("held", "resend", DeliveryState.PENDING_RETRY),
        ("asked", None, DeliveryState.PENDING_RETRY),
        ("fax", "hold", DeliveryState.PENDING_RETRY),
    ],
    ids=["nobody to ask", "the publish call says resend", "somebody to ask", "nobody here knows the channel"],
)
def test_doubt_is_held_where_nobody_can_be_asked(scheme: str, if_unsure: str | None, to: DeliveryState) -> None:
    decision = decided(a_claim(address=f"{scheme}:a", if_unsure=if_unsure), Unknown("timeout"))

    assert (decision.to, decision.in_doubt) == (to, True)


def test_cleared_doubt_is_gone() -> None:
    claim = a_claim(address="asked:a", in_doubt=True)

    assert decided(claim, Failed("503"), cleared=False).in_doubt
    assert not decided(claim, Failed("503"), cleared=True).in_doubt


def test_delay_can_be_doubled_as_often_as_there_are_attempts() -> None:
    days = Policy(max_attempts=10_000, first_delay=timedelta(days=30), longest_delay=timedelta(days=30), jitter=0)
    late = Orchestrator(cast(OrchestratorStore, None), Policies(days), Channels())

    [result] = late.decide([Report(a_claim(attempt_count=5000), 1, Failed("503"))])

    assert result.decision.delay == timedelta(days=30)


def test_channel_setting_that_is_wrong_is_found_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError, match="max_attempts"):
        Policies(QUICK, {"test": {"max_attempts": 0}})


@pytest.mark.parametrize(
    ("wait", "timeout", "left_alone"), [("0s", "10s", 20), ("30s", "10s", 30), ("20s", "10s", 20), ("19s", "10s", 20)]
)
def test_doubt_after_a_loss_is_left_alone_until_no_send_can_be_in_flight(
    wait: str, timeout: str, left_alone: float
) -> None:
    """Whoever sends for a life of the database that is lost still does so."""
    policies = Policies(
        replace(QUICK, timeout=timedelta(seconds=1)), {"test": {"doubt_wait": wait, "timeout": timeout}}
    )

    assert policies.longest_doubt_wait == timedelta(seconds=left_alone)


def test_policies_are_read_once_and_never_grow_without_bound() -> None:
    policies = Policies(QUICK)
    for number in range(1, 10_050):
        policies.of(
            a_claim(policy=json.dumps({"max_attempts": number % 9_999 + 1, "first_delay": f"{number % 3 + 1}ms"}))
        )

    assert policies.of(a_claim(policy=SLOW)) is policies.of(a_claim(policy=SLOW))
    assert len(policies._resolved) <= 10_000
