"""sendonce verify: whether everything is as it must be."""

import argparse
from typing import TYPE_CHECKING

from sendonce.cli import values
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.failures import CouldNotLook, WrongUse
from sendonce.cli.options import add_json
from sendonce.cli.output import paint, say, say_json, warn
from sendonce.cli.progress import progress
from sendonce.cli.running import with_store
from sendonce.errors import StoreError

if TYPE_CHECKING:
    from sendonce.admin.verify import Finding, Place, Plan, Report
    from sendonce.store.ports import Store

_SHOWN_IDS = 10


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "verify",
        help=COMMANDS["verify"][1],
        description="Look at every event, delivery, attempt and lease, and say what is not as it must be. Reads only,"
        " in small steps with pauses between them: it can run while the workers do.",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="CHECK",
        help="this check alone; may be given more than once (docs/how-to/verify.md)",
    )
    parser.add_argument(
        "--since", metavar="PLACE", help="go on from here: what an interrupted run said (deliveries:120000)"
    )
    parser.add_argument(
        "--rate",
        type=values.some_rate,
        metavar="N/s",
        help="at no more than so many rows a second; else half of the time",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    plan = _plan(args)
    try:
        report = with_store(args, lambda store: _verify(store, plan, as_json=args.json))
    except StoreError as error:
        raise CouldNotLook(str(error)) from error
    return 1 if report.findings else 0


def _plan(args: argparse.Namespace) -> "Plan":
    from dataclasses import replace

    from sendonce.admin.checks import CHECKS, NAMES
    from sendonce.admin.verify import Plan

    for name in args.only or ():
        if name not in NAMES:
            raise WrongUse(f"there is no check {name!r}; the checks are: {', '.join(NAMES)}")
    checks = [check for check in CHECKS if not args.only or check.name in args.only]
    plan = Plan(checks=checks, rate=args.rate)
    if not args.since:
        return plan
    plan = replace(plan, since=_place(args.since))
    for check in checks if args.only and not plan.is_whole else ():
        if check.walk not in plan.walks:
            raise WrongUse(f"{check.name} cannot be checked from {plan.since} on; leave --since out")
    return plan


def _place(text: str) -> "Place":
    from sendonce.admin.verify import Place
    from sendonce.store.verifying import Walk

    walk, _, last_id = text.partition(":")
    if walk not in list(Walk) or not last_id.isdecimal() or len(last_id) > 18:
        raise WrongUse(f"--since must be like deliveries:120000, with one of: {', '.join(Walk)}; not {text!r}")
    return Place(Walk(walk), int(last_id))


async def _verify(store: "Store", plan: "Plan", *, as_json: bool) -> "Report":
    """Says what was found, also when it is interrupted or fails on its way."""
    from asyncio import CancelledError
    from contextlib import aclosing

    from sendonce.admin.verify import Report, verify

    report = Report(plan.since)
    steps = verify(store, plan)
    try:
        async with aclosing(steps):
            async for report in steps:
                looked = ", ".join(f"{amount:,} {walk}" for walk, amount in report.looked.items())
                wrong = sum(each.amount for each in report.findings.values())
                progress(f"{looked}; {wrong:,} wrong")
    except (CancelledError, StoreError) as error:
        # Who could not look at anything has nothing to say, and no place to go on from.
        if report.looked or report.findings or isinstance(error, CancelledError):
            _tell(report, as_json=as_json)
            warn(f"stopped at {report.place}; go on with: sendonce verify --since {report.place}")
        raise
    _tell(report, as_json=as_json)
    return report


def _tell(report: "Report", *, as_json: bool) -> None:
    progress("")
    if as_json:
        say_json(_document(report))
    else:
        _say(report)


def _say(report: "Report") -> None:
    for finding in report.findings.values():
        say(paint(f"wrong: {_sentence(finding)}", "red"))
        say(f"  {finding.check.of}: {_ids(finding)}")
        say(f"  to do: {finding.to_do}")
    for note in report.notes:
        say(f"note: {note}")
    looked = ", ".join(f"{amount:,} {walk}" for walk, amount in report.looked.items()) or "the rules"
    nothing = "nothing is wrong" if report.is_done else "nothing is wrong so far"
    what = f"{len(report.findings)} of the checks found something" if report.findings else nothing
    say(f"looked at {looked}: {what}")


def _sentence(finding: "Finding") -> str:
    many = f"{finding.amount:,} or more" if finding.is_more else f"{finding.amount:,}"
    return f"{finding.check.name} ({many}): {finding.check.wrong}"


def _ids(finding: "Finding") -> str:
    shown = ", ".join(str(each) for each in finding.found[:_SHOWN_IDS])
    return shown + (", …" if finding.amount > _SHOWN_IDS or finding.is_more else "")


def _document(report: "Report") -> dict[str, object]:
    return {
        "looked": {str(walk): amount for walk, amount in report.looked.items()},
        "findings": [
            {
                "check": each.check.name,
                "wrong": each.check.wrong,
                "to_do": each.to_do,
                "of": each.check.of,
                "found": each.found,
                "amount": each.amount,
                "is_more": each.is_more,
            }
            for each in report.findings.values()
        ],
        "notes": report.notes,
        "stopped_at": None if report.is_done else str(report.place),
        "longest_step_seconds": round(report.longest_step, 3),
    }
