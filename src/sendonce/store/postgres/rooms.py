"""Rooms in which deliveries wait, the breakers before them, and subscriptions' rates."""

from datetime import timedelta
from typing import Any

from sendonce.domain import breakers
from sendonce.domain.breakers import NOTHING, Answers, Breaker, LetOut, Pauses
from sendonce.domain.texts import CODE_LENGTH, clean
from sendonce.sql.steps import Row
from sendonce.store.postgres.lanes import Connection, Lanes, fetch
from sendonce.store.records import ROOM_CAP, Room


class Rooms(Lanes):
    """See `RoomStore`. A breaker's row is locked, what becomes of it decided elsewhere, and then written."""

    async def rooms(self, *, after: str, limit: int) -> list[Room]:
        rows = await self.claims.fetch("rooms", {"after": after, "limit": limit, "cap": ROOM_CAP})
        return [room_of(row) for row in rows]

    async def trip(self, room: str, *, pause: timedelta, code: str | None) -> bool:
        async with self.claims.transaction() as connection:
            now = (await fetch(connection, "clock", {}))[0][0]
            breaker = breakers.opened(now, pause, code=code)
            return bool(await fetch(connection, "add_breaker", _values(room, breaker)))

    async def let_out(self, room: str, wanted: int, hold: timedelta) -> LetOut:
        async with self.claims.transaction() as connection:
            for now, *row in await fetch(connection, "breaker", {"room": room}):
                breaker, out = breakers.let_out(_breaker_of(row), wanted, now, hold)
                await _write(connection, room, breaker)
                return out
            return NOTHING

    async def give_back(self, room: str, turn: int, amount: int) -> None:
        async with self.claims.transaction() as connection:
            for now, *row in await fetch(connection, "breaker", {"room": room}):
                await _write(connection, room, breakers.give_back(_breaker_of(row), turn, amount, now))

    async def learn(self, room: str, turn: int, answers: Answers, pauses: Pauses) -> bool:
        async with self.claims.transaction() as connection:
            for now, *row in await fetch(connection, "breaker", {"room": room}):
                breaker = _breaker_of(row)
                learnt = breakers.learn(breaker, turn, answers, now, pauses)
                await _write(connection, room, learnt)
                return breakers.has_opened(breaker, learnt)
            return False

    async def forget_breakers(self, age: timedelta) -> int:
        return len(await self.claims.fetch("forget_breakers", {"age": age.total_seconds()}))

    async def take_tokens(self, subscription_id: int, wanted: int) -> int:
        async with self.claims.transaction() as connection:
            await fetch(connection, "add_bucket", {"subscription_id": subscription_id})
            rows = await fetch(connection, "take_tokens", {"subscription_id": subscription_id, "wanted": wanted})
            return int(rows[0][0]) if rows else wanted

    async def give_back_tokens(self, subscription_id: int, amount: int) -> None:
        await self.claims.fetch("give_back_tokens", {"subscription_id": subscription_id, "amount": amount})


def room_of(row: Row) -> Room:
    """A room from its columns."""
    name, waiting, address, is_probe_due, *rest = row
    if rest[0] is None:
        return Room(name=name, waiting=waiting, address=address)
    return Room(name=name, waiting=waiting, address=address, breaker=_breaker_of(rest), is_probe_due=is_probe_due)


def _breaker_of(row: list[Any]) -> Breaker:
    opened_at, probe_at, pause, turn, allowance, is_probing, on_way, through, failed, code = row
    return Breaker(
        opened_at=opened_at,
        probe_at=probe_at,
        pause=timedelta(seconds=pause),
        turn=turn or 0,
        allowance=allowance,
        is_probing=is_probing,
        on_way=on_way or 0,
        through=through or 0,
        failed=failed or 0,
        error_code=code,
    )


async def _write(connection: Connection, room: str, breaker: Breaker | None) -> None:
    if breaker is None:
        await fetch(connection, "drop_breaker", {"room": room})
    else:
        await fetch(connection, "set_breaker", _values(room, breaker))


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
