"""A breaker: holds back what would fail, tries one now and then, and lets out more and more of what gets through.

             enough failures              a probe is due             it gets through
    closed ─────────────────▶ open ─────────────────▶ probing ─────────────────▶ ramping ──▶ closed
                               ▲                          │                         │      (enough at once)
                               ├────── it fails ──────────┘                         │
                               └────── nearly all of a round fail ──────────────────┘

A closed one is none: `None`. Every change of state begins a new turn, and only attempts that were let out in the turn
that is on count: what was on its way before says nothing about how it is now.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

# A round of so many at once comes after the probe; each round that goes well is followed by one of twice as many.
FIRST_ROUND = 2
# A breaker that has let out so many at once is not needed any more.
ENOUGH = 64
# A receiver that answers one of four gets its round of twice as many; one that answers fewer is left alone again.
_ONE_OF = 4
# A pause is at most this part of the outage so far: who was away for half a minute is found again ten seconds later.
_OF_OUTAGE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long to wait for the next probe: `first`, and after failed probes up to `longest`."""

    first: timedelta
    longest: timedelta

    def after(self, pause: timedelta, outage: timedelta) -> timedelta:
        """The pause after a probe that failed: twice the one before, but no longer than a part of the outage so far."""
        return min(2 * pause, self.longest, max(self.first, outage / _OF_OUTAGE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """How the attempts that were let out have ended; `untold` ones say nothing about the receiver."""

    through: int = 0
    failed: int = 0
    untold: int = 0
    code: str | None = None

    def __add__(self, more: "Answers") -> "Answers":
        return Answers(
            through=self.through + more.through,
            failed=self.failed + more.failed,
            untold=self.untold + more.untold,
            code=more.code or self.code,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """One that is not closed. `allowance`: 0 before a probe has got through, else how many may be on their way at once.

    `probe_at` is when the next probe is due; while something is `on_way`, when its sender is taken for dead. `through`
    and `failed` are those of this round.
    """

    opened_at: datetime
    probe_at: datetime
    pause: timedelta
    turn: int
    allowance: int = 0
    is_probing: bool = False
    on_way: int = 0
    through: int = 0
    failed: int = 0
    error_code: str | None = None

    def spread(self) -> float:
        """Return where in its room this turn takes its probe, in [0, 1): consecutive turns are far apart."""
        return self.turn * 0x9E3779B1 % 2**32 / 2**32


@dataclass(frozen=True, slots=True)
class LetOut:
    """How many may be sent, and in which turn."""

    amount: int
    turn: int
    spread: float | None = None


NOTHING = LetOut(0, 0)


def opened(now: datetime, pause: timedelta, *, code: str | None) -> Breaker:
    """Open a closed breaker: so many sends have failed in a row that none is sent for a while.

    Its first turn has a number that those of the breaker before it never had.
    """
    turn = int(now.timestamp() * 1_000_000)
    return Breaker(opened_at=now, probe_at=now + pause, pause=pause, turn=turn, error_code=code)


def let_out(breaker: Breaker, wanted: int, now: datetime, hold: timedelta) -> tuple[Breaker, LetOut]:
    """Take up to `wanted` of what may be sent now. The caller reports their results within `hold`."""
    if wanted < 1 or (not breaker.allowance and now < breaker.probe_at):
        return breaker, NOTHING
    if not breaker.allowance:
        probing = replace(breaker, turn=breaker.turn + 1, is_probing=True, on_way=1, probe_at=now + hold)
        return probing, LetOut(1, probing.turn, probing.spread())
    on_way = 0 if now >= breaker.probe_at else breaker.on_way
    amount = min(wanted, breaker.allowance - on_way)
    if amount < 1:
        return breaker, NOTHING
    return replace(breaker, on_way=on_way + amount, probe_at=now + hold), LetOut(amount, breaker.turn)


def give_back(breaker: Breaker, turn: int, amount: int, now: datetime) -> Breaker:
    """Return so many of this turn, which were taken and not sent: others may take them at once."""
    if turn != breaker.turn:
        return breaker
    if breaker.is_probing:
        return _open_again(breaker, probe_at=now)
    return replace(breaker, on_way=max(0, breaker.on_way - amount))


def learn(breaker: Breaker, turn: int, answers: Answers, now: datetime, pauses: Pauses) -> Breaker | None:
    """Return the breaker after attempts of this turn have ended; None when it is closed."""
    if turn != breaker.turn:
        return breaker
    if breaker.is_probing:
        return _after_probe(breaker, answers, now, pauses)
    return _after_round(breaker, answers, now, pauses)


def has_opened(before: Breaker, after: Breaker | None) -> bool:
    """Return whether these answers have opened the breaker again."""
    return after is not None and after.turn != before.turn and not after.allowance


def _after_probe(breaker: Breaker, answers: Answers, now: datetime, pauses: Pauses) -> Breaker:
    if answers.through:
        ramping = replace(breaker, turn=breaker.turn + 1, is_probing=False, on_way=0, through=0, failed=0)
        return replace(ramping, allowance=FIRST_ROUND, probe_at=now, pause=pauses.first)
    if not answers.failed:
        return _open_again(breaker, probe_at=now + breaker.pause)
    pause = pauses.after(breaker.pause, now - breaker.opened_at)
    return replace(_open_again(breaker, probe_at=now + pause), pause=pause, error_code=answers.code)


def _open_again(breaker: Breaker, *, probe_at: datetime) -> Breaker:
    return replace(breaker, turn=breaker.turn + 1, is_probing=False, on_way=0, probe_at=probe_at)


def _after_round(breaker: Breaker, answers: Answers, now: datetime, pauses: Pauses) -> Breaker | None:
    """Let as many out again after one failure: one failure is no outage."""
    through, failed = breaker.through + answers.through, breaker.failed + answers.failed
    on_way = max(0, breaker.on_way - answers.through - answers.failed - answers.untold)
    if through * _ONE_OF >= max(breaker.allowance, through + failed):
        if 2 * breaker.allowance >= ENOUGH:
            return None
        return replace(breaker, allowance=2 * breaker.allowance, on_way=on_way, through=0, failed=0)
    if through + failed >= breaker.allowance:
        again = opened(now, pauses.first, code=answers.code or breaker.error_code)
        return replace(again, turn=breaker.turn + 1)
    return replace(breaker, on_way=on_way, through=through, failed=failed)
