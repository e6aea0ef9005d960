"""The last account of a long run: the publishers' journals, the database and the receiver's ledger must agree."""

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.accounts import url_of
from tests.crash.ledger import FOUND, NOT_FOUND, Ledger
from tests.crash.publishing import ACKNOWLEDGED, ASKED, PUBLISHERS, ROLLED_BACK, entries, journal, kind_of, number_of
from tests.crash.report import Report
from tests.processes import ROOT
from tests.stores.databases import Database, PostgresDatabase

BITS = {ASKED: 1, ACKNOWLEDGED: 2, ROLLED_BACK: 4}
_DELIVERIES = (
    "select e.key, d.id, d.status, d.attempt_count, l.reason from sendonce_events e"
    " join sendonce_deliveries d on d.event_id = e.id left join sendonce_dead_letters l on l.delivery_id = d.id"
)
_CHUNK = 500
_VERIFY_SECONDS = 1800


class Repeat(NamedTuple):
    """A message that the receiver has accepted more than once."""

    number: int
    delivery_id: int
    attempts: int


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


def examine(database: Database, folder: Path, ledger: Ledger, report: Report) -> None:
    """Fill the report in. All that was published must have come to its end."""
    told = journals(folder)
    ordered = _orders(database)
    recorded = Flags()
    repeats: list[Repeat] = []
    for key, id, status, attempts, reason in stream(database, _DELIVERIES):
        number = int(key)
        if recorded.of(number):
            report.strange["two deliveries of one message"] += 1
        recorded.add(number, 1)
        times = ledger.times(number)
        _judge(report, kind_of(number), status, reason, times)
        if times > 1:
            repeats.append(Repeat(number, int(id), int(attempts)))
    report.more["recognised"] = sum(ledger.recognised)
    _compare(report, told, ordered, recorded, ledger)
    outcomes = _outcomes(database, repeats)
    for repeat in repeats:
        _explain(report, repeat, ledger, outcomes[repeat.delivery_id])


def _judge(report: Report, kind: str, status: str, reason: str | None, times: int) -> None:
    report.published += 1
    report.delivered += times > 0
    if status == "DeadLettered" and reason == "in_doubt" and kind == "held":
        report.held += 1
    elif status == "DeadLettered":
        report.lost += 1
        report.strange[f"given up: {reason}"] += 1
    elif status != "Completed":
        report.lost += 1
        report.strange[f"still {status}"] += 1
    elif not times:
        report.lost += 1
        report.strange["marked as sent and never received"] += 1


def _compare(report: Report, told: Flags, ordered: Flags, recorded: Flags, ledger: Ledger) -> None:
    """Who acknowledged, ordered, recorded and received what."""
    for number in range(max(map(len, (told.bits, ordered.bits, recorded.bits, ledger.accepted)))):
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


def _explain(report: Report, repeat: Repeat, ledger: Ledger, outcomes: Sequence[tuple[str, str | None]]) -> None:
    """Why it was sent again; what has no good reason is doubled."""
    kind, more = kind_of(repeat.number), ledger.times(repeat.number) - 1
    unsure = [code or outcome for outcome, code in outcomes if outcome == "Unknown"]
    if kind == "resent" and more <= len(unsure):
        report.repeated.update(unsure[:more])
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


def journals(folder: Path) -> Flags:
    """What the publishers know of each message."""
    told = Flags()
    for which in range(PUBLISHERS):
        for place, amount, state in entries(journal(folder, which)):
            for each in range(place, place + amount):
                told.add(number_of(which, each), BITS[state])
    return told


def _orders(database: Database) -> Flags:
    ordered = Flags()
    for which, place, amount in stream(database, "select publisher, place, amount from chaos_orders"):
        for each in range(int(place), int(place) + int(amount)):
            ordered.add(number_of(int(which), each), 1)
    return ordered


def _outcomes(database: Database, repeats: Sequence[Repeat]) -> dict[int, list[tuple[str, str | None]]]:
    """What the attempts of these came to, by delivery."""
    found: dict[int, list[tuple[str, str | None]]] = defaultdict(list)
    for start in range(0, len(repeats), _CHUNK):
        ids = ", ".join(str(repeat.delivery_id) for repeat in repeats[start : start + _CHUNK])
        for id, outcome, code in database.execute(
            f"select delivery_id, outcome, error_code from sendonce_attempts where delivery_id in ({ids})"
            " order by delivery_id, attempt"
        ):
            found[id].append((outcome, code))
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
