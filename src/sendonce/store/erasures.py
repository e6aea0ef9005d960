"""What an erasure takes away, decided from the facts. Pure; the same on every database."""

from collections.abc import Sequence
from dataclasses import dataclass

from sendonce.store.upkeep import Erased, Facts, Person


@dataclass(frozen=True, slots=True)
class Taking:
    """From these events what is the person's own, from these payload and headers too (so many have any); how many
    payloads are kept because others share them, and how many events must be left for now."""

    events: list[int]
    payloads: list[int]
    deliveries: list[int]
    blanked: int
    contents: int
    kept: int
    busy: int

    @property
    def counts(self) -> Erased:
        return Erased(
            events=len(self.events),
            payloads=self.blanked,
            contents=self.contents,
            deliveries=len(self.deliveries),
            kept=self.kept,
            busy=self.busy,
        )


def taking(found: Sequence[Facts], person: Person, *, shared: bool, cancelled: bool = False) -> Taking:
    """What has not ended is left whole: what is being sent needs its content, and so do others that share it.
    `cancelled`: as if all that waits were."""
    ended = [each for each in found if not each.is_busy and (cancelled or not each.waiting)]
    by_subject = person.subject is not None
    alone = [each for each in ended if by_subject or not each.is_shared or (shared and not each.is_needed)]
    left = [each for each in ended if each.has_payload and each not in alone]
    return Taking(
        events=[each.event_id for each in ended],
        payloads=[each.event_id for each in alone],
        deliveries=[delivery_id for each in ended for delivery_id in each.deliveries],
        blanked=sum(each.has_payload for each in alone),
        contents=sum(each.contents for each in ended),
        kept=len(left),
        busy=len(found) - len(ended),
    )
