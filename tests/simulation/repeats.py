"""Effects that came more than once, each with its cause. One without a cause is a broken promise."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.simulation.history import History
from tests.simulation.world import CAN_BE_ASKED, RECOGNISES, Send

# The network doubled one request; the receiver forgot, or said that it cannot tell; it arrived after the receiver had
# truly said that it was not there; it may have been sent, and to send it again was chosen for that; a person did it.
CAUSES = ("by_network", "after_forgotten", "after_cannot_tell", "after_late_arrival", "when_unsure", "by_operator")
DOUBTFUL = ("Unknown", "Accepted")


class Repeat(NamedTuple):
    intent: str
    delivery_id: int
    attempt: int
    cause: str | None


def repeats(history: History) -> Iterator[Repeat]:
    """Every effect beyond the first of its intent, in the order of the requests."""
    for intent, sends in history.by_intent.items():
        earlier: list[Send] = []
        for send in sends:
            for _ in send.effects[1:]:
                yield Repeat(intent, send.delivery_id, send.attempt, _cause_within(history, send))
            if send.effects and earlier:
                yield Repeat(intent, send.delivery_id, send.attempt, _cause(history, earlier, send))
            if send.effects:
                earlier.append(send)


def causes_of(history: History) -> Counter[str]:
    counted = Counter({cause: 0 for cause in CAUSES})
    counted.update(repeat.cause for repeat in repeats(history) if repeat.cause is not None)
    return counted


def _cause_within(history: History, send: Send) -> str | None:
    """Of a second effect of one request: whoever recognises tokens must have forgotten this one."""
    if send.kind not in RECOGNISES:
        return "by_network"
    return "after_forgotten" if send.token in history.scene.world.forgotten else None


def _cause(history: History, earlier: list[Send], send: Send) -> str | None:
    if send.kind in RECOGNISES:
        return "after_forgotten" if send.token in history.scene.world.forgotten else None
    found = [_cause_of_pair(history, before, send) for before in earlier]
    return None if None in found else found[-1]


def _cause_of_pair(history: History, before: Send, send: Send) -> str | None:
    if send.kind in CAN_BE_ASKED:
        asked = list(history.asked(history.family(send.delivery_id), before.tick, send.tick))
        if any(each.answer == "CannotTell" for each in asked):
            return "after_cannot_tell"
        if any(each.forgotten for each in asked):
            return "after_forgotten"
        if any(each.tick < min(before.effects) for each in asked):
            return "after_late_arrival"
        return "by_operator" if _sent_on_purpose(history, before, send) else None
    if before.delivery_id != send.delivery_id:
        return "by_operator"
    outcome = history.attempts[before.delivery_id, before.attempt]["outcome"]
    return "when_unsure" if outcome in DOUBTFUL and not history.holds(send.delivery_id) else None


def _sent_on_purpose(history: History, before: Send, send: Send) -> bool:
    """A person had it sent once more, and knew that it was sent: a later generation of one that was completed."""
    family = history.family(send.delivery_id)
    between = family[family.index(before.delivery_id) : family.index(send.delivery_id)]
    return any(history.deliveries[id]["status"] == "Completed" for id in between)
