"""sendonce reconcile, doubt and restored: what may have been sent is asked about, and after a restore that is all."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from sendonce.admin.text import counted, one_line, stamp
from sendonce.cli import options
from sendonce.cli.context import channels_for, settings_arguments, settings_for
from sendonce.cli.options import OPERATOR, WHY, WHY_REQUIRED
from sendonce.cli.output import say
from sendonce.cli.parser import WrongUse
from sendonce.cli.prompt import progress
from sendonce.cli.verbs import Arguments, argument, verb
from sendonce.domain.durations import format_duration

if TYPE_CHECKING:
    from sendonce.admin.api import Admin
    from sendonce.admin.audit import AuditReport, Checked
    from sendonce.admin.reconcile import Doubted
    from sendonce.config.load import Settings
    from sendonce.config.types import Setting
    from sendonce.engine.reconciler import Asked, Reconciled
    from sendonce.store.records import LossRow

DEFAULT_CAP = 100
_AUDIT_ONLY = ("since", "destination", "repair", "reason", "cap")
_SAID = {
    "found": ("had arrived and is completed", "had arrived and are completed"),
    "not_found": ("had not arrived: a worker sends it", "had not arrived: a worker sends them"),
    "held": ("cannot be asked about and is held for a person", "cannot be asked about and are held for a person"),
    "left": ("cannot be asked about: a worker sends it again", "cannot be asked about: a worker sends them again"),
    "given_up": ("had not arrived and is given up", "had not arrived and are given up"),
    "no_answer": ("got no answer", "got no answer"),
    "late": ("was taken over by a worker meanwhile", "were taken over by a worker meanwhile"),
}
_AUDITED = {
    "confirmed": "the other side has",
    "no_evidence": "the other side has no record of",
    "other_id": "the other side has under another id",
    "no_provider_id": "have no id of the other side",
    "no_answer": "got no answer",
    "cannot_be_asked": "cannot be asked about",
    "too_old": "are too old for the other side's memory",
    "too_fresh": "were sent too short a while ago to ask",
}


@dataclass(slots=True)
class _Result:
    """What came of asking, or of an audit."""

    done: "Reconciled | None" = None
    in_doubt: int = 0
    asked: "list[Asked]" = field(default_factory=list)
    report: "AuditReport | None" = None


def _settings() -> "list[Setting]":
    from sendonce.config.catalogue import TABLES

    return [TABLES["worker"]["app"]]


def _check(args: argparse.Namespace) -> bool:
    """Return whether it is an audit; WrongUse says which options do not go together."""
    if not args.audit:
        for name in _AUDIT_ONLY:
            if getattr(args, name):
                raise WrongUse(f"--{name} belongs to an audit; add --audit")
        return False
    if args.since is None:
        raise WrongUse("an audit needs --since: how far back to look, like --since 2d")
    if args.repair and not args.reason:
        raise WrongUse("--repair needs --reason: why, for the operations log")
    if not args.repair and (args.cap or args.reason):
        raise WrongUse("--cap and --reason belong to --repair")
    return True


@verb(
    "reconcile",
    "ask about what may have been sent, and check what is marked sent",
    settings_arguments(_settings),
    Arguments(
        lambda parser: parser.add_argument("--audit", action="store_true", help="check what is marked sent"),
        {"is_audit": _check, "settings": settings_for},
    ),
    argument("--since", type=options.past, metavar="WHEN", help="what was sent since 30m, 2h, 3d ago, or an ISO time"),
    argument("--destination", type=options.destination, metavar="URI", help="only to this destination"),
    argument("--repair", action="store_true", help="have what is missing sent again; needs --reason"),
    argument("--cap", type=options.limit, metavar="N", help=f"send at most so many again (default {DEFAULT_CAP})"),
    WHY,
    OPERATOR,
    argument("--verbose", action="store_true", help="also say what became of each delivery"),
    about="Ask now about everything that may have been sent; nothing is sent here. With --audit, check what is marked"
    " sent against what the other side has.",
)
async def reconcile(admin: "Admin", args: argparse.Namespace, is_audit: bool, settings: "Settings") -> _Result:
    if is_audit:
        return _Result(report=await _audit(admin, args, settings))
    result = _Result()

    def on_asked(each: "Asked") -> None:
        if args.json:
            result.asked.append(each)
        elif args.verbose:
            detail = f" ({one_line(each.detail)})" if each.detail else ""
            say(f"delivery {each.delivery_id} to {one_line(each.destination)} {_SAID[each.answer][0]}{detail}")

    result.done = await admin.areconcile(settings=settings, channels=channels_for(settings), on_asked=on_asked)
    result.in_doubt = (await admin.astatus()).in_doubt
    return result


@reconcile.json
def _(result: _Result, verbose: bool) -> object:
    if result.report is not None:
        return {**_audit_document(result.report), "repaired": result.report.opened}
    done = result.done
    return done and {
        "asked": done.asked,
        "answers": done.answers,
        "still_in_doubt": result.in_doubt,
        "deliveries": [each._asdict() for each in result.asked] if verbose else [],
        "left_alone": done.left_alone,
        "left_alone_until": done.left_alone_until,
    }


@reconcile.text
def _(result: _Result, args: argparse.Namespace) -> Iterator[str]:
    if result.report is not None:
        yield from _audit_lines(result.report, args)
    if result.done is not None:
        yield from _reconciled_lines(result.done, result.in_doubt)


@reconcile.code
def _(result: _Result) -> int:
    found, done = result.report, result.done
    if found is not None:
        return 1 if found.findings or found.unanswered else 0
    return 1 if done is not None and (done.unanswered or done.left_alone) else 0


def _reconciled_lines(done: "Reconciled", in_doubt: int) -> Iterator[str]:
    yield f"asked about {counted(done.asked, 'delivery', 'deliveries')} in doubt" + (":" if done.asked else "")
    for answer, (one, many) in _SAID.items():
        if amount := next((count for each, count in done.answers.items() if each == answer), 0):
            yield f"  {amount:,} {one if amount == 1 else many}"
    if done.left_alone_until is not None:
        verb = "is" if done.left_alone == 1 else "are"
        until = stamp(done.left_alone_until)
        yield f"  {done.left_alone:,} {verb} not asked about before {until}: a receiver may not find yet what it has"
    if in_doubt:
        yield f"still in doubt: {in_doubt:,}; what is stopped or paused is not asked about"


async def _audit(admin: "Admin", args: argparse.Namespace, settings: "Settings") -> "AuditReport":
    def show(report: "AuditReport") -> None:
        progress(f"checked {report.looked_at:,}, found {report.findings:,}")

    try:
        return await admin.aaudit(
            since=args.since,
            destination=args.destination,
            repair_reason=args.reason if args.repair else None,
            cap=args.cap or DEFAULT_CAP,
            settings=settings,
            channels=channels_for(settings),
            on_progress=show,
        )
    finally:
        progress("")


def _audit_document(report: "AuditReport") -> dict[str, object]:
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


def _audit_lines(report: "AuditReport", args: argparse.Namespace) -> Iterator[str]:
    for each in report.found:
        yield (
            f"delivery {each.delivery.id} to {one_line(each.delivery.destination)}: {each.check}"
            + (f", found as {one_line(each.notification_id)}" if each.notification_id else "")
            + ("" if each.is_new else " (found before)")
        )
    if report.findings > len(report.found):
        yield f"and {report.findings - len(report.found):,} more: sendonce reconcile --audit --json"
    yield f"checked {counted(report.looked_at, 'delivery', 'deliveries')}" + (":" if report.looked_at else "")
    for check, amount in report.counts.items():
        yield f"  {amount:,} {_AUDITED[check]}"
    yield from _repair_lines(report, args)


def _repair_lines(report: "AuditReport", args: argparse.Namespace) -> Iterator[str]:
    if not args.repair:
        if report.repairable:
            yield f"{report.repairable:,} would be sent again with: --repair --reason TEXT"
        return
    opened = counted(len(report.opened), "delivery is", "deliveries are")
    yield f"{opened} sent again, each after it was looked up once more"
    if left := report.repairable - len(report.opened):
        yield f"{left:,} left as they are: --cap is {args.cap or DEFAULT_CAP:,}"


@verb(
    "doubt",
    "after a restore, have everything that is open asked about first",
    argument("--open", action="store_true", required=True, help="everything that is not finished"),
    argument(
        "--wait",
        type=options.duration,
        metavar="TIME",
        help="how long nothing is asked or sent, because providers may lag (default 5m, and where a subscription's own"
        " doubt_wait is longer, that)",
    ),
    argument("--even-if-running", action="store_true", help="although workers are alive"),
    WHY_REQUIRED,
    OPERATOR,
    about="After a restore or a failover that lost commits, and before workers start: what is open may have been sent,"
    " so it is asked about first; where nobody can be asked, if_unsure decides.",
)
async def doubt(admin: "Admin", args: argparse.Namespace) -> int:
    def show(doubted: "Doubted") -> None:
        progress(f"{doubted.changed:,} put in doubt, up to delivery {doubted.last_id}")

    try:
        return await admin.adoubt(
            reason=args.reason, wait=args.wait, even_if_running=args.even_if_running, on_progress=show
        )
    finally:
        progress("")


doubt.json(lambda changed: {"changed": changed})


@doubt.text
def _(changed: int, wait: timedelta | None) -> Iterator[str]:
    from sendonce.admin.reconcile import USUAL_WAIT

    lasts, least = (USUAL_WAIT, "at least ") if wait is None else (wait, "")
    lag = f"; nobody asks about them or sends them for {least}{format_duration(lasts)}, then workers do"
    done = f"{counted(changed, 'open delivery', 'open deliveries')} put in doubt"
    yield f"{done}{lag if lasts else '; ask now with: sendonce reconcile'}"


@verb(
    "restored",
    "say that nothing was lost, where a worker has noticed that commits are missing",
    argument(
        "--nothing-lost",
        action="store_true",
        required=True,
        help="nothing was sent that the database does not know of: what is open is sent without being asked about",
    ),
    WHY_REQUIRED,
    OPERATOR,
    about="A worker has noticed that this database is older than what it remembers, and has put what is open in doubt."
    " Where you know that nothing was sent that the database does not know of, end that now. After a restore that"
    " no worker can notice, use: sendonce doubt --open.",
)
async def restored(admin: "Admin", reason: str) -> "LossRow | None":
    return await admin.anothing_lost(reason=reason)


@restored.text
def _(loss: "LossRow | None") -> Iterator[str]:
    if loss is None:
        yield "no worker has noticed a loss of commits: there is nothing to end"
    else:
        doubted = counted(loss.doubted, "delivery", "deliveries")
        yield f"the loss of commits is over: {doubted} are sent without asking"
