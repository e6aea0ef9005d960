"""Rooms in which deliveries wait, as people read them."""

from datetime import datetime

from sendonce.operations.wording import counted, dated, one_line, until
from sendonce.stores.records import ROOM_CAP, Room


def room_sentence(room: Room, now: datetime) -> str:
    """9,950 wait for https://…: it fails (http_503) since …; the next probe is due in 20s."""
    amount = f"{ROOM_CAP:,} or more" if room.waiting >= ROOM_CAP else f"{room.waiting:,}"
    verb = "waits" if room.waiting == 1 else "wait"
    return f"{amount} {verb} for {whom(room)}: {why(room, now)}"


def whom(room: Room) -> str:
    """What those in this room wait for."""
    kind, _, name = room.name.partition(":")
    return f"the rate of subscription {name}" if kind == "rate" else one_line(name)


def why(room: Room, now: datetime) -> str:
    """Why this room does not let everything out at once."""
    breaker = room.breaker
    if breaker is None:
        if room.name.startswith("rate:"):
            return "as many go out as its rate allows"
        return "as many are on their way there as may be at once"
    code = f" ({one_line(breaker.error_code)})" if breaker.error_code else ""
    since = f"it fails{code} since {dated(breaker.opened_at, now)}"
    if breaker.allowance:
        return f"{since}, but answers again: {counted(breaker.allowance, 'delivery', 'deliveries')} at once are let out"
    if breaker.is_probing:
        return f"{since}; one delivery is being tried now"
    return f"{since}; nothing is tried but one delivery, {until(breaker.probe_at, now)}"
