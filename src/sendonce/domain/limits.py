"""How much a worker may have on its way to one destination or place, so that a slow one does not hold up the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sendonce.domain.attempts import Claim
from sendonce.domain.destinations import place_of
from sendonce.domain.serving import Served


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may be claimed now: so many `each`, but for those named, which have so many left.

    A destination is what was recorded; limits hold for those that name a host. A place is what `place_of` says. Without
    `served` everything is.
    """

    each: int = 1_000_000
    each_place: int = 1_000_000
    left: Mapping[str, int] = field(default_factory=dict)
    left_at_place: Mapping[str, int] = field(default_factory=dict)
    served: Served | None = None

    @property
    def full(self) -> list[str]:
        """Return the destinations to which nothing may be sent now."""
        return [name for name, left in self.left.items() if left <= 0]

    @property
    def full_places(self) -> list[str]:
        return [name for name, left in self.left_at_place.items() if left <= 0]

    def after(self, claims: Sequence[Claim]) -> "Limits":
        """Return the limits that are left when these are in flight too."""
        left, left_at_place = dict(self.left), dict(self.left_at_place)
        for claim in claims:
            if has_host(claim.address):
                left[claim.destination] = left.get(claim.destination, self.each) - 1
            place = place_of(claim.address)
            if place:
                left_at_place[place] = left_at_place.get(place, self.each_place) - 1
        return replace(self, left=left, left_at_place=left_at_place)


NO_LIMITS = Limits()


def has_host(address: str) -> bool:
    """True for addresses like https://host/path: each of those is limited by itself too."""
    return "://" in address
