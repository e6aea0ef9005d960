"""What was told to people, and when; and the counts by which it is decided."""

from datetime import timedelta

from sendonce.domain.texts import CODE_LENGTH, MESSAGE_LENGTH, clean
from sendonce.store.postgres.lanes import Connection, Lanes, fetch
from sendonce.store.records import (
    ALIVE,
    FRONT_CAP,
    GROWTH,
    LATELY,
    READING_CAP,
    AlertRow,
    ChannelRow,
    Readings,
    UnservedRow,
)
from sendonce.store.served import served_of, unserved_of


class Alerting(Lanes):
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
        """See AlertStore."""
        values = {
            "name": clean(name, CODE_LENGTH),
            "message": clean(message, MESSAGE_LENGTH),
            "seen": seen,
            "met_at": None if met_at is None else clean(met_at, MESSAGE_LENGTH),
        }
        telling = {**values, "repeat": repeat.total_seconds(), "size": size, "growth": GROWTH}
        async with self.people.transaction() as connection:
            if await fetch(connection, "tell_alert", telling):
                return True
            await fetch(connection, "note_alert", values)
            return False

    async def clear_alert(self, name: str) -> bool:
        """See AlertStore."""
        return bool(await self.people.fetch("clear_alert", {"name": clean(name, CODE_LENGTH)}))

    async def alerts(self) -> list[AlertRow]:
        """See AlertStore."""
        rows = await self.people.fetch("alerts", {})
        return [AlertRow(**dict(zip(AlertRow.__dataclass_fields__, row, strict=True))) for row in rows]

    async def readings(self, window: timedelta) -> Readings:
        """See AlertStore."""
        row = (await self.people.fetch("readings", {"cap": READING_CAP, "window": window.total_seconds()}))[0]
        rest = (await self.open_channels(), await self._unserved())
        return Readings(**dict(zip(Readings.__dataclass_fields__, (*row, *rest), strict=True)))

    async def _unserved(self) -> tuple[UnservedRow, ...]:
        async with self.people.connection() as connection:
            return await unserved_on(connection)

    async def open_channels(self) -> tuple[ChannelRow, ...]:
        """See AlertStore."""
        rows = await self.people.fetch("open_channels", {"cap": FRONT_CAP})
        return tuple(ChannelRow(**dict(zip(ChannelRow.__dataclass_fields__, row, strict=True))) for row in rows)


async def unserved_on(connection: Connection) -> tuple[UnservedRow, ...]:
    """What waits for channels that no live worker serves."""
    rooms = await fetch(connection, "channel_rooms", {"cap": READING_CAP})
    if not rooms:
        return ()
    seen = {"worker_id": 0, "alive": ALIVE.total_seconds(), "lately": LATELY.total_seconds()}
    return unserved_of(rooms, served_of(await fetch(connection, "served", seen)))
