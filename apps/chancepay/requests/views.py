"""Rows as callers and the other service see them."""

from sqlalchemy import RowMapping

from apps.chancepay.comparison import on_its_way
from apps.chancepay.contract import Publication, RequestView
from apps.chancepay.requests.models import Payment, Pending
from apps.chancepay.requests.payments import order_of


def payment(row: RowMapping, *, explained: bool) -> Payment:
    """A request as its caller sees it; `explained`: with why it is still PENDING."""
    found = {name: row[name] for name in Payment.model_fields if name != "pending"}
    return Payment(**found, pending=_pending(row) if explained and row["status"] == "PENDING" else None)


def request(row: RowMapping) -> RequestView:
    """The same for a reconciliation."""
    return RequestView(
        order=order_of(row),
        status=row["status"],
        reason=row["reason"],
        created_at=row["created_at"],
        publication=publication(row),
    )


def publication(row: RowMapping) -> Publication | None:
    """How far the message is; None when the outbox no longer has its history."""
    if row["delivery_status"] is None:
        return None
    attempts, error, doubt = row["attempts"], row["error"], bool(row["in_doubt"])
    if row["delivery_status"] == "Completed":
        return Publication(state="published", attempts=attempts)
    over = row["delivery_status"] == "DeadLettered"
    return Publication(state="given_up" if over else "waiting", attempts=attempts, error=error, in_doubt=doubt)


def _pending(row: RowMapping) -> Pending:
    """What its own side knows comes first: it is newer than what a reconciliation has found."""
    known = on_its_way(publication(row))
    if known.why == "no_report_yet" and row["finding"] is not None:
        return Pending(why=row["finding"], detail=row["finding_detail"] or "")
    return Pending(why=known.why, detail=known.detail)
