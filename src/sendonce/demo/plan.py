"""What will happen: how many orders, which of them roll back, and the troubles that the receiver will have."""

from dataclasses import dataclass
from enum import StrEnum

WAVES = (range(1, 21), range(21, 46), range(46, 61))
ROLLED_BACK = frozenset({7, 19, 28, 41, 55})
REFUSED = frozenset({50, 57})
ORDERS = frozenset(number for wave in WAVES for number in wave)

# Minutes of a real outage are seconds here, for both outboxes alike.
SLOTS = 12
TIMEOUT_SECONDS = 2.0
LEASE_SECONDS = 3
KILL_AT = 8
POLICY = {"first_delay": "300ms", "longest_delay": "1s", "timeout": f"{TIMEOUT_SECONDS}s", "doubt_wait": "500ms"}


class Side(StrEnum):
    """Whose requests: each has an inbox of its own at the receiver, named by the path."""

    SENDONCE = "sendonce"
    NAIVE = "naive"


class Mood(StrEnum):
    SLOW = "slow"
    BUSY = "busy"
    WELL = "well"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the receiver says to an order, and how long it takes over it. It acts on what it does not turn away."""

    status: int
    seconds: float = 0.0
    text: str = "thank you"

    @property
    def is_yes(self) -> bool:
        return self.status < 300

    @property
    def is_refusal(self) -> bool:
        return 400 <= self.status < 500


def answer_to(order: int, mood: Mood) -> Answer:
    """The same for both sides: who asks makes no difference."""
    if order in REFUSED:
        return Answer(422, text=f"order {order}: this customer is blocked")
    match mood:
        case Mood.SLOW:
            return Answer(200, 2.6 if order % 8 == 3 else 1.2)
        case Mood.BUSY if order % 4 == 0:
            return Answer(503, text="too busy, come back later")
        case _:
            return Answer(200, 0.1)
