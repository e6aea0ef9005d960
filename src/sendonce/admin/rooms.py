"""Rooms in which deliveries wait, as people read them."""

from datetime import datetime

from sendonce.admin.wording import counted, dated, one_line, until
from sendonce.domain.serving import shown
from sendonce.store.records import ROOM_CAP, Room


def room_sentence(room: Room, now: datetime) -> str:
    """9,950 wait for https://…: it fails (http_503) since …; the next probe is due in 20s."""
    amount = f"{ROOM_CAP:,} or more" if room.waiting >= ROOM_CAP else f"{room.waiting:,}"
    verb = "waits" if room.waiting == 1 else "wait"
    return f"{amount} {verb} {waits_for(room, now)}"


def waits_for(room: Room, now: datetime) -> str:
    """for https://…: it fails since …; for sms:, which no live worker serves."""
    if not room.is_served:
        return f"for {whom(room)}, which no live worker serves; it goes out when one that has this channel is started"
    comma = "," if room.name.startswith("channel:") else ":"
    return f"for {whom(room)}{comma} {why(room, now)}"


def whom(room: Room) -> str:
    """What those in this room wait for."""
    kind, _, name = room.name.partition(":")
    match kind:
        case "rate":
            return f"the rate of subscription {name}"
        case "channel":
            return one_line(shown(name))
    return one_line(name)


def why(room: Room, now: datetime) -> str:
    """Why this room does not let everything out at once."""
    breaker = room.breaker
    if breaker is None:
        if room.name.startswith("rate:"):
            return "as many go out as its rate allows"
        if room.name.startswith("channel:"):
            return "and a worker that serves it takes them in their turn"
        return "as many are on their way there as may be at once"
    code = f" ({one_line(breaker.error_code)})" if breaker.error_code else ""
    since = f"it fails{code} since {dated(breaker.opened_at, now)}"
    if breaker.allowance:
        return f"{since}, but answers again: {counted(breaker.allowance, 'delivery', 'deliveries')} at once are let out"
    if breaker.is_probing:
        return f"{since}; one delivery is being tried now"
    return f"{since}; nothing is tried but one delivery, {until(breaker.probe_at, now)}"
