"""Late evidence: matched with what it is about, and applied; and files of it, read line by line."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sendonce.domain.evidence import Effect, Evidence, told
from sendonce.domain.texts import MESSAGE_LENGTH, TOKEN_LENGTH, clean
from sendonce.errors import ConfigError
from sendonce.store.late_evidence import BY_NOTIFICATION, BY_TOKEN, PLACES, Weighed
from sendonce.store.ports import Store

# What one piece of evidence is looked for in: so many bounded steps of what is in doubt, and of what is newest.
REACH = 5
# A file is looked for all the way back, so many of its lines at once.
CHUNK = 1000
MOST_LINES = 1_000_000
LONGEST_LINE = 10_000
FIELDS = ("token", "notification_id", "outcome", "reference", "occurred_at", "error_code", "details")
# The token alone, or as it stands in the Message-ID of a mail.
_TOKEN = re.compile(rf"<?([0-9a-f]{{{TOKEN_LENGTH}}})(?:@[^\s<>]+)?>?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a file that says nothing sure, and why."""

    number: int
    reason: str


@dataclass(slots=True, kw_only=True)
class Imported:
    """How many lines did what; `unmatched` and `in_flight` are their numbers, of which the file may be given again."""

    lines: int = 0
    effects: dict[Effect, int] = field(default_factory=dict)
    repeated: int = 0
    unmatched: list[int] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)
    contradicting: list[int] = field(default_factory=list)
    bad: tuple[BadLine, ...] = ()

    def count(self, number: int, weighed: Weighed) -> None:
        self.lines += 1
        self.repeated += weighed.is_repeat
        self.effects[weighed.effect] = self.effects.get(weighed.effect, 0) + 1
        lists = {Effect.UNMATCHED: self.unmatched, Effect.IN_FLIGHT: self.in_flight}
        lists[Effect.CONTRADICTS] = self.contradicting
        if weighed.effect in lists and len(lists[weighed.effect]) < CHUNK:
            lists[weighed.effect].append(number)


async def add(store: Store, evidence: Evidence, *, operator: str) -> Weighed:
    """Apply one piece of evidence: looked for among what is in doubt, then among the newest deliveries."""
    [delivery_id] = await match(store, [evidence], reach=REACH)
    return Weighed(Effect.UNMATCHED) if delivery_id is None else await _add(store, delivery_id, evidence, operator)


async def import_lines(
    store: Store,
    lines: Sequence[tuple[int, Evidence]],
    *,
    operator: str,
    dry_run: bool = False,
    on_progress: "Callable[[Imported], None] | None" = None,
) -> Imported:
    """Apply the lines of a file in their order; each is whole, so an import that was cut can be repeated."""
    report = Imported()
    for begin in range(0, len(lines), CHUNK):
        chunk = lines[begin : begin + CHUNK]
        ids = await match(store, [evidence for _, evidence in chunk], reach=None)
        for (number, evidence), delivery_id in zip(chunk, ids, strict=True):
            if delivery_id is None:
                report.count(number, Weighed(Effect.UNMATCHED))
            elif dry_run:
                report.count(number, await store.preview_evidence(delivery_id, evidence))
            else:
                report.count(number, await _add(store, delivery_id, evidence, operator))
        if on_progress is not None:
            on_progress(report)
    return report


async def match(store: Store, evidences: Sequence[Evidence], *, reach: int | None) -> list[int | None]:
    """Return the delivery that each is about, by its token, or else by the other side's id."""
    tokens = {each.token for each in evidences if each.token is not None}
    by_token = await _seek(store, BY_TOKEN, tokens, reach)
    others = {
        each.notification_id
        for each in evidences
        if each.notification_id is not None and (each.token is None or each.token not in by_token)
    }
    by_id = await _seek(store, BY_NOTIFICATION, others, reach)
    return [by_token.get(each.token or "") or by_id.get(each.notification_id or "") for each in evidences]


def read_lines(
    text: str, *, source: str, match: str, is_csv: bool
) -> tuple[list[tuple[int, Evidence]], tuple[BadLine, ...]]:
    """Read a file of evidence, CSV with a header or one JSON object a line: the good lines and the bad ones."""
    if text.count("\n") > MOST_LINES:
        raise ConfigError(f"a file of evidence has at most {MOST_LINES} lines; split it")
    good: list[tuple[int, Evidence]] = []
    bad: list[BadLine] = []
    for number, values in _csv(text) if is_csv else _json(text):
        try:
            good.append((number, _evidence(values, source=source, match=match)))
        except ConfigError as error:
            bad.append(BadLine(number, str(error)))
    return good, tuple(bad)


async def _add(store: Store, delivery_id: int, evidence: Evidence, operator: str) -> Weighed:
    return await store.add_evidence(delivery_id, evidence, operator=operator)


async def _seek(store: Store, by: str, wanted: set[str], reach: int | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for place in PLACES:
        before, steps = None, 0
        while (left := wanted - found.keys()) and (reach is None or steps < reach):
            sought = await store.seek_deliveries(by, sorted(left), place, before=before)
            found |= sought.found
            before, steps = sought.before, steps + 1
            if before is None:
                break
    return found


def _csv(text: str) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = [name.strip().lower() for name in next(lines, [])]
        if len(set(names)) != len(names) or not set(names) & set(FIELDS):
            raise ConfigError(f"the first line of a CSV file names its columns, each once, of: {', '.join(FIELDS)}")
        while (row := next(lines, None)) is not None:
            if not row:
                continue
            fits = len(row) == len(names)
            yield lines.line_num, dict(zip(names, row, strict=True)) if fits else "it has not as many values as columns"
    except csv.Error:
        yield lines.line_num, "it is not CSV; what comes after it was not read"


def _json(text: str) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line) if len(line) <= LONGEST_LINE else None
        except (ValueError, RecursionError):
            values = None
        yield number, values if isinstance(values, dict) else "it is not one JSON object on one line"


def _evidence(values: Mapping[str, object] | str, *, source: str, match: str) -> Evidence:
    if isinstance(values, str):
        raise ConfigError(values)
    given = {name: _text(values, name) for name in FIELDS}
    if given[match] is None:
        raise ConfigError(f"it has no {match}")
    occurred_at = given["occurred_at"]
    details = given["details"]
    return Evidence(
        source=source,
        outcome=told(given["outcome"] or ""),
        token=_token(given["token"]) if match == BY_TOKEN else None,
        notification_id=given["notification_id"],
        reference=given["reference"],
        occurred_at=None if occurred_at is None else _moment(occurred_at),
        error_code=given["error_code"],
        details=None if details is None else clean(details, MESSAGE_LENGTH),
    )


def _text(values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigError(f"its {name} is no text")
    text = str(value).strip()
    if not text.isprintable():
        raise ConfigError(f"its {name} has control characters in it")
    return text or None


def _token(text: str | None) -> str:
    found = _TOKEN.fullmatch(text or "")
    if found is None:
        raise ConfigError(f"its token is not {TOKEN_LENGTH} hexadecimal digits, alone or in a Message-ID")
    return found[1].lower()


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError("its occurred_at is no time like 2026-01-31T12:00:00+00:00") from None
    if moment.tzinfo is None:
        raise ConfigError("its occurred_at needs a time zone, as in 2026-01-31T12:00:00+00:00")
    return moment
