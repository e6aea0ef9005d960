"""What has not arrived, newest first: all of it at once where it is little, else by walking down the ids."""

from collections.abc import AsyncIterator

from sendonce.store.filters import Filter
from sendonce.store.postgres.reading import WINDOW, Reading
from sendonce.store.records import DeliveryRow


class Undelivered(Reading):
    async def undelivered(self, tenant: str | None, *, before: int | None = None, limit: int = 50) -> list[DeliveryRow]:
        """See ReadStore."""
        found: list[int] = []
        async for ids in self._undelivered_windows(before):
            values = {"ids": ids, "tenant": tenant, "limit": limit - len(found)}
            found += [row[0] for row in await self.people.fetch("undelivered_ids", values)]
            if len(found) >= limit:
                break
        return await self._delivery_rows(found, Filter(limit=limit))

    async def _undelivered_windows(self, before: int | None) -> AsyncIterator[list[int]]:
        rows = await self.people.fetch("undelivered_places", {"window": WINDOW})
        if len(rows) < WINDOW:
            yield [row[0] for row in rows if before is None or row[0] < before]
            return
        async for ids in self._walk("delivery_window", before=before):
            yield ids
