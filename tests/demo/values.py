"""A run of the demonstration as it should be, to be bent by tests."""

from collections import Counter
from dataclasses import replace
from typing import Any

from sendonce.devtools.demo.accounts import Accounts, Counts, Killed, tally
from sendonce.devtools.demo.observer import Fate, Progress
from sendonce.devtools.demo.screen import StoryStep, View
from sendonce.devtools.demo.shop import ORDERS, REFUSED, ROLLED_BACK, Naive, Side
from sendonce.domain.deliveries import DeliveryState

COMMITTED = ORDERS - ROLLED_BACK
DELIVERED = COMMITTED - REFUSED
FOUND = frozenset({21, 22, 23})
SENT_AFTER_ASKING = frozenset({24, 25})
GOOD = Counts(
    acted=dict.fromkeys(sorted(DELIVERED), 1),
    refused=dict.fromkeys(REFUSED, 1),
    asked=dict.fromkeys(sorted(FOUND | SENT_AFTER_ASKING), 1),
    found=dict.fromkeys(FOUND, 1),
    after_asking=dict.fromkeys(SENT_AFTER_ASKING, 1),
)
# Ten lost, eight doubled: what a naive outbox comes to.
POOR = Counts(
    acted={order: 2 if 21 <= order < 30 else 1 for order in DELIVERED if order > 11},
    refused=dict.fromkeys(REFUSED, 5),
)
KILLED = Killed(in_flight=12, arrived=5)


def a_fate(order: int, **changed: Any) -> Fate:
    """Delivered at once, if it is not one of those that are refused or were in doubt."""
    made = Fate(order=order, delivery_id=100 + order, state=DeliveryState.COMPLETED, outcomes=("Delivered",))
    if order in FOUND | SENT_AFTER_ASKING:
        made = replace(made, outcomes=("Failed", "Unknown", "Delivered"))
    if order in REFUSED:
        made = replace(made, state=DeliveryState.DEAD_LETTERED, outcomes=("Refused",), reason="refused, http_422")
    return replace(made, **changed)


def accounts(*, ours: Counts = GOOD, naive: Counts = POOR, killed: Killed = KILLED, **changed: Any) -> Accounts:
    made = Accounts(
        planned=ORDERS,
        rolled_back=ROLLED_BACK,
        orders=COMMITTED,
        recorded=COMMITTED,
        fates=tuple(a_fate(order) for order in sorted(COMMITTED)),
        asked=frozenset(ours.asked),
        found=frozenset(ours.found),
        ours=tally(ours, COMMITTED, killed),
        naive=tally(naive, COMMITTED, killed),
        seconds=21.4,
    )
    return replace(made, **changed)


def a_view(**changed: Any) -> View:
    """The middle of it: the worker has just been killed."""
    states = Counter(
        {
            DeliveryState.PENDING: 7,
            DeliveryState.IN_PROGRESS: 12,
            DeliveryState.PENDING_RETRY: 9,
            DeliveryState.COMPLETED: 13,
        }
    )
    story = (StoryStep(0.0, "the receiver is down"), StoryStep(6.5, "worker 1 killed (SIGKILL): 12 requests in flight"))
    made = View(
        seconds=7.2,
        committed=41,
        rolled_back=4,
        progress=Progress(states=states, in_doubt=3),
        naive=Naive(waiting=17, sent=12, given_up=12),
        is_up=True,
        tallies={Side.SENDONCE: replace(GOOD, in_flight=12), Side.NAIVE: POOR},
        story=story,
    )
    return replace(made, **changed)


def unpainted(text: str, colour: str) -> str:
    return text


def marked(text: str, colour: str) -> str:
    """A painter whose paint can be seen in tests."""
    return f"<{colour}>{text}</>"
