"""Both services asked about every payment: what is proven is settled, the rest is listed with its reason.

python -m apps.chancepay reconcile --requests http://… --wallet http://…
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from apps.chancepay.comparison import PASSING, Agree, Listed, Settle, Verdict, compare
from apps.chancepay.contract import LARGEST_PAGE, RequestView, WalletView
from apps.chancepay.peer import Address, Peer, PeerFailed

# The wallet has nothing of these, and takes each uuid once: so they can be published again.
LOST = {"never_published", "not_seen_by_wallet"}

_log = logging.getLogger("chancepay.reconcile")


@dataclass(slots=True)
class Outcome:
    """What came of it. `listed`: by uuid, what could not be settled and why."""

    looked_at: int = 0
    settled: int = 0
    republished: int = 0
    listed: dict[UUID, Listed] = field(default_factory=dict)
    audit: list[str] = field(default_factory=list)

    @property
    def needs_somebody(self) -> bool:
        """Whether anything waits for a person: neither settled nor passing by itself."""
        return bool(self.audit) or any(each.why not in PASSING for each in self.listed.values())


async def reconcile(
    requests: Peer, wallet: Peer, *, everything: bool = False, republish: bool = False, dry_run: bool = False
) -> Outcome:
    """Look at what is PENDING, or at everything from both sides. PeerFailed when one of them does not answer."""
    outcome = Outcome()
    path = "/internal/requests" if everything else "/internal/requests?pending=true"
    async for page in _in_pages(requests.pages(path, "requests")):
        found = [RequestView.model_validate(each) for each in page]
        orders = {"orders": [each.order.model_dump(mode="json") for each in found]}
        known = await wallet.ask("POST", "/internal/payments/look-up", orders)
        views = {view.uuid: view for view in map(WalletView.model_validate, known)}
        for request in found:
            uuid = request.order.uuid
            outcome.looked_at += 1
            verdict = compare(request, views.get(uuid))
            await _carry_out(outcome, requests, uuid, verdict, republish=republish, dry_run=dry_run)
    if everything:
        await _look_for_strangers(outcome, requests, wallet)
        outcome.audit = (await wallet.ask("GET", "/internal/audit", seconds=600))["findings"]
    return outcome


async def _carry_out(
    outcome: Outcome, requests: Peer, uuid: UUID, verdict: Verdict, *, republish: bool, dry_run: bool
) -> None:
    match verdict:
        case Agree():
            return
        case Settle(report) if dry_run:
            outcome.listed[uuid] = Listed("report_lost", f"the wallet says {report.status}")
        case Settle(report):
            # As the wallet would have reported it; who is first does not matter.
            await requests.report(uuid, report)
            outcome.settled += 1
            _log.warning("request %s: its report had not arrived, and it is %s", uuid, report.status)
        case Listed() as listed:
            outcome.listed[uuid] = listed
            if dry_run:
                return
            if listed.why in LOST and republish:
                await requests.ask("POST", f"/internal/requests/{uuid}/publish")
                outcome.republished += 1
            else:
                note = {"why": listed.why, "detail": listed.detail[:500]}
                await requests.ask("PUT", f"/internal/requests/{uuid}/finding", note)


async def _look_for_strangers(outcome: Outcome, requests: Peer, wallet: Peer) -> None:
    """What the wallet has decided and no request stands for."""
    async for page in _in_pages(wallet.pages("/internal/payments", "payments")):
        decided = [WalletView.model_validate(each) for each in page]
        known = await requests.ask(
            "POST", "/internal/requests/look-up", {"uuids": [str(each.uuid) for each in decided]}
        )
        there = {RequestView.model_validate(each).order.uuid for each in known}
        for each in decided:
            if each.uuid not in there and isinstance(verdict := compare(None, each), Listed):
                outcome.listed[each.uuid] = verdict


async def _in_pages(rows: AsyncIterator[object]) -> AsyncIterator[list[object]]:
    page: list[object] = []
    async for row in rows:
        page.append(row)
        if len(page) == LARGEST_PAGE:
            yield page
            page = []
    if page:
        yield page


def main(arguments: Sequence[str]) -> int:
    """Print what was found; 0 when nothing waits for a person, 1 when something does, 2 when a service is away."""
    parser = argparse.ArgumentParser(prog="python -m apps.chancepay reconcile", description=reconcile.__doc__)
    parser.add_argument("--requests", required=True, metavar="URL", help="its key: CHANCEPAY_REQUESTS_KEY")
    parser.add_argument("--wallet", required=True, metavar="URL", help="its key: CHANCEPAY_WALLET_KEY")
    parser.add_argument("--all", action="store_true", help="also what is decided, from both sides, and add it all up")
    parser.add_argument(
        "--republish", action="store_true", help="publish again what was never published, or the broker has lost"
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    args = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    keys = [os.environ.get(f"CHANCEPAY_{side}_KEY", "") for side in ("REQUESTS", "WALLET")]
    try:
        outcome = asyncio.run(_run(Address(args.requests, keys[0]), Address(args.wallet, keys[1]), args))
    except PeerFailed as error:
        print(f"reconcile: {error}", file=sys.stderr)
        return 2
    print(told(outcome))
    return 1 if outcome.needs_somebody else 0


def told(outcome: Outcome) -> str:
    """The outcome in lines: the sums, then every case."""
    sums = f"{outcome.looked_at} looked at, {outcome.settled} settled, {len(outcome.listed)} listed"
    lines = [sums + (f", {outcome.republished} published again" if outcome.republished else "")]
    lines += [f"  {uuid}  {each.why}: {each.detail}" for uuid, each in outcome.listed.items()]
    return "\n".join(lines + [f"  ledger: {each}" for each in outcome.audit])


async def _run(requests: Address, wallet: Address, args: argparse.Namespace) -> Outcome:
    async with Peer(requests) as here, Peer(wallet) as there:
        return await reconcile(
            here, there, everything=args.all, republish=args.republish, dry_run=args.dry_run
        )  # fmt: skip
