"""Rooms in which deliveries wait, the breakers before them, and subscriptions' rates."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sendonce.domain import breakers
from sendonce.domain.breakers import NOTHING, Answers, Breaker, LetOut, Pauses
from sendonce.domain.texts import CODE_LENGTH, clean
from sendonce.sql.steps import Row
from sendonce.store.records import ROOM_CAP, Room
from sendonce.store.sqlite.lanes import Lane, Transaction
from sendonce.store.sqlite.times import moment, stamp


class Rooms:
    """See `RoomStore`. A breaker's row is read, what becomes of it decided elsewhere, and then written."""

    _writer: Lane
    _reader: Lane

    async def rooms(self, *, after: str, limit: int) -> list[Room]:
        return await self._reader.run(rooms_of, after, limit)

    async def trip(self, room: str, *, pause: timedelta, code: str | None) -> bool:
        return await self._writer.run(_trip, room, pause, code)

    async def let_out(self, room: str, wanted: int, hold: timedelta) -> LetOut:
        return await self._writer.run(_let_out, room, wanted, hold)

    async def give_back(self, room: str, turn: int, amount: int) -> None:
        await self._writer.run(_give_back, room, turn, amount)

    async def learn(self, room: str, turn: int, answers: Answers, pauses: Pauses) -> bool:
        return await self._writer.run(_learn, room, turn, answers, pauses)

    async def forget_breakers(self, age: timedelta) -> int:
        return len(await self._writer.run(Transaction.fetch, "forget_breakers", {"age": age.total_seconds()}))

    async def take_tokens(self, subscription_id: int, wanted: int) -> int:
        return await self._writer.run(_take_tokens, subscription_id, wanted)

    async def give_back_tokens(self, subscription_id: int, amount: int) -> None:
        values = {"subscription_id": subscription_id, "amount": amount}
        await self._writer.run(Transaction.change, "give_back_tokens", values)


def rooms_of(transaction: Transaction, after: str, limit: int) -> list[Room]:
    """The rooms with names above `after`."""
    rows = transaction.fetch("rooms", {"after": after, "limit": limit, "cap": ROOM_CAP})
    return [_room_of(row) for row in rows]


def _room_of(row: Row) -> Room:
    name, waiting, address, is_probe_due, *rest = row
    if rest[0] is None:
        return Room(name=name, waiting=waiting, address=address)
    breaker = _breaker_of(rest)
    return Room(name=name, waiting=waiting, address=address, breaker=breaker, is_probe_due=is_probe_due == 1)


def _breaker_of(row: Sequence[Any]) -> Breaker:
    opened_at, probe_at, pause, turn, allowance, is_probing, on_way, through, failed, code = row
    return Breaker(
        opened_at=moment(opened_at),
        probe_at=moment(probe_at),
        pause=timedelta(seconds=pause),
        turn=turn or 0,
        allowance=allowance,
        is_probing=is_probing == 1,
        on_way=on_way or 0,
        through=through or 0,
        failed=failed or 0,
        error_code=code,
    )


def _trip(transaction: Transaction, room: str, pause: timedelta, code: str | None) -> bool:
    breaker = breakers.opened(moment(transaction.now), pause, code=code)
    return bool(transaction.fetch("add_breaker", _values(room, breaker)))


def _let_out(transaction: Transaction, room: str, wanted: int, hold: timedelta) -> LetOut:
    for row in transaction.fetch("breaker", {"room": room}):
        breaker, out = breakers.let_out(_breaker_of(row), wanted, moment(transaction.now), hold)
        _write(transaction, room, breaker)
        return out
    return NOTHING


def _give_back(transaction: Transaction, room: str, turn: int, amount: int) -> None:
    for row in transaction.fetch("breaker", {"room": room}):
        _write(transaction, room, breakers.give_back(_breaker_of(row), turn, amount, moment(transaction.now)))


def _learn(transaction: Transaction, room: str, turn: int, answers: Answers, pauses: Pauses) -> bool:
    for row in transaction.fetch("breaker", {"room": room}):
        breaker = _breaker_of(row)
        learnt = breakers.learn(breaker, turn, answers, moment(transaction.now), pauses)
        _write(transaction, room, learnt)
        return breakers.has_opened(breaker, learnt)
    return False


def _write(transaction: Transaction, room: str, breaker: Breaker | None) -> None:
    if breaker is None:
        transaction.change("drop_breaker", {"room": room})
    else:
        transaction.change("set_breaker", _values(room, breaker))


def _values(room: str, breaker: Breaker) -> dict[str, object]:
    return {
        "room": room,
        "opened_at": stamp(breaker.opened_at),
        "probe_at": stamp(breaker.probe_at),
        "pause": breaker.pause.total_seconds(),
        "turn": breaker.turn,
        "allowance": breaker.allowance,
        "is_probing": breaker.is_probing,
        "on_way": breaker.on_way,
        "through": breaker.through,
        "failed": breaker.failed,
        "error_code": None if breaker.error_code is None else clean(breaker.error_code, CODE_LENGTH),
    }


def _take_tokens(transaction: Transaction, subscription_id: int, wanted: int) -> int:
    transaction.change("add_bucket", {"subscription_id": subscription_id})
    rows = transaction.fetch("tokens_of", {"subscription_id": subscription_id})
    if not rows:
        return wanted
    tokens = float(rows[0][0])
    taken = min(int(tokens), wanted)
    transaction.change("set_tokens", {"subscription_id": subscription_id, "tokens": tokens - taken})
    return taken
