"""The wallet's rules, and what a reconciliation makes of what both sides know: pure, so every case is here."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.chancepay.comparison import PASSING, Agree, Listed, Settle, Why, compare
from apps.chancepay.contract import LARGEST, Failure, Order, Publication, Report, RequestView, WalletView
from apps.chancepay.wallet.rules import PAID, Booked, Declined, Original, decide

UUID_OF = UUID(int=7)
AMOUNTS = st.integers(1, LARGEST)
BALANCES = st.integers(0, LARGEST)


def order(amount: int = 100, **more: Any) -> Order:
    return Order(**{"uuid": UUID_OF, "kind": "payment", "wallet": "ada", "amount": amount, **more})


def refund(amount: int) -> Order:
    return order(amount, kind="refund", refund_of=uuid4())


def request(status: str = "PENDING", reason: str | None = None, publication: Publication | None = None) -> RequestView:
    found: dict[str, Any] = {"status": status, "reason": reason, "publication": publication}
    return RequestView(order=order(), created_at=datetime.now(UTC), **found)


def report(status: str = "SUCCEED", reason: str | None = None, **more: Any) -> Report:
    about: dict[str, Any] = {"kind": "payment", "wallet": "ada", "amount": 100, "status": status, "reason": reason}
    return Report(**about | more)


def wallet(**known: Any) -> WalletView:
    return WalletView(uuid=UUID_OF, **known)


@given(amount=AMOUNTS, balance=BALANCES)
def test_rule_takes_a_payment_when_the_balance_has_it_and_never_below_zero(amount: int, balance: int) -> None:
    decision = decide(order(amount), balance, None)

    if balance >= amount:
        assert decision == Booked(debit="ada", credit=PAID)
    else:
        assert decision == Declined("insufficient_balance")


@given(paid=AMOUNTS, back=AMOUNTS, balance=BALANCES, data=st.data())
def test_rule_never_gives_back_more_than_was_paid(paid: int, back: int, balance: int, data: st.DataObject) -> None:
    refunded = data.draw(st.integers(0, paid))

    decision = decide(refund(back), balance, Original("ada", paid, refunded, "SUCCEED"))

    if decision == Booked(debit=PAID, credit="ada"):
        assert refunded + back <= paid
        assert balance + back <= LARGEST
    elif refunded + back > paid:
        assert decision == Declined("refund_too_large")
    else:
        assert decision == Declined("balance_too_large")


@pytest.mark.parametrize(
    ("wanted", "balance", "original", "reason"),
    [
        (order(), None, None, "unknown_wallet"),
        (refund(1), None, None, "unknown_wallet"),
        (refund(1), 5, None, "unknown_payment"),
        (refund(1), 5, Original("ada", 9, 0, "FAILED"), "unknown_payment"),
        (refund(1), 5, Original("bob", 9, 0, "SUCCEED"), "unknown_payment"),
        (refund(3), 5, Original("ada", 9, 7, "SUCCEED"), "refund_too_large"),
        (refund(1), LARGEST, Original("ada", 9, 0, "SUCCEED"), "balance_too_large"),
    ],
)
def test_rule_declines_with_its_reason(wanted: Order, balance: int | None, original: Any, reason: str) -> None:
    assert decide(wanted, balance, original) == Declined(reason)  # type: ignore[arg-type]


WAITING = Publication(state="waiting", attempts=2, error="unreachable")
PUBLISHED = Publication(state="published", attempts=1)
GIVEN_UP = Publication(state="given_up", attempts=5, error="unreachable")
FAILING, OVER = (Failure(error="ValueError", tries=3, is_over=is_over) for is_over in (False, True))


@pytest.mark.parametrize(
    ("known", "there", "why"),
    [
        (request(publication=WAITING), None, "being_published"),
        (request(publication=GIVEN_UP), None, "never_published"),
        (request(publication=PUBLISHED), None, "not_seen_by_wallet"),
        (request(), None, "not_seen_by_wallet"),
        (request(publication=PUBLISHED), wallet(failure=FAILING), "listener_is_trying"),
        (request(publication=PUBLISHED), wallet(failure=OVER), "listener_failed"),
        (request(publication=PUBLISHED), wallet(refused=1), "refused_other_content"),
        (request(), wallet(report=report(amount=101)), "other_content"),
        (request("SUCCEED"), wallet(report=report("FAILED", "insufficient_balance")), "contradiction"),
        (request("FAILED", "unknown_wallet"), wallet(report=report()), "contradiction"),
        (request("SUCCEED"), None, "not_in_the_ledger"),
        (request("SUCCEED"), wallet(failure=OVER), "not_in_the_ledger"),
        (None, wallet(report=report()), "no_such_request"),
    ],
)
def test_reconcile_lists_what_is_not_proven_with_its_reason(
    known: RequestView | None, there: WalletView | None, why: Why
) -> None:
    verdict = compare(known, there)

    assert isinstance(verdict, Listed)
    assert verdict.why == why
    assert verdict.detail


@pytest.mark.parametrize("publication", [None, WAITING, PUBLISHED, GIVEN_UP])
@pytest.mark.parametrize("said", [report(), report("FAILED", "insufficient_balance")])
def test_reconcile_settles_what_the_wallet_has_decided(publication: Publication | None, said: Report) -> None:
    known = request(publication=publication)

    assert compare(known, wallet(report=said, failure=OVER, refused=2)) == Settle(said)
    assert compare(request(said.status, said.reason), wallet(report=said)) == Agree()


def test_reasons_that_pass_by_themselves_are_those_on_the_way() -> None:
    assert {"being_published", "not_seen_by_wallet", "no_report_yet", "listener_is_trying"} == PASSING
