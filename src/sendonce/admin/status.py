"""The status in sentences: what needs a person, what waits and for what."""

from datetime import datetime, timedelta

from sendonce.admin.advice import GO_ON_MIGRATING, START_WORKER, Advice, Remark
from sendonce.admin.stops import spelled
from sendonce.admin.subscriptions import HeldBack
from sendonce.admin.text import ago, counted, dated, one_line, until
from sendonce.domain.durations import format_duration
from sendonce.domain.serving import shown
from sendonce.store.migrations import Backfill
from sendonce.store.records import ROOM_CAP, AlertRow, InboxCounts, LossRow, Room, Status, StopRow


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


DUE_FOR_LONG = timedelta(seconds=30)
STALLED_AFTER = timedelta(minutes=5)


def warnings(status: Status) -> list[Remark]:
    """What needs a person: work that is due for long while nobody does it, nobody gets it done, or nobody serves it."""
    unserved = [Remark(room_sentence(room, status.now)) for room in status.rooms if not room.is_served]
    late = late_message(status.inbox, status.now)
    return [*_due_for_long(status), *unserved, *([late] if late else [])]


def late_message(inbox: InboxCounts, now: datetime) -> Remark | None:
    """What is wrong, and what to do, when a consumer is run by nobody: who runs looks every second for what is due."""
    waiting = timedelta(0) if inbox.oldest_due_at is None else now - inbox.oldest_due_at
    if waiting < DUE_FOR_LONG:
        return None
    consumer = inbox.late_consumer or ""
    said = (
        f"a message has been due at consumer {one_line(consumer)} for {format_duration(waiting)}, and nobody handles it"
    )
    return Remark(said, (Advice(verb="consume", why="start it with", id=consumer, of="consumer"),))


def _due_for_long(status: Status) -> list[Remark]:
    if status.oldest_due_at is None or status.due == 0:
        return []
    waiting = status.now - status.oldest_due_at
    if any(each.scope == "all" for each in status.stops) or waiting < DUE_FOR_LONG:
        return []
    verb = "is" if status.due == 1 else "are"
    due = f"{counted(status.due, 'delivery', 'deliveries')} {verb} due, the oldest for {format_duration(waiting)}"
    if not status.workers:
        return [Remark(f"{due}, and no worker is alive", (START_WORKER,))]
    progressed = [each.progressed_at or each.started_at for each in status.workers]
    idle = status.now - max(progressed)
    if idle >= STALLED_AFTER:
        said = f"{due}, and no worker has made progress for {format_duration(idle)}; look at the workers' logs"
        return [Remark(said)]
    return []


def alert_sentence(alert: AlertRow, status: Status) -> str:
    """dead_letters since …, told 3m ago: 3 dead letters wait for a person; see: sendonce dead-letters list.

    It is as a worker saw it at its last look, and without a worker nobody looks.
    """
    since, told = dated(alert.raised_at, status.now), ago(alert.told_at, status.now)
    stale = "" if status.workers else " (nobody looks now: no worker is alive)"
    return f"{one_line(alert.name)} since {since}, told {told}: {one_line(alert.message)}{stale}"


def held_remark(held: HeldBack) -> Remark:
    """12 wait for subscription 42, which is paused (maintenance)."""
    row = held.subscription
    why = f" ({one_line(row.state_reason)})" if row.state_reason else ""
    amount = f"{ROOM_CAP:,} or more wait" if held.waiting >= ROOM_CAP else counted(held.waiting, "waits", "wait")
    go_on = Advice(verb="resume_subscription", why="go on with", id=row.id, of="subscription")
    return Remark(f"{amount} for subscription {row.id}, which is {row.state}{why}", (go_on,))


def backfill_remark(backfill: Backfill) -> Remark:
    """0002_routed has come to 4,000 of 120,000."""
    said = f"{backfill.migration} has come to {backfill.done:,} of {backfill.bound:,}"
    return Remark(said, (GO_ON_MIGRATING,))


def loss_remark(loss: LossRow, status: Status) -> Remark:
    """lost since …, noticed by host:7: 120 deliveries were put in doubt and are asked about before they are sent."""
    since = f"lost, as {one_line(loss.noticed_by)} noticed {dated(loss.noticed_at, status.now)}"
    if loss.marked_id < loss.upto_id:
        so_far = f"({loss.marked_id:,} of {loss.upto_id:,})"
        return Remark(f"{since}; nothing is sent until what is open is put in doubt {so_far}")
    doubted = counted(loss.doubted, "delivery is", "deliveries are")
    advice = Advice(verb="nothing_lost", why="if you know that nothing was lost", needs=("reason",))
    return Remark(f"{since}; {doubted} asked about before anything is sent again", (advice,))


def stop_sentence(stop: StopRow, status: Status) -> str:
    """--channel mailto since … by ada@host (provider outage)."""
    why = f" ({one_line(stop.reason)})" if stop.reason else ""
    since = dated(stop.created_at, status.now)
    return f"{spelled(stop.scope, stop.value)} since {since} by {one_line(stop.operator)}{why}"
