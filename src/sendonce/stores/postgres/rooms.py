"""Rooms in which deliveries wait, the breakers before them, and subscriptions' rates."""

from datetime import timedelta

from sendonce.domain.texts import CODE_LENGTH, clean
from sendonce.stores.postgres.lanes import Lanes, Row, fetch
from sendonce.stores.records import ROOM_CAP, Breaker, Room


class Rooms(Lanes):
    """See `RoomStore`."""

    async def rooms(self, *, after: str, limit: int) -> list[Room]:
        rows = await self.claims.fetch("rooms", {"after": after, "limit": limit, "cap": ROOM_CAP})
        return [room_of(row) for row in rows]

    async def trip(self, room: str, *, pause: timedelta, longest: timedelta, code: str | None) -> bool:
        values = {
            "room": room,
            "pause": pause.total_seconds(),
            "longest": longest.total_seconds(),
            "code": None if code is None else clean(code, CODE_LENGTH),
        }
        return bool(await self.claims.fetch("trip", values))

    async def ease(self, room: str, *, enough: int) -> bool:
        async with self.claims.transaction() as connection:
            eased = await fetch(connection, "ease", {"room": room})
            if eased and eased[0][0] >= enough:
                await fetch(connection, "drop_breaker", {"room": room})
            return bool(eased)

    async def take_probe(self, room: str, hold: timedelta) -> bool:
        return bool(await self.claims.fetch("take_probe", {"room": room, "hold": hold.total_seconds()}))

    async def forget_breakers(self, age: timedelta) -> int:
        return len(await self.claims.fetch("forget_breakers", {"age": age.total_seconds()}))

    async def take_tokens(self, subscription_id: int, wanted: int) -> int:
        async with self.claims.transaction() as connection:
            await fetch(connection, "add_bucket", {"subscription_id": subscription_id})
            rows = await fetch(connection, "take_tokens", {"subscription_id": subscription_id, "wanted": wanted})
            return int(rows[0][0]) if rows else wanted


def room_of(row: Row) -> Room:
    """A room from its columns."""
    name, waiting, opened_at, probe_at, is_probe_due, is_probing, allowance, code = row
    if opened_at is None:
        return Room(name=name, waiting=waiting)
    breaker = Breaker(
        opened_at=opened_at,
        probe_at=probe_at,
        is_probe_due=is_probe_due,
        is_probing=is_probing,
        allowance=allowance,
        error_code=code,
    )
    return Room(name=name, waiting=waiting, breaker=breaker)
