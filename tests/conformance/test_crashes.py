"""SIGKILL at every point of R9, and a worker frozen past its lease: the provider has every message exactly once."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from sendonce import Admin, Email
from sendonce.inbox.providers import postmark
from tests.conformance import dying
from tests.conformance.scene import Scene
from tests.crash import killing
from tests.crash.accounts import EXPIRED, in_flight, url_of
from tests.crash.test_frozen_workers import freeze
from tests.processes import until
from tests.store.databases import Database, PostgresDatabase

pytestmark = pytest.mark.slow

EACH = 5
AMOUNT = 2 * EACH
LEASE_SECONDS = 6
AROUND_A_QUESTION = ("sender.before_look_up", "sender.after_look_up")


def die_at(point: str, nth: int = 1) -> Callable[[Scene], None]:
    """A worker that kills itself at a named point."""

    def die(scene: Scene) -> None:
        environment = {killing.POINT: point, killing.PASS: str(nth)}
        with scene.victim("--app", f"{killing.__name__}:channels", environment=environment) as victim:
            assert victim.ended() == -signal.SIGKILL

    return die


def die_in_flight(scene: Scene) -> None:
    """Killed when the provider has everything and has answered nothing."""
    for below in (scene.asked, scene.recognised):
        scene.provider.control(late="60s", path=below)
    with scene.victim() as victim:
        until(lambda: scene.provider.totals(scene.path).get("unanswered", 0) == AMOUNT, "all in flight")
        victim.kill()
    for below in (scene.asked, scene.recognised):
        scene.provider.control(late=None, path=below)


def die_during_settle(scene: Scene) -> None:
    """Killed in the middle of the write that settles: in its transaction on SQLite, waiting for a lock on PostgreSQL,
    whose server does not notice and goes on writing when the lock is gone."""
    if not isinstance(scene.database, PostgresDatabase):
        app = f"{dying.__name__}:channels"
        with scene.victim("--app", app, environment={dying.WANTED: "1"}) as victim:
            assert victim.ended() == -signal.SIGKILL
        return
    for below in (scene.asked, scene.recognised):
        scene.provider.control(late="5s", path=below)
    with scene.victim() as victim:
        until(lambda: scene.provider.totals(scene.path).get("unanswered", 0) == AMOUNT, "all in flight")
        with psycopg.connect(url_of(scene.database)) as locking:
            locking.execute("select id from sendonce_deliveries order by id for update")
            until(lambda: waits_for_a_lock(scene), "a settle that waits")
            victim.kill()
    for below in (scene.asked, scene.recognised):
        scene.provider.control(late=None, path=below)


@contextmanager
def nobody_can_write(scene: Scene) -> Iterator[None]:
    """Hold the lock that every settle needs."""
    with scene.database.connection() as connection:
        if isinstance(scene.database, PostgresDatabase):
            connection.execute("lock table sendonce_deliveries in exclusive mode")
        yield


def waits_for_a_lock(scene: Scene) -> bool:
    return bool(
        scene.database.one(
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
    )


POINTS: dict[str, Callable[[Scene], None]] = {
    "before the claim is used": die_at("worker.after_claim"),
    "before the send": die_at("sender.before_send", 3),
    "in flight": die_in_flight,
    "after the answer": die_at("sender.after_send", 3),
    "with the answer not settled": die_at("worker.before_settle"),
    "during the settle": die_during_settle,
    "after the settle": die_at("worker.after_settle"),
}


def check_that_marks_are_whole(scene: Scene) -> None:
    """R9: one single write sets the provider's id, the time and the state."""
    for row in scene.deliveries():
        marks = (row["status"] == "Completed", row["notified_at"] is not None)
        assert marks in ((True, True), (False, False)), row
        if row["status"] == "Completed" and scene.asked in row["destination"]:
            assert row["notification_id"]


def check_that_all_arrived_once(scene: Scene) -> None:
    """Every delivery is completed with the id that the provider gave it, and the provider has it once."""
    has = scene.has()
    assert {message["count"] for message in has.values()} == {1}
    rows = scene.deliveries()
    assert len(has) == len(rows)
    for row in rows:
        path = row["destination"].removeprefix(scene.provider.url)
        assert row["status"] == "Completed"
        assert row["in_doubt"] in (0, False)
        if path.startswith(scene.asked):
            assert row["notification_id"] == has[path]["id"]
    check_that_marks_are_whole(scene)


@pytest.mark.sqlite_later
@pytest.mark.parametrize("point", POINTS)
def test_R19_R9_R16_worker_killed_here_doubles_nothing_and_loses_nothing(scene: Scene, point: str) -> None:
    for below in (scene.asked, scene.recognised):
        scene.publish(below, EACH)

    POINTS[point](scene)
    killed_at = time.monotonic()
    check_that_marks_are_whole(scene)
    lost, there = len(in_flight(scene.database)), len(scene.has())
    scene.end_leases()
    heir = scene.work(is_heir=True)

    check_that_all_arrived_once(scene)
    found = sum(message["found"] for message in scene.has().values())
    known = sum(message["recognised"] for message in scene.has().values())
    print(
        f"\n{url_of(scene.database).partition(':')[0]}, {point}: published {AMOUNT}, at the provider {there}, in doubt"
        f" {lost}; found {found}, recognised {known}, sent twice 0; recovered in {time.monotonic() - killed_at:.1f} s"
    )
    assert heir.count("Traceback") == 0
    attempts = [row for row in scene.database.rows("attempts") if row["outcome"] != "Delivered"]
    assert all((row["outcome"], row["error_code"]) == EXPIRED or row["outcome"] == "Deferred" for row in attempts)
    assert there > 0 or point.startswith("before")
    if point == "in flight":
        assert (there, lost, found) == (AMOUNT, AMOUNT, EACH)


@pytest.mark.sqlite_later
@pytest.mark.parametrize("point", AROUND_A_QUESTION)
def test_R19_R11_worker_killed_around_its_question_asks_again_and_sends_nothing(scene: Scene, point: str) -> None:
    scene.publish(scene.asked, EACH)
    scene.provider.control(drop_after_accept="first:3", drop="first:2", path=scene.asked)

    with scene.victim(
        "--app", f"{killing.__name__}:channels", environment={killing.POINT: point, killing.PASS: "2"}
    ) as victim:
        assert victim.ended() == -signal.SIGKILL
    check_that_marks_are_whole(scene)
    scene.end_leases()
    scene.work(is_heir=True)

    check_that_all_arrived_once(scene)
    assert sum(message["after_asking"] for message in scene.has().values()) == 2, "what was dropped before it was taken"


def test_R19_R16_worker_frozen_past_its_lease_doubles_nothing(scene: Scene) -> None:
    scene.publish(scene.asked, EACH)
    scene.provider.control(late="8s", path=scene.asked)

    with scene.victim() as frozen:
        until(lambda: scene.provider.totals(scene.asked).get("unanswered", 0) == EACH, "all in flight")
        freeze(frozen, scene.database)
        held = in_flight(scene.database)
        assert len(held) == EACH
        scene.end_leases()
        scene.work(is_heir=True)
        frozen.send(signal.SIGCONT)
        until(lambda: len(scene.database.rows("findings")) >= EACH, "what it says afterwards")
        frozen.send(signal.SIGTERM)
        assert frozen.ended() == 0

    check_that_all_arrived_once(scene)
    late = scene.database.rows("findings")
    assert {(row["kind"], row["delivery_id"]) for row in late} == {("late_result", id) for id in held}
    for id in held:
        assert scene.outcomes(id) == [EXPIRED, ("Delivered", None)]


def test_R16_send_not_written_before_the_lease_was_over_is_not_repeated(scene: Scene) -> None:
    scene.publish(scene.asked, EACH)
    scene.provider.control(late="2s", path=scene.asked)

    with scene.worker("--lease", f"{LEASE_SECONDS}s", timeout="4500ms") as worker:
        until(lambda: scene.provider.totals(scene.asked).get("unanswered", 0) == EACH, "all in flight")
        with nobody_can_write(scene):
            over_at = time.monotonic() + LEASE_SECONDS + 0.5
            until(lambda: time.monotonic() > over_at, "the end of the lease")
            assert scene.provider.totals(scene.asked)["heard"] == EACH
        scene.until_closed(has_no_doubt_wait=True)
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0

    check_that_all_arrived_once(scene)


def test_R16_after_a_restore_what_had_been_sent_is_asked_about_and_not_sent_again(
    scene: Scene, backup_of: Callable[[Database], Database]
) -> None:
    scene.publish(scene.asked, EACH)
    backup = backup_of(scene.database)
    with scene.worker("--until-idle"):
        until(lambda: len(scene.has()) == EACH, "all sent")
    scene.database = backup
    scene.publish(scene.asked, EACH + 1)

    opened = scene.run("doubt", "--open", "--wait", "0s", "--reason", "restored from a backup", "--json").json
    scene.work()

    assert opened == {"changed": EACH + 1}
    check_that_all_arrived_once(scene)
    assert sum(message["found"] for message in scene.has().values()) == EACH


def test_R19_mail_in_flight_when_its_worker_is_killed_is_held_for_a_person_and_not_sent_again(scene: Scene) -> None:
    to = f"ada{scene.path[1:]}@example.com"
    scene.database.publish("review.done", {}, key="review", to=Email(to, subject="Done", text="It is."))
    scene.provider.control(late="60s", path=f"mailto:{to}")

    with scene.victim() as victim:
        until(lambda: scene.provider.totals(f"mailto:{to}").get("unanswered", 0) == 1, "a mail in flight")
        victim.kill()
    scene.end_leases()
    scene.work(is_heir=True)

    assert scene.provider.totals(f"mailto:{to}")["accepted"] == 1
    [letter] = scene.database.rows("dead_letters")
    assert letter["reason"] == "in_doubt"
    attested = scene.run("dead-letters", "attest", str(letter["id"]), "--reason", "seen in the mailbox", "--json").json
    assert len(attested) == 1
    assert [row["status"] for row in scene.deliveries()] == ["DeadLettered", "Completed"]


def test_R19_mails_held_after_a_crash_are_all_settled_by_what_comes_in_later(scene: Scene, tmp_path: Path) -> None:
    below, amount = f"mailto:held{scene.path[1:]}", 4
    for number in range(amount):
        to = f"held{scene.path[1:]}-{number}@example.com"
        scene.database.publish("review.done", {}, key=f"review-{number}", to=Email(to, subject="Done", text="It is."))
    scene.provider.control(late="60s", path=below)
    with scene.victim() as victim:
        until(lambda: scene.provider.totals(below).get("unanswered", 0) == amount, "all mails in flight")
        victim.kill()
    scene.end_leases()
    scene.work(is_heir=True)
    assert [row["reason"] for row in scene.database.rows("dead_letters")] == ["in_doubt"] * amount

    tokens = [token for token, mail in scene.provider.messages().items() if mail["path"].startswith(below)]
    with Admin.open(url_of(scene.database), operator="callbacks") as admin:
        for token in tokens[:2]:
            said = {"RecordType": "Delivery", "MessageID": f"id-{token}", "Metadata": {"sendonce": token}}
            [evidence] = postmark({"X-Ours": "s"}, json.dumps(said).encode(), header=("X-Ours", "s"))
            assert admin.evidence(evidence).effect == "settled"
    log = tmp_path / "mail.csv"
    log.write_text("token,outcome\n" + "".join(f"<{token}@example.com>,delivered\n" for token in tokens[2:]))
    imported = scene.run("evidence", "import", str(log), "--source", "mail.log", "--json").json
    again = scene.run("evidence", "import", str(log), "--source", "mail.log", "--json").json

    assert (imported["effects"], imported["repeated"], again["repeated"]) == ({"settled": 2}, 0, 2)
    assert {row["closed_as"] for row in scene.database.rows("dead_letters")} == {"attested"}
    assert sorted(row["status"] for row in scene.deliveries()) == ["Completed"] * amount + ["DeadLettered"] * amount
    assert scene.provider.totals(below)["accepted"] == amount
    assert json.loads(scene.run("dead-letters", "list", "--json").out)["rows"] == []
