"""Alerts: what was told to people, and when; and the readings by which it is decided."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.sql.steps import Steps, records, rows
from sendonce.store.inbox import inbox_counts
from sendonce.store.operations_log import said
from sendonce.store.records import FRONT_CAP, GROWTH, READING_CAP, AlertRow, ChannelRow, Readings, UnservedRow
from sendonce.store.served import unserved_of
from sendonce.store.workers import served


def raise_alert(
    name: str,
    message: str,
    *,
    seen: int,
    repeat: timedelta,
    size: int | None = None,
    met_at: str | None = None,
) -> Steps[bool]:
    """True when it is to be told now: it is new, has cleared since, was told longer ago than `repeat`, or it is ten
    times the `size` that was told. `met_at`: where a fault on our side was met last.
    """
    values = {
        "name": clean(name, CODE_LENGTH),
        "message": clean(message, MESSAGE_LENGTH),
        "seen": seen,
        "met_at": said(met_at),
    }
    if (yield from rows("tell_alert", **values, repeat=repeat, size=size, growth=GROWTH)):
        return True
    yield from rows("note_alert", **values)
    return False


def clear_alert(name: str) -> Steps[bool]:
    """True when it was raised, and that it is over is to be told now."""
    return bool((yield from rows("clear_alert", name=clean(name, CODE_LENGTH))))


def alerts() -> Steps[list[AlertRow]]:
    """All of them by name, those that are over too."""
    return (yield from records(AlertRow, "alerts"))


def readings(window: timedelta) -> Steps[Readings]:
    """What alerts are decided by. Findings count when they were made within `window`."""
    [read] = yield from records(Readings, "readings", cap=READING_CAP, window=window)
    return replace(
        read,
        channels=(yield from open_channels()),
        unserved=(yield from unserved()),
        inbox=(yield from inbox_counts(READING_CAP)),
    )


def open_channels() -> Steps[tuple[ChannelRow, ...]]:
    """What is open, by channel; those that have nothing open are left out."""
    return tuple((yield from records(ChannelRow, "open_channels", cap=FRONT_CAP)))


class _Waiting(NamedTuple):
    room: str
    waiting: int
    since: datetime


def unserved() -> Steps[tuple[UnservedRow, ...]]:
    """What waits for channels that no live worker serves."""
    waiting = yield from records(_Waiting, "channel_rooms", cap=READING_CAP)
    return unserved_of(waiting, (yield from served(0))) if waiting else ()
