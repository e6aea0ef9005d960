"""Requests: one version of a subject to its recipients."""

from sendonce.domain.requests import RequestState
from sendonce.outbox.requests import LARGEST_ID, state_of
from sendonce.sql.steps import Steps, records, rows
from sendonce.store.filters import Filter, Page, ids_of, look, narrow, walk
from sendonce.store.records import RequestRow

# Of each request that is looked at all required recipients are, so there are fewer.
SIZES = (500, 1_500)


def requests(wanted: Filter) -> Steps[Page[RequestRow]]:
    """List requests; by status, as it follows from their recipients now."""
    if wanted.subject is None:
        window = walk("request_window")
    else:
        window = yield from narrow("request_window", "request_ids_of_subject", subject=wanted.subject)

    def matching(ids: list[int], limit: int) -> Steps[list[RequestRow]]:
        return records(RequestRow, "request_rows", ids=ids, limit=limit, subject=wanted.subject, **wanted.criteria)

    return (yield from look(wanted, window, matching, "request_at", sizes=SIZES))


def requests_by_key(key: str) -> Steps[list[RequestRow]]:
    """Return the newest requests that were made with this key."""
    ids = ids_of((yield from rows("request_ids_of_key", key=key)))
    return (yield from records(RequestRow, "request_rows", ids=ids, limit=len(ids), subject=None, **Filter().criteria))


def request(request_id: int) -> Steps[RequestState | None]:
    """Return a request and its recipients at one moment; None when there is none."""
    if not 1 <= request_id <= LARGEST_ID:
        return None
    return state_of((yield from rows("request_state", request_id=request_id)))
