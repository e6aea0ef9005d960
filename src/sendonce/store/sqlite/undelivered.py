"""What has not arrived, newest first: all of it at once where it is little, else by walking down the ids."""

import json
from collections.abc import Iterator

from sendonce.store.filters import Filter
from sendonce.store.records import DeliveryRow
from sendonce.store.sqlite import lists
from sendonce.store.sqlite.connection import OwnConnection, Transaction


class Undelivered:
    """See `ReadStore`."""

    _reader: OwnConnection

    async def undelivered(self, tenant: str | None, *, before: int | None = None, limit: int = 50) -> list[DeliveryRow]:
        return await self._reader.run(_undelivered, tenant, before, limit)


def _undelivered(transaction: Transaction, tenant: str | None, before: int | None, limit: int) -> list[DeliveryRow]:
    found: list[int] = []
    for ids in _windows(transaction, before):
        values = {"ids": json.dumps(ids), "tenant": tenant, "limit": limit - len(found)}
        found += [row[0] for row in transaction.fetch("undelivered_ids", values)]
        if len(found) >= limit:
            break
    return lists.delivery_rows(transaction, found, Filter(limit=limit))


def _windows(transaction: Transaction, before: int | None) -> Iterator[list[int]]:
    rows = transaction.fetch("undelivered_places", {"window": lists.WINDOW})
    if len(rows) < lists.WINDOW:
        yield [row[0] for row in rows if before is None or row[0] < before]
    else:
        yield from lists.walk(transaction, "delivery_window", before=before)
