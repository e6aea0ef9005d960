"""What will happen: how many orders, which of them roll back, and the troubles that the receiver will have."""

from collections.abc import Mapping
from enum import StrEnum

WAVES = (range(1, 21), range(21, 46), range(46, 61))
ROLLED_BACK = frozenset({7, 19, 28, 41, 55})
REFUSED = frozenset({50, 57})
ORDERS = frozenset(number for wave in WAVES for number in wave)

# Minutes of a real outage are seconds here, for both outboxes alike.
SLOTS = 12
TIMEOUT_SECONDS = 2.0
LEASE_SECONDS = 3
POLICY = {"first_delay": "300ms", "longest_delay": "1s", "timeout": f"{TIMEOUT_SECONDS}s", "doubt_wait": "500ms"}
# A sender is killed with so many requests in flight, of which some have arrived and some have not.
KILL_AT = 8
SOME = 2


class Side(StrEnum):
    """Whose requests: the first part of their path, after which comes the order."""

    SENDONCE = "sendonce"
    NAIVE = "naive"

    @property
    def path(self) -> str:
        return f"/{self}/"


class Mood(StrEnum):
    SLOW = "slow"
    BUSY = "busy"
    WELL = "well"


# As `sendonce receive` is told; it recognises no token in any mood. Slow: half of the requests wait for a second before
# it looks at them, every answer takes its time, and every eighth is lost on its way.
BEHAVIOURS: Mapping[Mood, Mapping[str, object]] = {
    Mood.SLOW: {"slow": "1s:0.5", "late": "700ms", "drop_after_accept": "0.125"},
    Mood.BUSY: {"slow": None, "late": "100ms", "drop_after_accept": None, "fail": "503:0.25"},
    Mood.WELL: {"fail": None},
}
