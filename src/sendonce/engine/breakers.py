"""Which destinations fail again and again: what they came to is counted here, and told to their breakers."""

import time
from collections.abc import Iterable, Mapping, Sequence

from sendonce.domain.attempts import Claim
from sendonce.domain.breakers import Answers, LetOut, Pauses
from sendonce.domain.destinations import place_of
from sendonce.domain.limits import has_host
from sendonce.domain.outcomes import Delivered, Fault, Outcome, counts_for_breaker, fault_of
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Emit, Tripped
from sendonce.store.ports import RoomStore

# Failures are counted for so many rooms at most: each of a million addresses that fail once is not remembered for ever.
COUNTED = 10_000


def room_of(claim: Claim) -> str | None:
    """Where this one's like wait while their breaker is open: addresses with a host are held back one by one."""
    place = place_of(claim.address)
    if not place:
        return None
    return f"destination:{claim.destination}" if has_host(claim.address) else f"place:{place}"


class Breakers:
    """Counts failures in a row where no breaker is, and keeps what is to be written about them until `apply`.

    What a breaker has let out is told to it alone, with the turn in which that was.
    """

    def __init__(self, store: RoomStore, *, after: int, pauses: Pauses, emit: Emit) -> None:
        self._store = store
        self._after = after
        self._pauses = pauses
        self._emit = emit
        self._failures: dict[str, int] = {}
        self._seen_at: dict[str, float] = {}
        self._let_out: dict[tuple[int, int], tuple[str, int]] = {}
        self._to_trip: dict[str, str | None] = {}
        self._to_tell: dict[tuple[str, int], Answers] = {}

    @property
    def is_waiting(self) -> bool:
        """True while an attempt in flight, or a result not yet applied, concerns a breaker."""
        return bool(self._let_out or self._to_tell)

    def begin(self, claims: Sequence[Claim], let_out: Mapping[str, LetOut]) -> dict[str, int]:
        """Note the claims that go out; return how many probes there are for each room."""
        sent: dict[str, int] = {}
        for claim in claims if let_out else ():
            room = room_of(claim)
            if room is not None and room in let_out:
                self._let_out[claim.delivery_id, claim.attempt] = (room, let_out[room].turn)
                sent[room] = sent.get(room, 0) + 1
        return sent

    def note(self, claim: Claim, outcome: Outcome, seconds: float) -> None:
        """Note how an attempt has ended, and how long it took."""
        if type(outcome) is Delivered and not self._failures and not self._let_out and not self._to_trip:
            return
        let_out = self._let_out.pop((claim.delivery_id, claim.attempt), None)
        if let_out is not None:
            told = _answers(claim, outcome, let_out[0])
            self._to_tell[let_out] = self._to_tell.get(let_out, Answers()) + told
            return
        room = room_of(claim)
        # By far the most are delivered, and that matters only where failures are counted.
        if room is None or (type(outcome) is Delivered and room not in self._failures and room not in self._to_trip):
            return
        if self._counts(room, seconds):
            self._count(room, _answers(claim, outcome, room))

    def see(self, rooms: Iterable[str]) -> None:
        """Replace the list of rooms that have a breaker."""
        now = time.monotonic()
        for room in rooms:
            self._seen_at.pop(room, None)
            self._seen_at[room] = now
        _shorten(self._seen_at)

    async def apply(self) -> bool:
        """Write what was noted; True when there was something. What cannot be written is kept for the next call."""
        has_news = bool(self._to_trip or self._to_tell)
        while self._to_trip:
            room, code = self._to_trip.popitem()
            await self._trip(room, code)
        while self._to_tell:
            turn, answers = self._to_tell.popitem()
            await self._tell(turn, answers)
        return has_news

    def _counts(self, room: str, seconds: float) -> bool:
        """What was on its way before its breaker last changed says nothing about how it is now."""
        seen_at = self._seen_at.get(room) if self._seen_at else None
        return seen_at is None or time.monotonic() - seconds > seen_at

    def _count(self, room: str, answers: Answers) -> None:
        if answers.through:
            self._failures.pop(room, None)
            self._to_trip.pop(room, None)
        elif answers.failed:
            count = self._failures[room] = self._failures.get(room, 0) + 1
            _shorten(self._failures)
            if count >= self._after:
                del self._failures[room]
                self._to_trip[room] = answers.code

    async def _trip(self, room: str, code: str | None) -> None:
        try:
            has_opened = await self._store.trip(room, pause=self._pauses.first, code=code)
        except StoreBusy:
            self._to_trip[room] = code
            raise
        self.see([room])
        if has_opened:
            self._emit(Tripped(code=code))

    async def _tell(self, turn: tuple[str, int], answers: Answers) -> None:
        try:
            has_opened = await self._store.learn(*turn, answers, self._pauses)
        except StoreBusy:
            self._to_tell[turn] = self._to_tell.get(turn, Answers()) + answers
            raise
        self.see([turn[0]])
        if has_opened and answers.failed:
            self._emit(Tripped(code=answers.code))


def _answers(claim: Claim, outcome: Outcome, room: str) -> Answers:
    """What an attempt says about its room. Who refuses, or says whose fault it is, has answered."""
    if claim.is_proven or fault_of(outcome) is Fault.OURS:
        return Answers(untold=1)
    if counts_for_breaker(outcome, of_channel=room.startswith("place:")):
        return Answers(failed=1, code=getattr(outcome, "code", None))
    return Answers(through=1)


def _shorten(remembered: dict[str, int] | dict[str, float]) -> None:
    while len(remembered) > COUNTED:
        del remembered[next(iter(remembered))]
