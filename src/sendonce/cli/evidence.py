"""sendonce evidence: what comes in later about what was sent: callbacks, settlement files, mail logs."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from sendonce.admin import evidence as late
from sendonce.admin.evidence import BadLine, Imported
from sendonce.admin.text import counted
from sendonce.cli import options
from sendonce.cli.context import configured
from sendonce.cli.options import OPERATOR, read_file
from sendonce.cli.output import fields_of
from sendonce.cli.parser import WrongUse
from sendonce.cli.prompt import progress
from sendonce.cli.verbs import Arguments, argument, verb
from sendonce.domain.evidence import Effect, Evidence, told

if TYPE_CHECKING:
    from sendonce.store.late_evidence import Weighed
    from sendonce.store.ports import Store

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


class _File(NamedTuple):
    lines: Sequence[tuple[int, Evidence]]
    bad: tuple[BadLine, ...]


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


def _file_of(args: argparse.Namespace) -> _File:
    is_csv = args.format == "csv" if args.format else PurePath(args.file).suffix.lower() in (".csv", ".tsv", ".txt")
    match = args.match.replace("-", "_")
    text = read_file(args.file, LARGEST_FILE)
    return configured(lambda: _File(*late.read_lines(text, source=args.source, match=match, is_csv=is_csv)))


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
async def add(store: "Store", said: Evidence, operator: str) -> "Weighed":
    return await late.add(store, said, operator=operator)


@add.json
def _(weighed: "Weighed") -> object:
    return weighed._asdict()


@add.text
def _(weighed: "Weighed") -> Iterator[str]:
    again = " (it had come in before)" if weighed.is_repeat else ""
    yield f"it {_DONE[weighed.effect]}{again}"
    if weighed.delivery_id is not None:
        yield f"look at it with: sendonce explain delivery:{weighed.delivery_id}"


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
    Arguments(lambda parser: None, {"read": _file_of}),
    OPERATOR,
    about="Apply a file of evidence. Each line has an outcome (Delivered or Refused) and a token or notification_id; it"
    " may have reference, occurred_at, error_code and details. One bad line, and nothing is written.",
)
async def import_file(store: "Store", read: _File, operator: str, dry_run: bool) -> Imported:
    if read.bad:
        return Imported(bad=read.bad)
    if not read.lines:
        raise WrongUse("there is no line of evidence in it")

    def show(report: Imported) -> None:
        progress(f"{report.lines} of {len(read.lines)} lines")

    done = await late.import_lines(store, read.lines, operator=operator, dry_run=dry_run, on_progress=show)
    progress("")
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
