"""The review application as a process, its database looked at past it, and a provider that is asked what it has."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from sendonce.cli import main
from tests.apps.service import Answer, Service, running
from tests.cli.workbench import Ran
from tests.crash.accounts import end_doubt_waits, url_of
from tests.processes import until
from tests.provider import Provider
from tests.store.databases import Database

TABLES = (
    "events", "deliveries", "contents", "requests", "request_keys", "recipients", "attempts", "operations",
)  # fmt: skip
REFUSED = (sqlite3.DatabaseError, psycopg.DatabaseError)
_numbers = count(1)

_SETTINGS = """
[worker]
lease = "60s"
poll = "20ms"

[policy]
first_delay = "100ms"
longest_delay = "1s"
jitter = 0
timeout = "10s"
doubt_wait = "100ms"

[http.provider]
url = "{url}/"
look_up = "{look_up}"
id_field = "id"

[mail]
sender = "Reviews <reviews@example.com>"

[smtp]
url = "smtp+plain://{smtp}"

[alerts]
every = "1s"
findings = 1
"""


class Reviews:
    """One running application. Each test takes a changelist, recipients and keys of its own."""

    def __init__(self, database: Database, provider: Provider, folder: Path) -> None:
        self.database = database
        self.provider = provider
        self.config = folder / "sendonce.toml"
        self.config.write_text(_SETTINGS.format(url=provider.url, look_up=provider.look_up, smtp=provider.smtp))
        self._folder = folder
        self._service: Service | None = None
        self._running = ExitStack()

    @property
    def service(self) -> Service:
        assert self._service is not None
        return self._service

    def start(self) -> None:
        """Start the application, with its worker."""
        environment = {"SENDONCE_CONFIG": str(self.config)}
        self._service = self._running.enter_context(
            running("review_notifications", self._folder, database=url_of(self.database), environment=environment)
        )

    def kill(self) -> None:
        """End it as a power cut would."""
        self._running.close()

    def changelist(self) -> "Changelist":
        return Changelist(self, f"CL-{next(_numbers)}")

    def run(self, *arguments: str) -> Ran:
        """A command of the operator's."""
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = main([*arguments, "--database", url_of(self.database)])
        return Ran(code, out.getvalue(), err.getvalue())

    def amounts(self) -> dict[str, int]:
        """How many rows each table has, but those that a worker at rest adds to."""
        tables = (*(f"sendonce_{name}" for name in TABLES), "reviews")
        return {table: self.database.one(f"select count(*) from {table}") for table in tables}


@contextmanager
def serving(database: Database, provider: Provider, folder: Path) -> Iterator[Reviews]:
    """The application on this database while the block runs."""
    reviews = Reviews(database, provider, folder)
    reviews.start()
    try:
        yield reviews
    finally:
        reviews.kill()


class Changelist:
    """One changelist of a test, and the people who are told of it."""

    def __init__(self, reviews: Reviews, name: str) -> None:
        self._reviews = reviews
        self.name = name
        self.path = f"/{name}"

    def address(self, who: str) -> str:
        return f"{self._reviews.provider.url}{self.path}/{who}"

    def review(self, version: int, *who: str, optional: tuple[str, ...] = (), **more: object) -> dict[str, object]:
        """What a caller sends, under a key made of the version unless `more` says otherwise."""
        recipients: list[dict[str, object]] = [{"address": self.address(each)} for each in who]
        recipients += [{"address": self.address(each), "required": False} for each in optional]
        return {
            "idempotency_key": f"{self.name}/v{version}", "changelist_id": self.name, "review_version": version,
            "title": "Retry on 503", "summary": "Looks good.\n– Ada", "recipients": recipients, **more,
        }  # fmt: skip

    def post(self, version: int, *who: str, optional: tuple[str, ...] = (), **more: object) -> Answer:
        return self._reviews.service.post("/review-jobs", self.review(version, *who, optional=optional, **more))

    def submit(self, version: int, *who: str, optional: tuple[str, ...] = (), **more: object) -> int:
        """Submit a review that is new; the job's id."""
        answer = self.post(version, *who, optional=optional, **more)
        assert answer.status == 201, answer
        return int(answer.body["id"])

    def submit_at_once(self, amount: int, version: int, *who: str) -> list[Answer]:
        """The same review, from so many callers together."""
        with ThreadPoolExecutor(amount) as callers:
            return list(callers.map(lambda _: self.post(version, *who), range(amount)))

    def job(self, job_id: int) -> dict[str, Any]:
        answer = self._reviews.service.get(f"/review-jobs/{job_id}")
        assert answer.status == 200, answer
        job: dict[str, Any] = answer.body
        return job

    def done(self, job_id: int, *, has_no_doubt_wait: bool = False) -> dict[str, Any]:
        """The job when it is not in progress any more."""
        job: dict[str, Any] = {}

        def is_done() -> bool:
            if has_no_doubt_wait:
                end_doubt_waits(self._reviews.database)
            answer = self._reviews.service.get(f"/review-jobs/{job_id}?wait={1 if has_no_doubt_wait else 10}")
            assert answer.status == 200, answer
            job.update(answer.body)
            return bool(job["status"] != "in_progress")

        until(is_done, "a job that is done")
        return job

    def recipients(self, job_id: int) -> dict[str, dict[str, Any]]:
        """The job's recipients, by the last part of their address."""
        return {each["recipient"].rpartition("/")[2]: each for each in self.job(job_id)["recipients"]}

    def log(self, job_id: int) -> list[dict[str, Any]]:
        log: list[dict[str, Any]] = self._reviews.service.get(f"/review-jobs/{job_id}/log").body
        return log

    def retry(self, job_id: int, **more: object) -> Answer:
        body = {"operator": "ada", "reason": "put right", **more}
        return self._reviews.service.post(f"/review-jobs/{job_id}/retry", body)

    def misbehave(self, who: str, **how: object) -> None:
        """Have the provider treat one recipient like this from now on."""
        self._reviews.provider.control(path=f"{self.path}/{who}", **how)

    def sent(self) -> dict[str, list[dict[str, Any]]]:
        """What the provider really has of this changelist, by recipient."""
        found: dict[str, list[dict[str, Any]]] = {}
        for token, message in self._reviews.provider.messages().items():
            if message["path"].startswith(f"{self.path}/") and message["count"]:
                found.setdefault(message["path"].rpartition("/")[2], []).append({"token": token, **message})
        return found

    def counts(self) -> dict[str, int]:
        """How often the provider has accepted something for each recipient."""
        return {who: sum(message["count"] for message in messages) for who, messages in self.sent().items()}

    def arrivals(self, who: str) -> list[dict[str, Any]]:
        """The requests that came for one recipient, whole, in their order."""
        return [each for each in self._reviews.provider.last() if each["path"] == f"{self.path}/{who}"]
