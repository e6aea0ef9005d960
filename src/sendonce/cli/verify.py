"""sendonce verify and doctor: whether everything is as it must be, and the database fit for the work."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sendonce.cli.advice import document, with_advice
from sendonce.cli.context import CONFIG, configured, database_of
from sendonce.cli.options import some_rate
from sendonce.cli.output import fields_of, paint, warn
from sendonce.cli.parser import WrongUse
from sendonce.cli.prompt import progress
from sendonce.cli.verbs import Arguments, argument, verb
from sendonce.errors import StoreError

if TYPE_CHECKING:
    from sendonce.admin.api import Admin
    from sendonce.admin.doctor import Diagnosis, Limits
    from sendonce.admin.verify import Cursor, Finding, Verified, VerifyPlan

COULD_NOT_LOOK, INTERRUPTED = 3, 130
_SHOWN_IDS = 10
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@dataclass(frozen=True, slots=True)
class _Verified:
    """What was found; `failure` says why the look ended before its end."""

    report: "Verified"
    failure: str | None = None
    code: int = 0


@verb(
    "verify",
    "check that everything in the database is as it must be",
    Arguments(
        lambda parser: parser.add_argument(
            "--only",
            action="append",
            metavar="CHECK",
            help="this check alone; may be given more than once (docs/how-to/verify.md)",
        ),
        {"plan": lambda args: _plan_of(args)},
    ),
    argument("--since", metavar="PLACE", help="go on from here: what an interrupted run said (deliveries:120000)"),
    argument(
        "--rate", type=some_rate, metavar="N/s", help="at no more than so many rows a second; else half of the time"
    ),
    about="Look at every event, delivery, attempt and lease, and say what is not as it must be. Reads only, in small"
    " steps with pauses between them: it can run while the workers do.",
    only_looks=True,
)
async def verify(admin: "Admin", plan: "VerifyPlan") -> _Verified:
    """Return what was found, also when the look is interrupted or fails on its way."""
    from asyncio import CancelledError

    from sendonce.admin.verify import Verified

    report = Verified(plan.since)

    def show(reached: "Verified") -> None:
        nonlocal report
        report = reached
        looked = ", ".join(f"{amount:,} {walk}" for walk, amount in report.looked.items())
        wrong = sum(each.amount for each in report.findings.values())
        progress(f"{looked}; {wrong:,} wrong")

    try:
        report = await admin.averify(plan, on_progress=show)
    except CancelledError:
        return _stopped(report, "interrupted", INTERRUPTED)
    except StoreError as error:
        # Who could not look at anything has nothing to say, and no place to go on from.
        if report.looked or report.findings:
            return _stopped(report, str(error), COULD_NOT_LOOK)
        raise
    finally:
        progress("")
    return _Verified(report, code=1 if report.findings else 0)


def _stopped(report: "Verified", failure: str, code: int) -> _Verified:
    progress("")
    warn(f"stopped at {report.place}; go on with: sendonce verify --since {report.place}")
    if code == COULD_NOT_LOOK:
        warn(failure)
    return _Verified(report, failure, code)


@verify.text
def _(verified: _Verified) -> Iterator[str]:
    return _lines(verified.report)


@verify.code
def _(verified: _Verified) -> int:
    return verified.code


@verify.json
def _(verified: _Verified) -> object:
    code = {COULD_NOT_LOOK: "could_not_look", INTERRUPTED: "interrupted"}.get(verified.code)
    error = {"error": {"code": code, "message": verified.failure}} if code else {}
    return {**_document(verified.report), **error}


def _plan_of(args: argparse.Namespace) -> "VerifyPlan":
    from dataclasses import replace

    from sendonce.admin.checks import CHECKS, NAMES
    from sendonce.admin.verify import VerifyPlan

    for name in args.only or ():
        if name not in NAMES:
            raise WrongUse(f"there is no check {name!r}; the checks are: {', '.join(NAMES)}")
    checks = [check for check in CHECKS if not args.only or check.name in args.only]
    plan = VerifyPlan(checks=checks, rate=args.rate)
    if not args.since:
        return plan
    plan = replace(plan, since=_place(args.since))
    for check in checks if args.only and not plan.is_whole else ():
        if check.walk not in plan.walks:
            raise WrongUse(f"{check.name} cannot be checked from {plan.since} on; leave --since out")
    return plan


def _place(text: str) -> "Cursor":
    from sendonce.admin.verify import Cursor
    from sendonce.store.verifying import Walk

    walk, _, last_id = text.partition(":")
    if walk not in list(Walk) or not last_id.isdecimal() or len(last_id) > 18:
        raise WrongUse(f"--since must be like deliveries:120000, with one of: {', '.join(Walk)}; not {text!r}")
    return Cursor(Walk(walk), int(last_id))


def _lines(report: "Verified") -> Iterator[str]:
    for finding in report.findings.values():
        yield paint(f"wrong: {_sentence(finding)}", "red")
        yield f"  {finding.check.of}: {_ids(finding)}"
        yield f"  to do: {with_advice(finding.to_do, finding.advice)}"
    for note in report.notes:
        yield f"note: {note}"
    looked = ", ".join(f"{amount:,} {walk}" for walk, amount in report.looked.items()) or "the rules"
    nothing = "nothing is wrong" if report.is_done else "nothing is wrong so far"
    what = f"{len(report.findings)} of the checks found something" if report.findings else nothing
    yield f"looked at {looked}: {what}"


def _sentence(finding: "Finding") -> str:
    many = f"{finding.amount:,} or more" if finding.is_more else f"{finding.amount:,}"
    return f"{finding.check.name} ({many}): {finding.check.wrong}"


def _ids(finding: "Finding") -> str:
    shown = ", ".join(str(each) for each in finding.found[:_SHOWN_IDS])
    return shown + (", …" if finding.amount > _SHOWN_IDS or finding.is_more else "")


def _document(report: "Verified") -> dict[str, object]:
    return {
        "looked": {str(walk): amount for walk, amount in report.looked.items()},
        "findings": [
            {
                "check": each.check.name,
                "wrong": each.check.wrong,
                "to_do": each.to_do,
                "advice": [document(advice) for advice in each.advice],
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


@verb(
    "doctor",
    "look at the database's settings and surroundings for what is amiss",
    Arguments(CONFIG.add, {"limits": lambda args: _limits(args)}),
    about="Look at the database and what surrounds it: its settings, what holds vacuum back, what is missing, clocks,"
    " connections, leases, disk. Reads only.",
    only_looks=True,
)
async def doctor(admin: "Admin", limits: "Limits") -> "list[Diagnosis]":
    return await admin.adoctor(limits)


@doctor.text
def _(found: "list[Diagnosis]", args: argparse.Namespace) -> Iterator[str]:
    from sendonce.compose import display_url

    yield display_url(database_of(args))
    for each in found:
        yield f"  {paint(f'{each.level:<7}', _COLOURS[each.level])}  {each.name}: {each.sentence}"
        if each.to_do or each.advice:
            yield f"           to do: {with_advice(each.to_do, each.advice)}"


@doctor.json
def _(found: "list[Diagnosis]") -> object:
    return {"rows": [{**fields_of(each), "advice": [document(advice) for advice in each.advice]} for each in found]}


@doctor.code
def _(found: "list[Diagnosis]") -> int:
    return 1 if any(each.level == "problem" for each in found) else 0


def _limits(args: argparse.Namespace) -> "Limits":
    """Return what the settings here say of leases, sends and retention."""
    import os

    from sendonce.admin.doctor import Limits
    from sendonce.config.load import find, load_limits, load_retention

    def limits() -> Limits:
        path = find(args.config, os.environ)
        lease, timeout = load_limits(path, os.environ)
        retention = load_retention(path, os.environ)
        return Limits(lease, timeout, {stage.value: age for stage, age in retention.stages.items()})

    return configured(limits)
