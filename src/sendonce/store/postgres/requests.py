"""Requests, for those who look at them: ids first, in bounded steps, then the rows that match."""

from collections.abc import Sequence
from dataclasses import fields

from sendonce.domain.requests import RequestState, RequestStatus
from sendonce.outbox.request_states import read_state
from sendonce.sql import steps
from sendonce.sql.statements import Rows, Statement, pyformat
from sendonce.store.filters import Filter
from sendonce.store.postgres.connection import Connections
from sendonce.store.records import RequestRow

# Of each request in a window all required recipients are looked at, so it is small.
WINDOW = 500
_LAST = 2**63 - 1
_NAMES = [field.name for field in fields(RequestRow)]


class Requests(Connections):
    async def requests(self, wanted: Filter) -> list[RequestRow]:
        """See ReadStore."""
        query = "request_window" if wanted.subject is None else "request_window_of_subject"
        found: list[RequestRow] = []
        before = _LAST
        while len(found) < wanted.limit:
            window = {"before": before, "subject": wanted.subject, "window": WINDOW}
            ids = [row[0] for row in await self.people.fetch(query, window)]
            if not ids:
                break
            found += await self._request_rows(ids, wanted)
            before = ids[-1]
        return found[: wanted.limit]

    async def requests_by_key(self, key: str) -> list[RequestRow]:
        """See ReadStore."""
        rows = await self.people.fetch("request_ids_of_key", {"key": key})
        return await self._request_rows([row[0] for row in rows], Filter(limit=WINDOW))

    async def request(self, request_id: int) -> RequestState | None:
        """See ReadStore."""
        async with self.people.connection() as connection:

            async def execute(statement: Statement) -> Rows:
                cursor = await connection.execute(pyformat(statement.sql), statement.values or None)
                return await cursor.fetchall()

            return await steps.arun(read_state(request_id, "postgres"), execute)

    async def _request_rows(self, ids: Sequence[int], wanted: Filter) -> list[RequestRow]:
        values = {
            "ids": ids,
            "type": wanted.type,
            "tenant": wanted.tenant,
            "status": None if wanted.status is None else wanted.status.value,
            "limit": wanted.limit,
        }
        named = [dict(zip(_NAMES, row, strict=True)) for row in await self.people.fetch("request_rows", values)]
        return [RequestRow(**{**each, "status": RequestStatus(each["status"])}) for each in named]
