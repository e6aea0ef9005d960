"""What both sides know of one payment, put beside each other: settled where it is proven, else listed with why."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from apps.chancepay.contract import Order, Publication, Report, RequestView, WalletView

Why: TypeAlias = Literal[
    "being_published",
    "never_published",
    "no_report_yet",
    "not_seen_by_wallet",
    "listener_is_trying",
    "listener_failed",
    "report_lost",
    "refused_other_content",
    "contradiction",
    "other_content",
    "no_such_request",
    "not_in_the_ledger",
]
# These pass by themselves; everything else that is listed waits for a person.
PASSING: frozenset[Why] = frozenset({"being_published", "no_report_yet", "not_seen_by_wallet", "listener_is_trying"})


@dataclass(frozen=True, slots=True)
class Agree:
    """Both sides say the same, and it is over."""


@dataclass(frozen=True, slots=True)
class Settle:
    """The wallet has decided, and the request does not know: its report was lost, or is still on its way."""

    report: Report


@dataclass(frozen=True, slots=True)
class Listed:
    """Nothing can be proven yet, or the two sides contradict each other."""

    why: Why
    detail: str


Verdict: TypeAlias = Agree | Settle | Listed


def compare(request: RequestView | None, wallet: WalletView | None) -> Verdict:
    """Say what becomes of one uuid. Reads nothing and writes nothing; at least one side knows it."""
    if request is None:
        return Listed("no_such_request", "the wallet has decided about a uuid that no request has")
    report = None if wallet is None else wallet.report
    if report is None:
        return _not_decided(request, wallet)
    if not is_about(report, request.order):
        return Listed("other_content", "the wallet has decided about another amount, wallet or kind")
    if request.status == "PENDING":
        return Settle(report)
    if (request.status, request.reason) != (report.status, report.reason):
        return Listed("contradiction", f"{request.status} here, {report.status} at the wallet")
    return Agree()


def is_about(report: Report, order: Order) -> bool:
    """Whether the report is about this order, and not about another one with its uuid."""
    return (report.kind, report.wallet, report.amount, report.refund_of) == (
        order.kind,
        order.wallet,
        order.amount,
        order.refund_of,
    )


def on_its_way(publication: Publication | None) -> Listed:
    """How far a message is on its way, as its own side knows it."""
    if publication is None:
        return Listed("no_report_yet", "how its message went out is no longer kept")
    if publication.state == "published":
        return Listed("no_report_yet", "the broker has it")
    told = f"{publication.attempts} tries" + (f", {publication.error}" if publication.error else "")
    if publication.state == "waiting":
        return Listed("being_published", told)
    return Listed("never_published", told + (", and it may be there all the same" if publication.in_doubt else ""))


def _not_decided(request: RequestView, wallet: WalletView | None) -> Listed:
    if request.status != "PENDING":
        return Listed("not_in_the_ledger", f"{request.status} here, and the wallet has never decided about it")
    if wallet is not None and wallet.failure is not None:
        failure = wallet.failure
        why: Why = "listener_failed" if failure.is_over else "listener_is_trying"
        return Listed(why, f"{failure.error} ({failure.tries} tries)")
    if wallet is not None and wallet.refused:
        return Listed("refused_other_content", "the wallet has refused a message with this uuid and other content")
    known = on_its_way(request.publication)
    return known if known.why != "no_report_yet" else Listed("not_seen_by_wallet", known.detail)
