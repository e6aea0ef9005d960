"""The account of a long run finds what it is there to find: what is lost, doubled, or nobody's."""

from pathlib import Path

import pytest

from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from tests.crash.checking import examine, is_overtaken, verify
from tests.crash.ledger import FOUND, NOT_FOUND, Ledger
from tests.crash.publishing import ACKNOWLEDGED, ASKED, ORDERS, PUBLISHERS, Entry, append, journal, number_of
from tests.crash.report import Report
from tests.store.databases import Database

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
TOKEN = "0123456789abcdef"


def given_run(database: Database, folder: Path, ledger: Ledger) -> Report:
    """One transaction of four messages, one for each kind of receiver: acknowledged, recorded and marked as sent."""
    numbers = [number_of(0, place) for place in range(4)]
    database.execute(ORDERS)
    database.execute("insert into chaos_orders (publisher, place, amount) values (0, 0, 4)")
    with database.connection() as connection:
        Outbox().publish_many(connection, [Draft("a.b", {}, key=str(number), to="null:a") for number in numbers])
    database.execute(
        "insert into sendonce_attempts (delivery_id, lease_id, created_at, attempt, status)"
        " select id, 1, 1, 1, 'Leased' from sendonce_deliveries"
    )
    database.execute("update sendonce_deliveries set status = 'InProgress', next_attempt_at = null")
    database.execute("update sendonce_attempts set status = 'Completed', outcome = 'Delivered', finished_at = 1")
    database.execute("update sendonce_deliveries set status = 'Completed', notified_at = 1, attempt_count = 1")
    with journal(folder, 0).open("wb") as file:
        append(file, Entry(0, 4, ASKED))
        append(file, Entry(0, 4, ACKNOWLEDGED))
    report = Report(title="test")
    examine(database, folder, ledger, report)
    return report


def ledger_of(times: list[int]) -> Ledger:
    ledger = Ledger()
    for place, often in enumerate(times):
        for _ in range(often):
            ledger.take(number_of(0, place), f"{place}{TOKEN}", 1, deduplicate=False, is_asked=False)
    return ledger


def test_report_without_differences_is_whole(database: Database, tmp_path: Path) -> None:
    report = given_run(database, tmp_path, ledger_of([1, 1, 1, 1]))

    report.check()
    assert (report.published, report.delivered) == (4, 4)


def test_delivery_marked_and_not_received_is_lost(database: Database, tmp_path: Path) -> None:
    assert given_run(database, tmp_path, ledger_of([1, 0, 1, 1])).lost == 1


def test_event_acknowledged_and_missing_is_lost(database: Database, tmp_path: Path) -> None:
    with journal(tmp_path, 1).open("wb") as file:
        append(file, Entry(7, 2, ASKED))
        append(file, Entry(7, 2, ACKNOWLEDGED))

    assert given_run(database, tmp_path, ledger_of([1, 1, 1, 1])).lost == 2


@pytest.mark.parametrize("place", range(4))
def test_message_accepted_twice_without_a_reason_is_doubled(database: Database, tmp_path: Path, place: int) -> None:
    times = [1, 1, 1, 1]
    times[place] = 2

    assert given_run(database, tmp_path, ledger_of(times)).doubled.total() == 1


def test_message_received_and_never_committed_is_strange(database: Database, tmp_path: Path) -> None:
    ledger = ledger_of([1, 1, 1, 1])
    ledger.take(PUBLISHERS * 100, TOKEN, 1, deduplicate=True, is_asked=False)

    assert given_run(database, tmp_path, ledger).strange == {"sent, though it was not committed": 1}


def test_receiver_that_recognises_a_token_does_not_accept_it_again(database: Database) -> None:
    ledger = Ledger()

    accepted = [ledger.take(3, token, 1, deduplicate=True, is_asked=False) for token in (TOKEN, TOKEN, "f" + TOKEN)]

    assert accepted == [True, False, True]
    assert (ledger.times(3), ledger.recognised[3], ledger.distinct) == (2, 1, 1)


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        ([NOT_FOUND, "2", "1"], True),
        ([NOT_FOUND, "1", "2"], True),
        ([NOT_FOUND, "2", FOUND, "1"], True),
        ([FOUND, "2"], False),
        ([NOT_FOUND, "2", "2"], False),
        ([NOT_FOUND, "1", FOUND, "3"], False),
        ([], False),
    ],
)
def test_attempt_that_was_overtaken_is_excused_alone(database: Database, story: list[str], expected: bool) -> None:
    assert is_overtaken(story, last_attempt=3) is expected


def test_finding_of_verify_is_strange(database: Database, tmp_path: Path) -> None:
    before, after = Report(title="before"), Report(title="after")

    verify(database, before)
    given_run(database, tmp_path, Ledger())
    database.execute("delete from sendonce_attempts")  # completed, and no attempt has done it
    verify(database, after)

    before.check()
    assert after.strange["verify: attempts"] == 4
    assert after.more["verified_rows"] == 8
    with pytest.raises(AssertionError):
        after.check()
