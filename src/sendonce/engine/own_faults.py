"""Faults on our side that this worker meets, and what ends them: something gets through where they were met."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sendonce.domain.attempts import Claim, Result
from sendonce.domain.destinations import place_of, scheme_of
from sendonce.domain.limits import has_host
from sendonce.domain.outcomes import Accepted, Deferred, Delivered
from sendonce.domain.texts import CODE_LENGTH, clean

NO_CHANNEL = "no_channel"
MOST = 20


class Met(NamedTuple):
    """How often a fault was met, and where last: a subscription or a place; anywhere (None) for a channel that is
    missing."""

    times: int
    met_at: str | None


class OwnFaults:
    """Notes faults as results come in, by code:scheme; asks nobody."""

    def __init__(self) -> None:
        self._met: dict[str, Met] = {}
        self._raised: dict[str, str | None] = {}
        self._over: set[str] = set()

    @property
    def over(self) -> frozenset[str]:
        """Those that something has got through for since they were met last."""
        return frozenset(self._over)

    def note(self, results: Sequence[Result]) -> None:
        """Look for faults on our side, and while there are any, for what gets through."""
        for report, _ in results:
            outcome = report.outcome
            if type(outcome) is Delivered or type(outcome) is Accepted:
                if self._met or self._raised:
                    self._got_through(report.claim)
            elif type(outcome) is Deferred and (outcome.code.startswith("our_") or outcome.code == NO_CHANNEL):
                self._note(report.claim, outcome.code)

    def take(self) -> dict[str, Met]:
        """Those met since the last time."""
        met, self._met = self._met, {}
        return met

    def put_back(self, met: Mapping[str, Met]) -> None:
        """They could not be written down."""
        for name, (times, met_at) in met.items():
            self._met[name] = Met(times + self._met.get(name, Met(0, met_at)).times, met_at)

    def know(self, raised: Mapping[str, str | None]) -> None:
        """These are raised, by whichever worker, and were met there."""
        self._raised = dict(raised)
        self._over &= self._raised.keys() | self._met.keys()

    def _note(self, claim: Claim, code: str) -> None:
        name = clean(f"{code}:{scheme_of(claim.address)}", CODE_LENGTH)
        self._over.discard(name)
        known = self._met.get(name)
        if known is not None or len(self._met) < MOST:
            met_at = None if code == NO_CHANNEL else _where(claim)
            self._met[name] = Met(1 if known is None else known.times + 1, met_at)

    def _got_through(self, claim: Claim) -> None:
        scheme, where = scheme_of(claim.address), _where(claim)
        open_ones: Iterable[tuple[str, str | None]] = (
            *self._raised.items(),
            *((name, met.met_at) for name, met in self._met.items()),
        )
        self._over.update(
            name for name, met_at in open_ones if name.partition(":")[2] == scheme and met_at in (None, where)
        )


def _where(claim: Claim) -> str:
    """Whose credentials and server these are: the subscription's own, those of a host, or those of a whole channel."""
    if claim.subscription_id is not None and has_host(claim.address):
        return f"subscription:{claim.subscription_id}"
    return place_of(claim.address)
