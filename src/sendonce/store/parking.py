"""Parking: the rooms in which deliveries wait, the breakers before them, and the rates of subscriptions.

A breaker's row is locked, what becomes of it decided by the domain, and then written.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from sendonce.domain import breakers
from sendonce.domain.breakers import NOTHING, Answers, Breaker, LetOut, Pauses
from sendonce.domain.holds import Hold
from sendonce.domain.serving import bare
from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.sql.steps import Steps, now, records, rows
from sendonce.store.records import ROOM_CAP, Room


class _RoomRow(NamedTuple):
    """A room, and its breaker where it has one. One that the version before has written lacks a turn and counts."""

    name: str
    waiting: int
    address: str | None
    is_probe_due: bool | None
    opened_at: datetime | None
    probe_at: datetime
    pause: float
    turn: int | None
    allowance: int
    is_probing: bool
    on_way: int | None
    through: int | None
    failed: int | None
    error_code: str | None
    now: datetime

    @property
    def breaker(self) -> Breaker | None:
        if self.opened_at is None:
            return None
        return Breaker(
            opened_at=self.opened_at,
            probe_at=self.probe_at,
            pause=timedelta(seconds=self.pause),
            turn=self.turn or 0,
            allowance=self.allowance,
            is_probing=self.is_probing,
            on_way=self.on_way or 0,
            through=self.through or 0,
            failed=self.failed or 0,
            error_code=self.error_code,
        )


def rooms(*, after: str, limit: int) -> Steps[list[Room]]:
    """Where deliveries wait for a destination, place, rate or channel, by name; nobody's list can miss one."""
    found = yield from records(_RoomRow, "rooms", after=after, limit=limit, cap=ROOM_CAP)
    return [
        Room(
            name=row.name,
            waiting=row.waiting,
            address=row.address,
            breaker=row.breaker,
            is_probe_due=bool(row.is_probe_due),
        )
        for row in found
    ]


def trip(room: str, *, pause: timedelta, code: str | None) -> Steps[bool]:
    """Open a breaker; False when there is one, whatever its state: then nothing changes."""
    breaker = breakers.opened((yield from now()), pause, code=code)
    return bool((yield from rows("add_breaker", **_values(room, breaker))))


def let_out(room: str, wanted: int, hold: timedelta) -> Steps[LetOut]:
    """Take what a breaker lets out now, at most `wanted`: one probe when it is due, or a part of its round.

    Over all callers no more is given than the breaker allows. The caller has `hold` to say what became of them.
    """
    for breaker, at in (yield from _locked(room)):
        left, out = breakers.let_out(breaker, wanted, at, hold)
        yield from _write(room, left)
        return out
    return NOTHING


def give_back(room: str, turn: int, amount: int) -> Steps[None]:
    """So many of what was let out in this turn were not sent."""
    for breaker, at in (yield from _locked(room)):
        yield from _write(room, breakers.give_back(breaker, turn, amount, at))


def learn(room: str, turn: int, answers: Answers, pauses: Pauses) -> Steps[bool]:
    """Tell a breaker what became of attempts that it let out in this turn; True when it has opened again.

    Nothing changes when the turn is over. A breaker that is closed is gone.
    """
    for breaker, at in (yield from _locked(room)):
        learnt = breakers.learn(breaker, turn, answers, at, pauses)
        yield from _write(room, learnt)
        return breakers.has_opened(breaker, learnt)
    return False


def forget_breakers(age: timedelta) -> Steps[int]:
    """Drop breakers that nothing waits behind and that nobody has touched for so long; how many were."""
    return len((yield from rows("forget_breakers", age=age)))


def take_tokens(subscription_id: int, wanted: int) -> Steps[int]:
    """How many of `wanted` a subscription's rate allows now. Those are taken."""
    yield from rows("add_bucket", subscription_id=subscription_id)
    found = yield from rows("take_tokens", subscription_id=subscription_id, wanted=wanted)
    for (taken,) in found:
        yield from rows("spend_tokens", subscription_id=subscription_id, taken=taken)
        return int(taken)
    return wanted


def give_back_tokens(subscription_id: int, amount: int) -> Steps[None]:
    """So many were taken and nothing was sent for them."""
    yield from rows("give_back_tokens", subscription_id=subscription_id, amount=amount)


def give_up_unserved(room: str, after: int, limit: int, *, message: str) -> Steps[tuple[int, int | None]]:
    """Give up what has expired in a channel's room, among `limit` of it with ids above `after`.

    Returns how many were, and the last id looked at; None when there are no more. No attempt is made and none is
    counted. What may have been sent stays: whoever serves it asks first. What needs that channel no longer is due.
    """
    name = bare(Hold.of(room).name)
    found = yield from rows("unserved", room=room, name=name, after=after, limit=limit)
    due = [row[0] for row in found if row[2]]
    over = [row[0] for row in found if row[1] and not row[2]]
    yield from rows("make_due", ids=due, room=room)
    given_up = [row[0] for row in (yield from rows("give_up_unserved", ids=over, room=room))]
    if given_up:
        yield from rows("add_unserved", ids=given_up, message=clean(message, MESSAGE_LENGTH))
        yield from rows("count", name="dead_lettered", amount=len(given_up))
    return len(given_up), found[-1][0] if len(found) == limit else None


def _locked(room: str) -> Steps[list[tuple[Breaker, datetime]]]:
    """The breaker before this room, if there is one, locked; and the time."""
    found = yield from records(_RoomRow, "breaker", room=room)
    return [(row.breaker, row.now) for row in found if row.breaker is not None]


def _write(room: str, breaker: Breaker | None) -> Steps[None]:
    if breaker is None:
        yield from rows("drop_breaker", room=room)
    else:
        yield from rows("set_breaker", **_values(room, breaker))


def _values(room: str, breaker: Breaker) -> dict[str, object]:
    return {
        "room": room,
        "opened_at": breaker.opened_at,
        "probe_at": breaker.probe_at,
        "pause": breaker.pause.total_seconds(),
        "turn": breaker.turn,
        "allowance": breaker.allowance,
        "is_probing": breaker.is_probing,
        "on_way": breaker.on_way,
        "through": breaker.through,
        "failed": breaker.failed,
        "error_code": None if breaker.error_code is None else clean(breaker.error_code, CODE_LENGTH),
    }
