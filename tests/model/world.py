"""The outside: what really arrived, and answers that are not always what happened."""

from collections import Counter
from enum import StrEnum

from sendonce.domain.attempts import Claim, Lease, Report
from sendonce.domain.destinations import scheme_of
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Outcome, Refused, Unknown

# A channel that can be asked, and one that cannot.
ASKED, DEAF = "null", "deaf"


class Weather(StrEnum):
    """What happens to one request."""

    FINE = "fine"
    DOWN = "down"
    NO = "no"
    ANSWER_LOST = "arrived, and the answer was lost"
    REQUEST_LOST = "lost on the way"
    BUSY = "busy"
    ACCEPTED = "arrived, to be confirmed"


def can_look_up(claim: Claim) -> bool:
    return scheme_of(claim.address) == ASKED


class World:
    def __init__(self) -> None:
        self.arrived: Counter[tuple[int, str]] = Counter()
        self.sends: Counter[int] = Counter()

    def has(self, event_id: int, destination: str) -> bool:
        return self.arrived[event_id, destination] > 0

    def work(self, lease: Lease, claim: Claim, weather: Weather) -> Report:
        """What a sender does: complete what is proven, ask when in doubt, else send."""
        if claim.is_proven:
            return Report(claim, lease.id, Delivered(claim.notification_id))
        cleared = False
        if claim.in_doubt and can_look_up(claim):
            if self.has(claim.event_id, claim.destination):
                return Report(claim, lease.id, Delivered("found"))
            cleared = True
        return Report(claim, lease.id, self._send(claim, weather), cleared)

    def _send(self, claim: Claim, weather: Weather) -> Outcome:
        arrives = weather in (Weather.FINE, Weather.ANSWER_LOST, Weather.ACCEPTED)
        if arrives:
            self.arrived[claim.event_id, claim.destination] += 1
            self.sends[claim.delivery_id] += 1
        answers: dict[Weather, Outcome] = {
            Weather.FINE: Delivered(f"n-{claim.delivery_id}-{claim.attempt}"),
            Weather.DOWN: Failed("503"),
            Weather.NO: Refused("410"),
            Weather.ANSWER_LOST: Unknown("timeout"),
            Weather.REQUEST_LOST: Unknown("timeout"),
            Weather.BUSY: Deferred("busy"),
            Weather.ACCEPTED: Accepted(f"a-{claim.delivery_id}-{claim.attempt}"),
        }
        return answers[weather]
