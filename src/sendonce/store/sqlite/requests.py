"""Requests, for those who look at them: ids first, in bounded steps, then the rows that match."""

import json
from collections.abc import Sequence

from sendonce.domain.requests import RequestState
from sendonce.outbox.request_states import read_state
from sendonce.sql import steps
from sendonce.sql.statements import Rows, Statement
from sendonce.store.filters import Filter
from sendonce.store.records import RequestRow
from sendonce.store.sqlite.connection import OwnConnection, Transaction
from sendonce.store.sqlite.rows import record

# Of each request in a window all required recipients are looked at, so it is small.
WINDOW = 500
LAST = 2**63 - 1


class Requests:
    """See `ReadStore`."""

    _reader: OwnConnection

    async def requests(self, wanted: Filter) -> list[RequestRow]:
        return await self._reader.run(_requests, wanted)

    async def requests_by_key(self, key: str) -> list[RequestRow]:
        return await self._reader.run(_requests_by_key, key)

    async def request(self, request_id: int) -> RequestState | None:
        return await self._reader.run(_request, request_id)


def _requests(transaction: Transaction, wanted: Filter) -> list[RequestRow]:
    query = "request_window" if wanted.subject is None else "request_window_of_subject"
    found: list[RequestRow] = []
    before = LAST
    while len(found) < wanted.limit:
        window = {"before": before, "subject": wanted.subject, "window": WINDOW}
        ids = [row[0] for row in transaction.fetch(query, window)]
        if not ids:
            break
        found += _rows(transaction, ids, wanted)
        before = ids[-1]
    return found[: wanted.limit]


def _requests_by_key(transaction: Transaction, key: str) -> list[RequestRow]:
    rows = transaction.fetch("request_ids_of_key", {"key": key})
    return _rows(transaction, [row[0] for row in rows], Filter(limit=WINDOW))


def _request(transaction: Transaction, request_id: int) -> RequestState | None:
    def execute(statement: Statement) -> Rows:
        return transaction.connection.execute(statement.sql, statement.values).fetchall()

    return steps.run(read_state(request_id, "sqlite"), execute)


def _rows(transaction: Transaction, ids: Sequence[int], wanted: Filter) -> list[RequestRow]:
    values = {
        "ids": json.dumps(ids),
        "type": wanted.type,
        "tenant": wanted.tenant,
        "status": None if wanted.status is None else wanted.status.value,
        "limit": wanted.limit,
    }
    return [record(RequestRow, row) for row in transaction.fetch("request_rows", values)]
