"""The last account of a long run: the publishers' journals, the database and the receiver's ledger must agree."""

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.accounts import url_of
from tests.crash.ledger import FOUND, NOT_FOUND, Ledger
from tests.crash.publishing import (
    ACKNOWLEDGED,
    ASKED,
    ENTRY_BYTES,
    PUBLISHERS,
    ROLLED_BACK,
    entries,
    journal,
    kind_of,
    number_of,
)  # fmt: skip
from tests.crash.report import Report
from tests.processes import ROOT
from tests.store.databases import Database, PostgresDatabase

BITS = {ASKED: 1, ACKNOWLEDGED: 2, ROLLED_BACK: 4}
_DELIVERIES = (
    "select e.key, d.id, d.status, d.attempt_count, l.reason, d.generation from sendonce_events e"
    " join sendonce_deliveries d on d.event_id = e.id left join sendonce_dead_letters l on l.delivery_id = d.id"
    " order by d.id"
)
_LOST_UPTO = "select coalesce(max(upto_id), 0) from sendonce_losses"
# Given up by a person, and so in order.
DECIDED = ("cancelled",)
_CHUNK = 500
_VERIFY_SECONDS = 1800


class Ended(NamedTuple):
    """A delivery, as it stands in the database or in an archive of what was removed."""

    number: int
    id: int
    status: str
    attempts: int
    reason: str | None
    generation: int


class Repeat(NamedTuple):
    """A message that the receiver has accepted more often than it was to be sent."""

    number: int
    more: int
    deliveries: list[int]
    attempts: int
    is_restored: bool


class Flags:
    """A few bits for each message."""

    def __init__(self) -> None:
        self.bits = bytearray()

    def add(self, number: int, bit: int) -> None:
        if number >= len(self.bits):
            self.bits.extend(bytes(number + 1 - len(self.bits) + 100_000))
        self.bits[number] |= bit

    def of(self, number: int) -> int:
        return self.bits[number] if number < len(self.bits) else 0


def examine(
    database: Database, folder: Path, ledger: Ledger, report: Report, lost: Sequence[Sequence[tuple[int, int]]] = ()
) -> None:
    """Fill the report in. All that was published must have come to its end.

    `lost`: of the journals, what was written between a backup and its restore. Nobody can know what became of that.
    """
    told, gone = journals(folder, lost)
    ordered = _orders(database)
    recorded = Flags()
    deliveries: dict[int, list[Ended]] = {}
    for ended in chain(_ended(database), _archived(folder)):
        if any(each.id == ended.id for each in deliveries.get(ended.number, ())):
            continue  # archived, and then restored
        if not ended.generation:
            if recorded.of(ended.number):
                report.strange["two deliveries of one message"] += 1
            recorded.add(ended.number, 1)
        if ended.generation or ledger.times(ended.number) > 1:
            deliveries.setdefault(ended.number, []).append(ended)
        report.replayed += ended.generation > 0
        if not gone.of(ended.number):
            _judge(report, kind_of(ended.number), ended, ledger.times(ended.number))
    report.more["recognised"] = sum(ledger.recognised)
    _compare(report, told, ordered, recorded, ledger, gone)
    upto = int(database.one(_LOST_UPTO))
    repeats = [each for each in map(partial(_repeated, ledger, upto), deliveries.values()) if each.more > 0]
    outcomes = _outcomes(database, folder, repeats)
    for repeat in repeats:
        if not gone.of(repeat.number):
            _explain(report, repeat, ledger, [each for id in repeat.deliveries for each in outcomes[id]])


def _ended(database: Database) -> Iterator[Ended]:
    for key, id, status, attempts, reason, generation in stream(database, _DELIVERIES):
        yield Ended(int(key), int(id), status, int(attempts), reason, int(generation))


def _archived(folder: Path) -> Iterator[Ended]:
    for line in _archives(folder):
        for row in line.get("deliveries") or ():
            reason = row["dead_letter"] and row["dead_letter"]["reason"]
            yield Ended(
                int(line["event"]["key"]), row["id"], row["status"], row["attempt_count"], reason, row["generation"]
            )


def _archives(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("archive-*.jsonl")):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # else it was cut short, and nothing of it is removed
                yield json.loads(line)


def _repeated(ledger: Ledger, upto: int, ended: Sequence[Ended]) -> Repeat:
    """Each generation is a wish of its own, but what was given up by a person before it was tried.

    One that is held without an attempt was sent, and a restore took that back.
    """
    wanted = sum(1 for each in ended if each.attempts or each.reason not in DECIDED)
    return Repeat(
        number=ended[0].number,
        more=ledger.times(ended[0].number) - max(1, wanted),
        deliveries=[each.id for each in ended],
        attempts=sum(each.attempts for each in ended),
        is_restored=ended[0].id <= upto,
    )


def _judge(report: Report, kind: str, ended: Ended, times: int) -> None:
    if not ended.generation:
        report.published += 1
        report.delivered += times > 0
    if ended.status == "DeadLettered" and ended.reason == "in_doubt" and kind == "held":
        report.held += 1
    elif ended.status == "DeadLettered" and ended.reason in DECIDED:
        report.decided += 1
    elif ended.status == "DeadLettered":
        report.lost += 1
        report.strange[f"given up: {ended.reason}"] += 1
    elif ended.status != "Completed":
        report.lost += 1
        report.strange[f"still {ended.status}"] += 1
    elif not times:
        report.lost += 1
        report.strange["marked as sent and never received"] += 1


def _compare(report: Report, told: Flags, ordered: Flags, recorded: Flags, ledger: Ledger, gone: Flags) -> None:
    """Who acknowledged, ordered, recorded and received what."""
    for number in range(max(map(len, (told.bits, ordered.bits, recorded.bits, ledger.accepted)))):
        if gone.of(number):
            report.gone += 1
            continue
        known, is_ordered, is_there = told.of(number), ordered.of(number), recorded.of(number)
        if known & BITS[ACKNOWLEDGED] and not is_there:
            report.lost += 1
            report.strange["acknowledged and not there"] += 1
        if is_ordered != is_there:
            report.strange["an event without its row" if is_there else "a row without its event"] += 1
        if is_there and not known & BITS[ASKED]:
            report.strange["there, though nobody asked for its commit"] += 1
        if ledger.times(number) and not is_there:
            report.strange["sent, though it was not committed"] += 1


def _explain(report: Report, repeat: Repeat, ledger: Ledger, outcomes: Sequence[tuple[str | None, str | None]]) -> None:
    """Why it was sent again; what has no good reason is doubled."""
    kind, more = kind_of(repeat.number), repeat.more
    unsure = [code or "Unknown" for outcome, code in outcomes if outcome == "Unknown"]
    if kind == "resent" and more <= len(unsure):
        report.repeated.update(unsure[:more])
    elif kind == "resent" and repeat.is_restored:
        report.repeated["a restore took back that it was sent"] += more
    elif kind == "asked" and is_overtaken(ledger.story(repeat.number), len(outcomes)):
        report.repeated["arrived after the receiver had said that it was not there"] += more
    else:
        report.doubled[f"{kind}, {', '.join(unsure) or 'for no reason'}"] += more


def is_overtaken(story: Sequence[str], last_attempt: int) -> bool:
    """Whether an attempt reached the receiver only after a later one had asked, truly, and was told no.

    A look-up cannot prevent that: the sender stood still between its last look at its lease and the wire.
    """
    arrived = [step for step in story if step not in (FOUND, NOT_FOUND)]
    sent_in_vain = FOUND in story and str(last_attempt) in story[story.index(FOUND) :]
    return bool(story) and story[0] == NOT_FOUND and len(set(arrived)) == len(arrived) and not sent_in_vain


def journals(folder: Path, lost: Sequence[Sequence[tuple[int, int]]] = ()) -> tuple[Flags, Flags]:
    """What the publishers know of each message, and which of them a restore may have taken back."""
    told, gone = Flags(), Flags()
    for which in range(PUBLISHERS):
        windows = [each[which] for each in lost]
        for nth, (place, amount, state) in enumerate(entries(journal(folder, which))):
            is_gone = any(begun <= nth * ENTRY_BYTES < ended for begun, ended in windows)
            for each in range(place, place + amount):
                told.add(number_of(which, each), BITS[state])
                if is_gone:
                    gone.add(number_of(which, each), 1)
    return told, gone


def _orders(database: Database) -> Flags:
    ordered = Flags()
    for which, place, amount in stream(database, "select publisher, place, amount from chaos_orders"):
        for each in range(int(place), int(place) + int(amount)):
            ordered.add(number_of(int(which), each), 1)
    return ordered


def _outcomes(
    database: Database, folder: Path, repeats: Sequence[Repeat]
) -> dict[int, list[tuple[str | None, str | None]]]:
    """What the attempts of these came to, by delivery."""
    found: dict[int, list[tuple[str | None, str | None]]] = defaultdict(list)
    wanted = [id for repeat in repeats for id in repeat.deliveries]
    for start in range(0, len(wanted), _CHUNK):
        ids = ", ".join(map(str, wanted[start : start + _CHUNK]))
        for id, outcome, code in database.execute(
            f"select delivery_id, outcome, error_code from sendonce_attempts where delivery_id in ({ids})"
            " order by delivery_id, attempt"
        ):
            found[id].append((outcome, code))
    rows = {row["id"]: row for line in _archives(folder) for row in line.get("deliveries") or ()}
    for id in rows.keys() & set(wanted) - found.keys():
        found[id] = [(each["outcome"], each["error_code"]) for each in rows[id]["attempts"]]
    return found


def stream(database: Database, sql: str) -> Iterator[Sequence[Any]]:
    """Rows, one after the other, of a result that may be large."""
    with database.connection(autocommit=not isinstance(database, PostgresDatabase)) as connection:
        if isinstance(database, PostgresDatabase):
            with connection.cursor() as cursor, cursor.copy(f"copy ({sql}) to stdout") as copy:
                yield from copy.rows()
        else:
            yield from connection.execute(sql)


def count_outcomes(database: Database) -> Counter[str]:
    """How many attempts came to what."""
    return Counter(
        dict(database.execute("select coalesce(outcome, status), count(*) from sendonce_attempts group by 1"))
    )


def verify(database: Database, report: Report) -> None:
    """What `sendonce verify` finds is strange. Workers may be at work meanwhile."""
    begun = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "sendonce", "verify", "--json"],
        cwd=ROOT, env={**os.environ, "SENDONCE_DATABASE": url_of(database)}, capture_output=True, text=True,
        timeout=_VERIFY_SECONDS,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stderr
    said = json.loads(ran.stdout)
    report.strange.update({f"verify: {each['check']}": each["amount"] for each in said["findings"]})
    report.more |= {
        "verified_rows": sum(said["looked"].values()),
        "verify_seconds": round(time.monotonic() - begun, 1),
        "verify_longest_step_seconds": said["longest_step_seconds"],
    }
