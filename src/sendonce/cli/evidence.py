"""sendonce evidence: what comes in later about what was sent: callbacks, settlement files, mail logs."""

import argparse
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from sendonce.admin.advice import Advice
from sendonce.admin.evidence import Imported
from sendonce.admin.text import counted
from sendonce.cli import options
from sendonce.cli.advice import spelled
from sendonce.cli.context import configured
from sendonce.cli.options import OPERATOR, read_file
from sendonce.cli.output import fields_of
from sendonce.cli.parser import WrongUse
from sendonce.cli.prompt import progress
from sendonce.cli.verbs import Arguments, argument, verb
from sendonce.domain.evidence import Effect, Evidence, told
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from sendonce.admin.api import Admin
    from sendonce.store.late_evidence import Weighed

LARGEST_FILE = 500_000_000
SHOWN = 20
_DONE = {
    Effect.SETTLED: "settles a delivery",
    Effect.KNOWN: "says what was known",
    Effect.CONTRADICTS: "contradicts what was known: a finding, and nothing is changed",
    Effect.NOTED: "is noted for whoever decides about the dead letter",
    Effect.IN_FLIGHT: "is about what is being sent at this moment; nothing is written: give it again",
    Effect.UNMATCHED: "matches no delivery that was looked at; nothing is written",
}
_SOURCE = argument("--source", required=True, metavar="NAME", help="who says so, like postmark or bank-2026-01.csv")


def _evidence_of(args: argparse.Namespace) -> Evidence:
    return configured(
        lambda: Evidence(
            source=args.source,
            outcome=told(args.outcome),
            token=args.token,
            notification_id=args.notification_id,
            reference=args.reference,
            occurred_at=args.occurred_at,
            error_code=args.error_code,
        )
    )


def _is_csv(args: argparse.Namespace) -> bool:
    return args.format == "csv" if args.format else PurePath(args.file).suffix.lower() in (".csv", ".tsv", ".txt")


@verb(
    "evidence add",
    "say what came in later about one delivery",
    argument("--token", metavar="TOKEN", help="what the message was sent with"),
    argument("--notification-id", metavar="ID", help="the other side's id for it"),
    argument("--outcome", required=True, metavar="OUTCOME", help="Delivered or Refused"),
    _SOURCE,
    argument("--reference", metavar="TEXT", help="what the source calls it: the same one counts once"),
    argument("--occurred-at", type=options.past, metavar="WHEN", help="when it happened: 2h ago, or an ISO time"),
    argument("--error-code", metavar="CODE", help="why it was refused"),
    Arguments(lambda parser: None, {"said": _evidence_of}),
    OPERATOR,
)
async def add(admin: "Admin", said: Evidence) -> "Weighed":
    return await admin.aevidence(said)


@add.json
def _(weighed: "Weighed") -> object:
    return weighed._asdict()


@add.text
def _(weighed: "Weighed") -> Iterator[str]:
    again = " (it had come in before)" if weighed.is_repeat else ""
    yield f"it {_DONE[weighed.effect]}{again}"
    if weighed.delivery_id is not None:
        yield spelled(Advice(verb="explain", why="look at it with", id=weighed.delivery_id, of="delivery"))


@add.code
def _(weighed: "Weighed") -> int:
    return int(weighed.effect in (Effect.UNMATCHED, Effect.IN_FLIGHT))


@verb(
    "evidence import",
    "apply a file of evidence: CSV with a header, or JSON lines",
    argument("file", metavar="FILE", help="the file; - reads standard input"),
    argument("--match", choices=["token", "notification-id"], default="token", help="what a line is known by"),
    _SOURCE,
    argument("--format", choices=["csv", "jsonl"], help="else .csv is CSV, and everything else JSON lines"),
    argument("--dry-run", action="store_true", help="say what each line would do, and write nothing"),
    Arguments(lambda parser: None, {"text": lambda args: read_file(args.file, LARGEST_FILE), "is_csv": _is_csv}),
    OPERATOR,
    about="Apply a file of evidence. Each line has an outcome (Delivered or Refused) and a token or notification_id; it"
    " may have reference, occurred_at, error_code and details. One bad line, and nothing is written.",
)
async def import_file(admin: "Admin", text: str, is_csv: bool, args: argparse.Namespace, dry_run: bool) -> Imported:
    def show(report: Imported) -> None:
        progress(f"{counted(report.lines, 'line')}")

    try:
        done = await admin.aimport_evidence(
            text,
            source=args.source,
            match=args.match.replace("-", "_"),
            is_csv=is_csv,
            dry_run=dry_run,
            on_progress=show,
        )
    except ConfigError as error:
        raise WrongUse(str(error)) from None
    finally:
        progress("")
    if not done.lines and not done.bad:
        raise WrongUse("there is no line of evidence in it")
    return done


@import_file.json
def _(report: Imported, dry_run: bool) -> object:
    return {**fields_of(report), "dry_run": dry_run}


@import_file.text
def _(report: Imported, dry_run: bool) -> Iterator[str]:
    if report.bad:
        yield f"{counted(len(report.bad), 'line')} cannot be read, so nothing was written:"
        yield from (f"line {each.number}: {each.reason}" for each in report.bad[:SHOWN])
        return
    for effect in Effect:
        if amount := report.effects.get(effect):
            yield f"{counted(amount, 'line')}: each {_DONE[effect]}"
    if report.repeated:
        yield f"{counted(report.repeated, 'line')} had come in before"
    for named, numbers in (("no delivery for", report.unmatched), ("being sent", report.in_flight),
                           ("a contradiction in", report.contradicting)):  # fmt: skip
        if numbers:
            more = " …" if len(numbers) > SHOWN else ""
            yield f"{named} line {', '.join(str(each) for each in numbers[:SHOWN])}{more}"
    if dry_run:
        yield "nothing was written: this was a dry run"


@import_file.code
def _(report: Imported) -> int:
    return int(bool(report.bad or report.unmatched or report.in_flight))
