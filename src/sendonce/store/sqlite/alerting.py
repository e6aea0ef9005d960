"""What was told to people, and when; and the counts by which it is decided."""

from datetime import timedelta

from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.store.records import FRONT_CAP, GROWTH, READING_CAP, AlertRow, ChannelRow, Readings, UnservedRow
from sendonce.store.served import served_of, unserved_of
from sendonce.store.sqlite.lanes import Lane, Transaction
from sendonce.store.sqlite.leasing import served_rows
from sendonce.store.sqlite.rows import record
from sendonce.store.sqlite.times import microseconds, moment


class Alerting:
    """See `AlertStore`."""

    _writer: Lane
    _reader: Lane

    async def raise_alert(
        self,
        name: str,
        message: str,
        *,
        seen: int,
        repeat: timedelta,
        size: int | None = None,
        met_at: str | None = None,
    ) -> bool:
        values = {
            "name": clean(name, CODE_LENGTH),
            "message": clean(message, MESSAGE_LENGTH),
            "seen": seen,
            "met_at": None if met_at is None else clean(met_at, MESSAGE_LENGTH),
        }
        return await self._writer.run(_raise, values, size, repeat)

    async def clear_alert(self, name: str) -> bool:
        return bool(await self._writer.run(Transaction.fetch, "clear_alert", {"name": clean(name, CODE_LENGTH)}))

    async def alerts(self) -> list[AlertRow]:
        return [record(AlertRow, row) for row in await self._reader.run(Transaction.fetch, "alerts")]

    async def readings(self, window: timedelta) -> Readings:
        return await self._reader.run(_readings, window)

    async def open_channels(self) -> tuple[ChannelRow, ...]:
        return await self._reader.run(_open_channels)


def _raise(transaction: Transaction, values: dict[str, object], size: int | None, repeat: timedelta) -> bool:
    telling = {**values, "repeat": microseconds(repeat), "size": size, "growth": GROWTH}
    if transaction.fetch("tell_alert", telling):
        return True
    transaction.change("note_alert", values)
    return False


def _readings(transaction: Transaction, window: timedelta) -> Readings:
    values = {"cap": READING_CAP, "since": transaction.now - microseconds(window)}
    rest = (_open_channels(transaction), unserved(transaction))
    return record(Readings, (*transaction.fetch("readings", values)[0], *rest))


def unserved(transaction: Transaction) -> tuple[UnservedRow, ...]:
    """What waits for channels that no live worker serves."""
    rooms = transaction.fetch("channel_rooms", {"cap": READING_CAP})
    dated = [(name, waiting, moment(since)) for name, waiting, since in rooms]
    return unserved_of(dated, served_of(served_rows(transaction, 0))) if rooms else ()


def _open_channels(transaction: Transaction) -> tuple[ChannelRow, ...]:
    return tuple(record(ChannelRow, row) for row in transaction.fetch("open_channels", {"cap": FRONT_CAP}))
