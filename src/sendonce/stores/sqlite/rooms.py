"""Rooms in which deliveries wait, the breakers before them, and subscriptions' rates."""

from datetime import timedelta

from sendonce.domain.texts import CODE_LENGTH, clean
from sendonce.stores.records import ROOM_CAP, Breaker, Room
from sendonce.stores.sqlite.lanes import Lane, Row, Transaction
from sendonce.stores.sqlite.times import moment


class Rooms:
    """See `RoomStore`."""

    _writer: Lane
    _reader: Lane

    async def rooms(self, *, after: str, limit: int) -> list[Room]:
        return await self._reader.run(rooms_of, after, limit)

    async def trip(self, room: str, *, pause: timedelta, longest: timedelta, code: str | None) -> bool:
        values = {
            "room": room,
            "pause": pause.total_seconds(),
            "longest": longest.total_seconds(),
            "code": None if code is None else clean(code, CODE_LENGTH),
        }
        return bool(await self._writer.run(Transaction.fetch, "trip", values))

    async def ease(self, room: str, *, enough: int) -> bool:
        return await self._writer.run(_ease, room, enough)

    async def take_probe(self, room: str, hold: timedelta) -> bool:
        values = {"room": room, "hold": hold.total_seconds()}
        return bool(await self._writer.run(Transaction.fetch, "take_probe", values))

    async def forget_breakers(self, age: timedelta) -> int:
        return len(await self._writer.run(Transaction.fetch, "forget_breakers", {"age": age.total_seconds()}))

    async def take_tokens(self, subscription_id: int, wanted: int) -> int:
        return await self._writer.run(_take_tokens, subscription_id, wanted)


def rooms_of(transaction: Transaction, after: str, limit: int) -> list[Room]:
    """The rooms with names above `after`."""
    rows = transaction.fetch("rooms", {"after": after, "limit": limit, "cap": ROOM_CAP})
    return [_room_of(row) for row in rows]


def _room_of(row: Row) -> Room:
    name, waiting, opened_at, probe_at, is_probe_due, is_probing, allowance, code = row
    if opened_at is None:
        return Room(name=name, waiting=waiting)
    breaker = Breaker(
        opened_at=moment(opened_at),
        probe_at=moment(probe_at),
        is_probe_due=is_probe_due == 1,
        is_probing=is_probing == 1,
        allowance=allowance,
        error_code=code,
    )
    return Room(name=name, waiting=waiting, breaker=breaker)


def _ease(transaction: Transaction, room: str, enough: int) -> bool:
    eased = transaction.fetch("ease", {"room": room})
    if eased and eased[0][0] >= enough:
        transaction.change("drop_breaker", {"room": room})
    return bool(eased)


def _take_tokens(transaction: Transaction, subscription_id: int, wanted: int) -> int:
    transaction.change("add_bucket", {"subscription_id": subscription_id})
    rows = transaction.fetch("tokens_of", {"subscription_id": subscription_id})
    if not rows:
        return wanted
    tokens = float(rows[0][0])
    taken = min(int(tokens), wanted)
    transaction.change("set_tokens", {"subscription_id": subscription_id, "tokens": tokens - taken})
    return taken
