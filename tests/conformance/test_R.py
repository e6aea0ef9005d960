"""R1 to R19 through the review application: its API, its views and its worker, on both databases.

The provider deduplicates nothing, so whatever is sent twice is counted twice. Crashes at every point of R9 are in
test_crashes.py, more of doubt in test_doubt.py, of reconciliation in test_audit.py.
"""

from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.conformance.reviewing import REFUSED, Changelist, Reviews, serving
from tests.crash.accounts import end_leases
from tests.processes import until
from tests.provider import Provider
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.slow

CALLERS = 50


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def reviews(
    request: pytest.FixtureRequest, shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reviews]:
    """The application on an empty database, for all tests of this file."""
    folder = tmp_path_factory.mktemp("reviews")
    if request.param == "sqlite":
        with serving(SqliteDatabase(folder / "reviews.db"), shared_provider, folder) as made:
            yield made
        return
    server: Server = request.getfixturevalue("postgres_server")
    name = server.create_database()
    with serving(PostgresDatabase(server.dsn(name)), shared_provider, folder) as made:
        yield made
    server.drop_database(name)


@pytest.fixture
def changelist(reviews: Reviews) -> Changelist:
    return reviews.changelist()


def test_R1_job_needs_a_key_of_the_callers(reviews: Reviews, changelist: Changelist) -> None:
    before = reviews.amounts()
    review = changelist.review(1, "ada")
    for key in (None, "", "  ", "two\nlines", 7):
        answer = reviews.service.post("/review-jobs", {**review, "idempotency_key": key})
        assert answer.status == 422
        assert answer.body["error"].startswith("idempotency_key: ")
    del review["idempotency_key"]

    answer = reviews.service.post("/review-jobs", review)

    assert (answer.status, answer.body) == (422, {"error": "idempotency_key: field required"})
    assert reviews.amounts() == before


def test_R2_database_itself_refuses_a_second_job_for_a_key(reviews: Reviews, changelist: Changelist) -> None:
    again = """
        insert into sendonce_request_keys (request_id, created_at, tenant, type, key)
        select request_id + 1000000, created_at, tenant, type, key from sendonce_request_keys where request_id = ?"""
    first = changelist.submit(1, "ada")
    changelist.done(first)
    before = reviews.amounts()

    for statement in (again, "update sendonce_request_keys set key = 'another' where request_id = ?"):
        with pytest.raises(REFUSED):
            reviews.database.execute(statement, first)

    assert reviews.amounts() == before


def test_R3_R7_of_50_callers_with_one_key_all_get_the_one_job(reviews: Reviews, changelist: Changelist) -> None:
    before = reviews.amounts()

    answers = changelist.submit_at_once(CALLERS, 1, "ada", "bob")

    assert sorted(answer.status for answer in answers) == [200] * (CALLERS - 1) + [201]
    [job_id] = {answer.body["id"] for answer in answers}
    changelist.done(job_id)
    after = reviews.amounts()
    added = {table: after[table] - before[table] for table in after}
    assert added["sendonce_requests"] == added["sendonce_request_keys"] == added["reviews"] == 1
    assert added["sendonce_deliveries"] == added["sendonce_recipients"] == 2
    assert changelist.counts() == {"ada": 1, "bob": 1}


def test_R3_what_differs_under_a_known_key_changes_nothing(reviews: Reviews, changelist: Changelist) -> None:
    first = changelist.submit(1, "ada")
    job = changelist.done(first)
    before = reviews.amounts()

    answer = changelist.post(9, "bob", rerun=True, idempotency_key=job["idempotency_key"], title="Another")

    assert (answer.status, answer.body) == (200, job)
    assert reviews.amounts() == before


def test_R4_same_version_again_sends_nothing_and_gives_the_first_result(
    reviews: Reviews, changelist: Changelist
) -> None:
    job = changelist.done(changelist.submit(3, "ada", "bob"))
    before = reviews.amounts()

    same_key = changelist.post(3, "ada", "bob")
    asked_for = changelist.post(3, "ada", "bob", rerun=True)
    another_key = changelist.post(3, "ada", "bob", idempotency_key=f"{changelist.name}/again")

    assert [(each.status, each.body) for each in (same_key, asked_for, another_key)] == [(200, job)] * 3
    assert reviews.amounts() == {**before, "sendonce_request_keys": before["sendonce_request_keys"] + 1}
    assert changelist.counts() == {"ada": 1, "bob": 1}


@pytest.mark.parametrize(("version", "rerun"), [(4, False), (2, False), (2, True)])
def test_R5_rerun_is_explicit_and_higher_or_nothing_is_written(
    reviews: Reviews, changelist: Changelist, version: int, rerun: bool
) -> None:
    changelist.done(changelist.submit(3, "ada"))
    before = reviews.amounts()

    answer = changelist.post(version, "ada", rerun=rerun)

    assert answer.status == 409
    assert f"version {version}" in answer.body["error"]
    assert reviews.amounts() == before
    assert changelist.counts() == {"ada": 1}


def test_R6_rerun_has_intents_of_its_own_and_the_older_job_goes_on(reviews: Reviews, changelist: Changelist) -> None:
    changelist.misbehave("bob", fail="503")
    third = changelist.submit(3, "ada", "bob")
    until(lambda: changelist.recipients(third)["bob"]["attempts"], "an attempt that failed")

    fourth = changelist.submit(4, "ada", "bob", rerun=True)
    assert [changelist.job(each)["status"] for each in (third, fourth)] == ["in_progress"] * 2
    changelist.misbehave("bob", fail=None)

    assert [changelist.done(each)["status"] for each in (third, fourth)] == ["succeeded"] * 2
    listed = reviews.service.get(f"/review-jobs?changelist_id={changelist.name}").body
    assert [(each["id"], each["review_version"]) for each in listed] == [(fourth, 4), (third, 3)]
    assert changelist.counts() == {"ada": 2, "bob": 2}
    assert all(message["count"] == 1 for messages in changelist.sent().values() for message in messages)


def test_R7_rows_are_there_before_anything_is_sent_and_the_database_keeps_them_unique(
    reviews: Reviews, changelist: Changelist
) -> None:
    again = """
        insert into sendonce_deliveries (event_id, destination_hash, destination, created_at, updated_at, parked_on)
        select d.event_id, d.destination_hash, d.destination, d.created_at, d.updated_at, 'all'
          from sendonce_deliveries d join sendonce_requests q on q.event_id = d.event_id where q.id = ?"""
    version_again = """
        insert into sendonce_requests (event_id, version, created_at, content_digest, run, tenant, type, subject)
        select event_id + 1000000, version, created_at, content_digest, run + 1, tenant, type, subject
          from sendonce_requests where id = ?"""
    assert reviews.run("stop", "--all", "--reason", "to look").code == 0
    job_id = changelist.submit(3, "ada", "bob")
    rows = reviews.database.execute(
        "select recipient, review_version, status, notified_at, notification_id from review_notifications"
        " where changelist_id = ? order by recipient",
        changelist.name,
    )

    assert rows == [(changelist.address(who), 3, "pending", None, None) for who in ("ada", "bob")]
    assert changelist.sent() == {}
    for statement in (again, version_again):
        with pytest.raises(REFUSED):
            reviews.database.execute(statement, job_id)
    assert reviews.run("resume", "--all").code == 0
    assert changelist.done(job_id)["status"] == "succeeded"
    assert changelist.counts() == {"ada": 1, "bob": 1}


def test_R8_who_was_told_is_not_told_again_when_the_job_is_retried(reviews: Reviews, changelist: Changelist) -> None:
    changelist.misbehave("bob", fail="422")
    job_id = changelist.submit(1, "ada", "bob")
    assert changelist.done(job_id)["status"] == "retryable_failed"
    told = changelist.recipients(job_id)["ada"]
    changelist.misbehave("bob", fail=None)

    retried = changelist.retry(job_id)
    changelist.done(job_id)

    assert retried.body["retried"] == [changelist.address("bob")]
    assert changelist.counts() == {"ada": 1, "bob": 1}
    assert changelist.recipients(job_id)["ada"] == told
    assert changelist.retry(job_id).status == 409, "there is nobody left"
    with pytest.raises(REFUSED):
        reviews.database.execute("update sendonce_deliveries set notified_at = null where status = 'Completed'")


def test_R8_retry_takes_only_what_waits_for_a_person(reviews: Reviews, changelist: Changelist) -> None:
    bad = ("bob", "eve", "joe")
    for who in bad:
        changelist.misbehave(who, fail="422")
    job_id = changelist.submit(1, *bad)
    changelist.done(job_id)
    letters = {each["destination"]: str(each["id"]) for each in reviews.run("dead-letters", "list", "--json").rows}
    bob, eve = (letters[changelist.address(who)] for who in ("bob", "eve"))
    moved = changelist.address("moved")
    assert reviews.run("dead-letters", "discard", bob, "--reason", "he has left").code == 0
    assert reviews.run("dead-letters", "correct", eve, "--to", moved, "--reason", "she has moved").code == 0
    changelist.misbehave("joe", fail=None)

    retried = changelist.retry(job_id)
    until(lambda: changelist.counts() == {"moved": 1, "joe": 1}, "those who are told now")

    assert (retried.status, retried.body["retried"]) == (200, [changelist.address("joe")])
    assert {who: each["sent_to"] for who, each in changelist.recipients(job_id).items()} == {
        "bob": None,
        "eve": moved,
        "joe": None,
    }
    left = changelist.retry(job_id)
    assert (left.status, "nobody to tell again" in left.body["error"]) == (409, True)


def test_R2_what_retention_has_removed_is_not_sent_again(reviews: Reviews, changelist: Changelist) -> None:
    changelist.done(changelist.submit(1, "ada"))
    everything = [word for each in ("payloads", "history", "keys") for word in (f"--{each}", "0s")]
    pruned = reviews.run("prune", *everything, "--reason", "a new year", "--yes")
    assert pruned.code == 0, pruned.err

    again = changelist.post(1, "ada", title="Once more")

    assert again.status == 409
    assert "its job is not kept any more: nothing is sent again" in again.body["error"]
    assert len(changelist.arrivals("ada")) == 1


def test_R9_R18_it_is_sent_with_its_token_first_and_then_marked_in_one_write(
    reviews: Reviews, changelist: Changelist
) -> None:
    changelist.misbehave("ada", fail="503:first:1", late="4s")
    job_id = changelist.submit(1, "ada")

    until(lambda: changelist.sent(), "the provider to have it")
    before = changelist.recipients(job_id)["ada"]
    after = changelist.done(job_id)["recipients"][0]

    assert (before["status"], before["notified_at"], before["notification_id"]) == ("sending", None, None)
    [message] = changelist.sent()["ada"]
    assert (after["status"], after["notification_id"]) == ("sent", message["id"])
    assert datetime.fromisoformat(after["notified_at"]) > datetime.fromisoformat(message["sent_at"])
    first, second = changelist.arrivals("ada")
    assert (first["token"], first["body"]) == (second["token"], second["body"]) == (message["token"], first["body"])
    half = "select count(*) from review_notifications where (status = 'sent') <> (notified_at is not null)"
    assert reviews.database.one(half) == 0
    assert reviews.database.one(half.replace("notified_at", "notification_id")) == 0


def test_R10_R11_recipient_is_retried_as_its_own_row_says(changelist: Changelist) -> None:
    changelist.misbehave("failed", fail="503:first:2")
    changelist.misbehave("unsure", drop_after_accept="first:1")
    changelist.misbehave("lost", drop="first:1")

    job = changelist.done(changelist.submit(1, "sent", "failed", "unsure", "lost"))

    assert job["status"] == "succeeded"
    asked = {who: (messages[0]["asked"], messages[0]["found"]) for who, messages in changelist.sent().items()}
    assert asked == {"sent": (0, 0), "failed": (0, 0), "unsure": (1, 1), "lost": (1, 0)}
    assert {who: len(changelist.arrivals(who)) for who in asked} == {"sent": 1, "failed": 3, "unsure": 1, "lost": 2}
    assert changelist.sent()["lost"][0]["after_asking"] == 1


def test_R12_status_goes_by_the_required_recipients(changelist: Changelist) -> None:
    changelist.misbehave("late", late="4s")
    changelist.misbehave("bad", fail="422")

    unneeded = changelist.submit(1, "ada", "late", optional=("bad",))
    begun = changelist.job(unneeded)["status"]
    needed = changelist.submit(2, "ada", "bad", rerun=True)

    assert begun == "in_progress"
    assert changelist.done(unneeded)["status"] == "succeeded"
    assert changelist.recipients(unneeded)["bad"]["status"] == "failed"
    assert changelist.done(needed)["status"] == "retryable_failed"
    changelist.misbehave("bad", fail=None)
    assert changelist.retry(needed).body["job"]["status"] == "in_progress"
    assert changelist.done(needed)["status"] == "succeeded"


def test_R12_status_is_stored_nowhere_and_follows_a_recipient_at_once(reviews: Reviews, changelist: Changelist) -> None:
    job_id = changelist.submit(1, "ada")
    changelist.done(job_id)

    for statement in ("update review_jobs set status = 'retryable_failed'", "delete from review_jobs"):
        with pytest.raises(REFUSED):
            reviews.database.execute(f"{statement} where id = ?", job_id)
    delivery_id = reviews.database.one("select delivery_id from review_notifications where job_id = ?", job_id)
    changelist.misbehave("ada", fail="503")
    replayed = reviews.run("replay", str(delivery_id), "--even-if-sent", "--reason", "lost at the other end")

    assert replayed.code == 0, replayed.err
    assert changelist.job(job_id)["status"] == "in_progress"
    changelist.misbehave("ada", fail=None)
    assert changelist.done(job_id)["status"] == "succeeded"


def test_R13_log_of_a_job_has_every_attempt_under_the_key(reviews: Reviews, changelist: Changelist) -> None:
    changelist.misbehave("ada", fail="503:first:1", drop_after_accept="first:1")
    changelist.misbehave("bob", fail="422")
    job_id = changelist.submit(7, "ada", "bob")
    changelist.done(job_id)
    changelist.misbehave("bob", fail=None)
    changelist.retry(job_id)
    changelist.done(job_id)

    log = changelist.log(job_id)

    assert [
        (each["recipient"].rpartition("/")[2], each["generation"], each["attempt"], each["outcome"], each["error_code"])
        for each in log
    ] == [
        ("ada", 0, 1, "Failed", "http_503"),
        ("ada", 0, 2, "Unknown", "connection_lost"),
        ("ada", 0, 3, "Delivered", None),
        ("bob", 0, 1, "Refused", "http_422"),
        ("bob", 1, 1, "Delivered", None),
    ]
    assert {(each["changelist_id"], each["review_version"]) for each in log} == {(changelist.name, 7)}
    under_the_key = "select count(*) from review_log where changelist_id = ? and recipient = ? and review_version = 7"
    assert reviews.database.one(under_the_key, changelist.name, changelist.address("ada")) == 3


def test_R14_pause_is_twice_the_one_before(changelist: Changelist) -> None:
    changelist.misbehave("ada", fail="503:first:4")

    job_id = changelist.submit(1, "ada")
    changelist.done(job_id)

    log = changelist.log(job_id)
    begun, ended = ([datetime.fromisoformat(each[of]) for each in log] for of in ("started_at", "finished_at"))
    pauses = [(later - earlier).total_seconds() for earlier, later in zip(ended, begun[1:], strict=False)]
    assert [pause >= least - 0.002 for pause, least in zip(pauses, (0.1, 0.2, 0.4, 0.8), strict=True)] == [True] * 4


def test_R15_one_bad_recipient_waits_for_a_person_and_the_others_go_on(
    reviews: Reviews, changelist: Changelist
) -> None:
    nobody = f"nobody-{changelist.name}@example.com"
    reviews.provider.control(mail_fail="550", path=f"mailto:{nobody}")
    changelist.misbehave("bad", fail="422")
    review = changelist.review(1, "ada", "bad", "bob")
    mails = [{"address": nobody}, {"address": f"joe-{changelist.name}@example.com"}]

    answer = changelist.post(1, recipients=[*review["recipients"], *mails])  # type: ignore[misc]
    job = changelist.done(answer.body["id"])

    assert job["status"] == "retryable_failed"
    ended = {each["recipient"]: (each["status"], each["attempts"], each["last_error"]) for each in job["recipients"]}
    assert ended == {
        changelist.address("ada"): ("sent", 1, None),
        changelist.address("bad"): ("failed", 1, "http_422"),
        changelist.address("bob"): ("sent", 1, None),
        nobody: ("failed", 1, "smtp_550"),
        f"joe-{changelist.name}@example.com": ("sent", 1, None),
    }
    waiting = reviews.run("dead-letters", "list", "--destination", changelist.address("bad"), "--json").rows
    assert [each["reason"] for each in waiting] == ["refused"]


def test_R16_R19_killed_with_everything_in_flight_it_asks_and_sends_nothing_again(
    reviews: Reviews, changelist: Changelist
) -> None:
    for who in ("ada", "bob"):
        changelist.misbehave(who, late="60s")
    job_id = changelist.submit(1, "ada", "bob")
    until(lambda: changelist.counts() == {"ada": 1, "bob": 1}, "both to be there, unanswered")

    reviews.kill()
    lost = reviews.database.execute("select status, notified_at from review_notifications where job_id = ?", job_id)
    for who in ("ada", "bob"):
        changelist.misbehave(who, late=None, fail="422")
    reviews.provider.caught_up()
    end_leases(reviews.database)
    reviews.start()
    job = changelist.done(job_id, has_no_doubt_wait=True)

    assert lost == [("sending", None)] * 2
    assert job["status"] == "succeeded", "not given up before the provider was asked"
    assert changelist.counts() == {"ada": 1, "bob": 1}
    ids = {who: message["id"] for who, [message] in changelist.sent().items()}
    assert {who: each["notification_id"] for who, each in changelist.recipients(job_id).items()} == ids
    assert all(each["notified_at"] for each in job["recipients"]), "back-filled"
    assert [each["outcome"] for each in changelist.log(job_id)] == ["Unknown", "Delivered"] * 2


def test_R19_answer_that_comes_too_late_doubles_nothing(changelist: Changelist) -> None:
    changelist.misbehave("ada", late="60s:first:1")

    job_id = changelist.submit(1, "ada")
    job = changelist.done(job_id)

    assert job["status"] == "succeeded"
    assert [each["error_code"] for each in changelist.log(job_id)] == ["read_timeout", None]
    assert changelist.counts() == {"ada": 1}


def test_R17_R18_delivery_marked_sent_without_a_record_is_found_alerted_asked_about_and_sent_again(
    reviews: Reviews, changelist: Changelist
) -> None:
    job_id = changelist.submit(1, "ada")
    changelist.done(job_id)
    to = ("--destination", changelist.address("ada"), "--config", str(reviews.config))
    audit = ("reconcile", "--audit", "--since", "1h", "--json", *to)
    reviews.provider.control(forget=True)
    reviews.provider.control(forget=False)

    until(lambda: '"no_evidence": 1' in reviews.run(*audit).out, "it to be old enough to be asked about")
    before = changelist.counts()
    until(lambda: reviews.database.execute("select name from sendonce_alerts where is_raised"), "the alert")
    repaired = reviews.run(*audit, "--repair", "--reason", "the provider was restored")
    job = changelist.done(job_id)

    assert before == {"ada": 1}, "an audit alone sends nothing"
    assert repaired.code == 1, repaired.err
    assert job["status"] == "succeeded"
    assert changelist.counts() == {"ada": 2}
    assert sum(message["asked"] for message in changelist.sent()["ada"]) >= 2, "once more before it was sent again"
    log = [(each["generation"], each["outcome"]) for each in changelist.log(job_id)]
    assert log == [(0, "Delivered"), (1, "Delivered")]


def test_R18_answer_without_the_providers_id_does_not_count_until_it_was_asked(changelist: Changelist) -> None:
    changelist.misbehave("ada", ids=False)

    job_id = changelist.submit(1, "ada")
    changelist.done(job_id)

    log = [(each["outcome"], each["error_code"]) for each in changelist.log(job_id)]
    assert log == [("Unknown", "no_provider_id"), ("Delivered", None)]
    [message] = changelist.sent()["ada"]
    assert (message["count"], message["asked"], message["found"]) == (1, 1, 1)
    assert changelist.recipients(job_id)["ada"]["notification_id"] == message["id"]
