"""The review application: its README from top to bottom, what bad input gets, and its whole description tried out."""

import asyncio
import re
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apps.review_notifications.jobs import Jobs
from apps.review_notifications.models import Retry, Review
from apps.serving import prepare
from sendonce import Admin, NotAllowed
from sendonce.contrib.sqlalchemy import async_engine
from sendonce.domain.outcomes import Delivered
from sendonce.engine.retention import Retention, RetentionSettings
from sendonce.store.ports import Store
from tests.apps.service import Service, running
from tests.cli.workbench import run
from tests.crash.accounts import url_of
from tests.given import given_lease, settle_with
from tests.processes import ROOT
from tests.provider import Provider
from tests.store.conftest import database, postgres_template, sqlite_template
from tests.store.databases import Database

__all__ = ["database", "postgres_template", "sqlite_template"]

pytestmark = pytest.mark.slow

NOTHING = timedelta(0)
AT_ONCE = RetentionSettings(payloads=NOTHING, history=NOTHING, keys=NOTHING)
APP = ROOT / "apps/review_notifications"
README = (APP / "README.md").read_text("utf-8")
SETTINGS = (APP / "sendonce.toml").read_text("utf-8")
# A command of the README and what it says comes back: the status, and a part of the answer.
TRIED = re.compile(r"^\$ (curl .*?)\n# (\d{3}) ?(.*?)$", re.MULTILINE | re.DOTALL)
REVIEW = {
    "idempotency_key": "CL-1/v1", "changelist_id": "CL-1", "review_version": 1, "title": "Less locking",
    "recipients": [{"address": "ada@example.com"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(mail=True) as provider:
        yield provider


@contextmanager
def started(provider: Provider, folder: Path) -> Iterator[Service]:
    """The application with its own settings, but for the ports."""
    config = folder / "settings.toml"
    port = provider.url.rpartition(":")[2]
    config.write_text(SETTINGS.replace("8025", port).replace("127.0.0.1:2525", provider.smtp))
    with running("review_notifications", folder, environment={"SENDONCE_CONFIG": str(config)}) as service:
        yield service


@pytest.fixture(scope="module")
def service(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with started(provider, tmp_path_factory.mktemp("reviews")) as service:
        yield service


def test_readme_does_what_it_says(provider: Provider, tmp_path: Path) -> None:
    control = re.search(r"control http://(\S+)", provider.said)
    assert control is not None
    tried = TRIED.findall(README)
    assert len(tried) == README.count("$ curl")

    with started(provider, tmp_path) as service:
        places = {
            "localhost:8000": service.url.removeprefix("http://"),
            "localhost:8026": control[1],
            "127.0.0.1:8025": provider.url.removeprefix("http://"),
        }
        for command, status, part in tried:
            assert_answer(_with(places, command), status, part.replace("8025", places["127.0.0.1:8025"][10:]))

    [queries] = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    with closing(sqlite3.connect(tmp_path / "review_notifications.db")) as database:
        for query in filter(str.strip, queries.split(";\n")):
            assert database.execute(query).fetchall()
    for command in re.findall(r"^\$ \.venv/bin/sendonce ((?:status|explain|reconcile).*)$", README, re.MULTILINE):
        environment = {"SENDONCE_CONFIG": str(tmp_path / "settings.toml"), "SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8"}
        ran = run(*command.split(), "--database", "sqlite:///review_notifications.db", cwd=tmp_path, env=environment)
        assert ran.code == 0, ran.err


def assert_answer(command: str, status: str, part: str) -> None:
    done = subprocess.run(  # noqa: S602, the commands are ours
        f"{command} --silent --write-out '\\n%{{http_code}}'",
        shell=True, capture_output=True, text=True, timeout=200, check=True,
    )  # fmt: skip
    body, _, code = done.stdout.rpartition("\n")
    assert code == status, f"{command}: {done.stdout}"
    assert part in body


def _with(places: dict[str, str], command: str) -> str:
    for written, here in places.items():
        command = command.replace(written, here)
    return command


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"idempotency_key": ""}, "idempotency_key: it is empty"),
        ({"review_version": -1}, "review_version: input should be greater than or equal to 0"),
        ({"review_version": "3"}, "review_version: input should be a valid integer"),
        ({"rerun": "yes"}, "rerun: input should be a valid boolean"),
        ({"reruns": True}, "reruns: extra inputs are not permitted"),
        ({"title": "two\nlines"}, "title: it must be one line, without spaces around it"),
        ({"summary": "\x00"}, "summary: it has control characters"),
        ({"recipients": []}, "recipients: it is too short: at least 1"),
        ({"recipients": [{"address": "ada@example.com"}] * 101}, "recipients: it is too long: at most 100"),
        ({"recipients": [{"address": "ada@example.com"}] * 2}, "a recipient is named twice"),
        ({"recipients": [{"address": "a@example.com", "required": False}]}, "at least one required recipient"),
        ({"recipients": [{"address": "ftp://example.com"}]}, "recipients.0.address: it must be an e-mail address, or"),
        ({"recipients": [{"address": "nobody"}]}, "is not an e-mail address"),
        ({"recipients": [{"address": "https://user:word@example.com/"}]}, "must not carry a user name or password"),
    ],
)
def test_input_that_is_wrong_is_answered_with_4xx_and_a_sentence(
    service: Service, change: dict[str, object], sentence: str
) -> None:
    answer = service.post("/review-jobs", {**REVIEW, **change})

    assert answer.status == 422
    assert sentence in answer.body["error"]
    assert service.get("/review-jobs?changelist_id=CL-1").body == []


def test_request_for_a_missing_row_is_404_and_an_unreadable_one_4xx(service: Service) -> None:
    for path in ("/review-jobs/999999", "/review-jobs/999999?wait=1", "/review-jobs/999999/log", "/nowhere"):
        assert service.get(path).status == 404
    order = {"operator": "ada", "reason": "put right"}
    assert service.post("/review-jobs/999999/retry", order).body == {"error": "there is no review job 999999"}
    for path in (
        "/review-jobs/0",
        "/review-jobs/one",
        f"/review-jobs/{2**63}",
        "/review-jobs",
        "/review-jobs/1?wait=9999",
    ):
        assert service.get(path).status == 422
    assert service.post("/review-jobs", b"{").status == 422
    assert service.send("DELETE", "/review-jobs").status == 405
    assert service.post("/review-jobs/999999/retry", {"operator": "ada"}).status == 422, "a reason is required"


def test_delivery_in_doubt_is_sent_again_only_on_request(service: Service, provider: Provider) -> None:
    to = "unsure@example.com"
    provider.control(drop_after_accept="first:1", path=f"mailto:{to}")
    review = {**REVIEW, "changelist_id": "CL-2", "idempotency_key": "CL-2", "recipients": [{"address": to}]}
    job = service.get(f"/review-jobs/{service.post('/review-jobs', review).body['id']}?wait=10").body
    order = {"operator": "ada", "reason": "she has seen nothing"}

    refused = service.post(f"/review-jobs/{job['id']}/retry", order)
    told = service.post(f"/review-jobs/{job['id']}/retry", {**order, "even_if_sent": True})

    assert (job["status"], job["recipients"][0]["last_error"]) == ("retryable_failed", "connection_lost")
    service.process.says(r"^\d{4}-\d\d-\d\d [\d:,]+ WARNING delivery given up: .*code=connection_lost")
    assert refused.status == 409
    assert "1 of 1 recipients given up may have been told already" in refused.body["error"]
    assert (told.status, told.body["retried"], told.body["may_repeat"]) == (200, [to], [to])
    assert service.get(f"/review-jobs/{job['id']}?wait=10").body["status"] == "succeeded"
    assert provider.totals(f"mailto:{to}")["accepted"] == 2


def test_retry_that_another_was_faster_than_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'reviews.db'}"
    prepare(url, APP / "migrations")
    order = Retry(operator="ada", reason="put right")

    async def race() -> None:
        engine, requeue = async_engine(url), Admin.arequeue

        async def too_late(admin: Admin, letters: list[int], **more: Any) -> list[Any]:
            monkeypatch.setattr(Admin, "arequeue", requeue)
            await jobs.retry(job.id, order)
            return list(await admin.arequeue(letters, **more))

        async with Admin.aopen(url, operator="ada") as admin:
            jobs = Jobs(engine, admin)
            job, _ = await jobs.submit(Review.model_validate(REVIEW))
            [row] = await admin.adeliveries()
            await admin.acancel([row.id], reason="not yet")
            monkeypatch.setattr(Admin, "arequeue", too_late)
            with pytest.raises(NotAllowed, match=f"somebody else has just decided about review job {job.id}; look"):
                await jobs.retry(job.id, order)
        await engine.dispose()

    asyncio.run(race())


def test_version_that_must_be_asked_for_is_named_in_the_words_of_the_api(service: Service) -> None:
    review = {**REVIEW, "changelist_id": "CL-9", "idempotency_key": "CL-9/1"}
    assert service.post("/review-jobs", review).status == 201

    answer = service.post("/review-jobs", {**review, "idempotency_key": "CL-9/2", "review_version": 2})

    assert (answer.status, "a higher one only with rerun given as true" in answer.body["error"]) == (409, True)


@pytest.mark.requirement("R6")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "version 3 of this changelist was told of long ago"),
        ({"idempotency_key": "another"}, "version 3 of this changelist was told of long ago"),
        ({"rerun": True}, "version 3 of this changelist was told of long ago"),
        ({"idempotency_key": "lower", "review_version": 2}, "version 2 is not the newest of this changelist"),
        ({"idempotency_key": "lower", "review_version": 2, "rerun": True}, "version 2 is not the newest"),
        ({"idempotency_key": "higher", "review_version": 4}, "a higher one only with rerun given as true"),
    ],
    ids=["same job", "same version", "same version again", "lower version", "lower rerun", "higher version"],
)
async def test_R6_version_is_known_for_good_though_retention_has_removed_its_job(
    reviews: Database, store: Store, change: dict[str, Any], sentence: str
) -> None:
    first = {**REVIEW, "review_version": 3}
    engine = async_engine(url_of(reviews))
    async with Admin.aopen(url_of(reviews), operator="ada") as admin:
        jobs = Jobs(engine, admin)
        await jobs.submit(Review.model_validate(first))
        await settle_with(store, await given_lease(store), Delivered())
        await Retention(store, AT_ONCE, lambda _: None, worker_id=1).look()
        assert reviews.rows("events") == reviews.rows("requests") == reviews.rows("request_keys") == []

        with pytest.raises(NotAllowed, match=sentence):
            await jobs.submit(Review.model_validate({**first, **change}))

        assert reviews.rows("deliveries") == reviews.rows("requests") == []
        _, is_new = await jobs.submit(Review.model_validate({**first, "review_version": 4, "rerun": True}))
        assert is_new
    await engine.dispose()


async def test_R6_of_two_who_ask_again_after_retention_neither_is_sent(reviews: Database, store: Store) -> None:
    engine = async_engine(url_of(reviews))
    async with Admin.aopen(url_of(reviews), operator="ada") as admin:
        jobs = Jobs(engine, admin)

        both = await asyncio.gather(
            *(jobs.submit(Review.model_validate({**REVIEW, "idempotency_key": key})) for key in ("one", "two"))
        )
        assert sorted(is_new for _, is_new in both) == [False, True]
        await settle_with(store, await given_lease(store), Delivered())
        await Retention(store, AT_ONCE, lambda _: None, worker_id=1).look()
        again = await asyncio.gather(
            *(jobs.submit(Review.model_validate({**REVIEW, "idempotency_key": key})) for key in ("one", "two")),
            return_exceptions=True,
        )

    await engine.dispose()
    assert [type(each) for each in again] == [NotAllowed, NotAllowed]
    assert reviews.rows("deliveries") == []


@pytest.fixture
def reviews(database: Database) -> Database:
    """A database with the application's tables."""
    prepare(url_of(database), APP / "migrations")
    return database


@pytest_asyncio.fixture
async def store(reviews: Database) -> AsyncIterator[Store]:
    yield await reviews.open()
    await reviews.close()


def test_log_shows_neither_recipients_nor_contents(service: Service) -> None:
    review = {**REVIEW, "changelist_id": "CL-3", "idempotency_key": "CL-3", "summary": "between us"}
    job_id = service.post("/review-jobs", review).body["id"]
    assert service.get(f"/review-jobs/{job_id}?wait=10").body["status"] == "succeeded"

    for private in ("ada@example.com", "between us", "Traceback"):
        assert private not in service.process.said


@pytest.mark.more
@pytest.mark.timeout(180)
def test_api_never_fails_on_requests_from_its_own_schema(service: Service) -> None:
    fuzzed = service.fuzz("--exclude-checks", "unsupported_method", examples=8)

    assert fuzzed.returncode == 0, fuzzed.stdout
    assert "Traceback" not in service.process.said
