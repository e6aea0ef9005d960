"""sendonce reconcile --audit: run it, and say what was found."""

import argparse
from typing import TYPE_CHECKING

from sendonce.admin.text import counted, one_line
from sendonce.cli.asking import Means, with_means
from sendonce.cli.failures import WrongUse
from sendonce.cli.output import say, say_json
from sendonce.cli.progress import progress
from sendonce.cli.settings import operator_of

if TYPE_CHECKING:
    from sendonce.admin.audit import Checked, Report

DEFAULT_CAP = 100
_SAID = {
    "confirmed": "the other side has",
    "no_evidence": "the other side has no record of",
    "other_id": "the other side has under another id",
    "no_provider_id": "have no id of the other side",
    "no_answer": "got no answer",
    "cannot_be_asked": "cannot be asked about",
    "too_old": "are too old for the other side's memory",
    "too_fresh": "were sent too short a while ago to ask",
}


def run_audit(args: argparse.Namespace) -> int:
    """Check; 1 when something was found or not answered."""
    if args.since is None:
        raise WrongUse("an audit needs --since: how far back to look, like --since 2d")
    if args.repair and not args.reason:
        raise WrongUse("--repair needs --reason: why, for the operations log")
    if not args.repair and (args.cap or args.reason):
        raise WrongUse("--cap and --reason belong to --repair")
    report = with_means(args, lambda means: _audit(means, args))
    if args.json:
        say_json({**_as_dict(report), "repaired": report.opened})
    else:
        _say(report, args)
    return 1 if report.findings or report.unanswered else 0


async def _audit(means: Means, args: argparse.Namespace) -> "Report":
    from sendonce.admin import audit
    from sendonce.engine.instance import check_instance

    await check_instance(means.store, means.instance)
    repair = None
    if args.repair:
        repair = audit.Repair(operator=operator_of(args), reason=args.reason, cap=args.cap or DEFAULT_CAP)
    through = audit.Means(
        channels=means.channels,
        namespace=await means.store.namespace(),
        policy_at=means.policies.at,
        credentials_of=means.keyring.of,
    )
    report = audit.Report()
    try:
        async for report in audit.audit(
            means.store, through, since=args.since, destination=args.destination, repair=repair
        ):
            progress(f"checked {report.looked_at:,}, found {report.findings:,}")
    finally:
        progress("")
    return report


def _as_dict(report: "Report") -> dict[str, object]:
    return {
        "checked": report.looked_at,
        "counts": {each.value: amount for each, amount in report.counts.items()},
        "findings": [_finding(each) for each in report.found],
        "can_be_repaired": report.repairable,
    }


def _finding(found: "Checked") -> dict[str, object]:
    return {
        "delivery_id": found.delivery.id,
        "destination": found.delivery.destination,
        "kind": found.check.value,
        "notification_id": found.delivery.notification_id,
        "found_id": found.notification_id,
        "is_new": found.is_new,
    }


def _say(report: "Report", args: argparse.Namespace) -> None:
    for each in report.found:
        say(
            f"delivery {each.delivery.id} to {one_line(each.delivery.destination)}: {each.check}"
            + (f", found as {one_line(each.notification_id)}" if each.notification_id else "")
            + ("" if each.is_new else " (found before)")
        )
    if report.findings > len(report.found):
        say(f"and {report.findings - len(report.found):,} more: sendonce reconcile --audit --json")
    say(f"checked {counted(report.looked_at, 'delivery', 'deliveries')}" + (":" if report.looked_at else ""))
    for check, amount in report.counts.items():
        say(f"  {amount:,} {_SAID[check]}")
    _say_repair(report, args)


def _say_repair(report: "Report", args: argparse.Namespace) -> None:
    if not args.repair:
        if report.repairable:
            say(f"{report.repairable:,} would be sent again with: --repair --reason TEXT")
        return
    opened = counted(len(report.opened), "delivery is", "deliveries are")
    say(f"{opened} sent again, each after it was looked up once more")
    if left := report.repairable - len(report.opened):
        say(f"{left:,} left as they are: --cap is {args.cap or DEFAULT_CAP:,}")
