"""The memo application for the tests of M: on a database of its own, alone or as a service with its worker in it."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import create_engine, inspect

from apps.memo_email import memos as writing
from apps.memo_email.api import SETTINGS
from apps.memo_email.models import NewMemo
from apps.memo_email.tables import MIGRATIONS
from apps.serving import prepare
from sendonce import Admin
from sendonce.contrib.sqlalchemy import async_engine
from sendonce.store.records import Status
from tests.apps.service import Service, running
from tests.crash.accounts import url_of
from tests.processes import Process, sendonce, until
from tests.provider import Provider
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.store.postgres.roles import granted_roles

POLICY = {"first_delay": "20ms", "longest_delay": "50ms", "jitter": 0, "timeout": "40s"}
COLUMNS = (
    "id", "memo_id", "event_type", "payload", "recipient_email", "notification_type", "status", "retry_count",
    "last_attempt_at", "sent_at", "error_message", "idempotency_key", "meta_created_at", "meta_updated_at",
)  # fmt: skip


def a_memo(*recipients: str, prefix: str = "HR", **changes: Any) -> NewMemo:
    return NewMemo.model_validate(document(*recipients, prefix=prefix, **changes))


def address(name: str) -> str:
    """Nobody else's."""
    return f"{name}-{uuid4().hex[:8]}@example.com"


def document(*recipients: str, prefix: str = "HR", **changes: Any) -> dict[str, Any]:
    """What POST /memos takes."""
    whole = {
        "memo_number_prefix": prefix,
        "department_code": "FIN",
        "title": "Budget",
        "purpose": "So that all know.",
        "recipients": list(recipients),
        "email_body": "Grüße, the budget is here.",
    }
    return whole | changes


@dataclass(frozen=True, slots=True)
class Memos:
    """The application's tables, without anybody who sends."""

    database: Database

    def prepare(self) -> None:
        prepare(url_of(self.database), MIGRATIONS)

    async def create(self, *wanted: NewMemo) -> list[UUID]:
        """Write memos, all at once."""
        engine = async_engine(url_of(self.database))
        try:
            made = await asyncio.gather(*(writing.create(engine, each) for each in wanted))
            return [memo_id for memo_id, _ in made]
        finally:
            await engine.dispose()

    def rows(self, where: str = "1 = 1") -> list[dict[str, Any]]:
        """What the view shows, oldest first."""
        found = self.database.execute(
            f"select {', '.join(COLUMNS)} from email_outbox where {where} order by meta_created_at, recipient_email"
        )
        return [dict(zip(COLUMNS, row, strict=True)) for row in found]

    def row(self, where: str = "1 = 1") -> dict[str, Any]:
        """The only one."""
        [row] = self.rows(where)
        return row

    def shown(self) -> tuple[str, int, str | None]:
        """What has become of the only one: status, retries, error."""
        row = self.row()
        return row["status"], row["retry_count"], row["error_message"]

    async def glance(self) -> Status:
        """What `sendonce status` shows."""
        async with Admin.aopen(url_of(self.database), operator="ada") as admin:
            return await admin.astatus()

    def statuses(self) -> list[str]:
        return [row["status"] for row in self.rows()]

    def count(self, table: str) -> int:
        return int(self.database.one(f"select count(*) from {table}"))


@dataclass(frozen=True, slots=True)
class RunningMemos(Memos):
    """The service, and the provider that its mails and chats go to."""

    service: Service
    provider: Provider

    def write(self, *recipients: str, **changes: Any) -> dict[str, Any]:
        """POST a memo; the answer."""
        answer = self.service.post("/memos", document(*recipients, **changes))
        assert answer.status == 201, answer
        return dict(answer.body)

    def messages(self, memo: dict[str, Any]) -> list[dict[str, Any]]:
        """Those of a memo, as they are now."""
        return list(self.service.get(f"/memos/{memo['id']}").body["messages"])

    def mail(self, mail_id: str) -> dict[str, Any]:
        return dict(self.service.get(f"/mails/{mail_id}").body)

    def until(self, mail_id: str, status: str) -> dict[str, Any]:
        """The mail, when it has come to this."""
        until(lambda: self.mail(mail_id)["status"] == status, f"the mail to be {status}")
        return self.mail(mail_id)

    def act(self, mail_id: str, verb: str, **wanted: Any) -> dict[str, Any]:
        """Correct or replay it; the mail as it is then."""
        answer = self.service.post(f"/mails/{mail_id}/{verb}", {"operator": "ada", "reason": "she has moved", **wanted})
        assert answer.status == 200, answer
        return dict(answer.body)

    def arrived(self, recipient: str) -> list[dict[str, Any]]:
        """What was sent to this address, accepted or not; names of headers in lower case."""
        found = [each for each in self.provider.last() if each["path"] == f"mailto:{recipient}"]
        for each in found:
            each["headers"] = {name.lower(): value for name, value in each["headers"].items()}
        return found


@contextmanager
def serving_memos(database: Database, provider: Provider, folder: Path) -> Iterator[RunningMemos]:
    """Start it as it is started in earnest: with its own settings, and where to send in the environment."""
    with running("memo_email", folder, database=url_of(database), environment=environment(provider)) as service:
        yield RunningMemos(database, service, provider)


def environment(provider: Provider) -> dict[str, str]:
    return {
        "SENDONCE_SMTP_URL": f"smtp+plain://{provider.smtp}",
        "MEMO_CHAT_URL": f"{provider.url.replace('http:', 'json:')}/chat/{{address}}",
        "SENDONCE_POLICY": json.dumps(POLICY),
        "SENDONCE_WORKER_POLL": "50ms",
        "SENDONCE_WORKER_LEASE": "60s",
    }


@pytest.fixture
def memos(database: Database) -> Memos:
    made = Memos(database)
    made.prepare()
    return made


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def app(
    request: pytest.FixtureRequest, shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningMemos]:
    """One service for many tests: each has recipients of its own."""
    folder = tmp_path_factory.mktemp("memos")
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("sqlite_template"), folder / "memos.db")
        with serving_memos(SqliteDatabase(folder / "memos.db"), shared_provider, folder) as service:
            yield service
        return
    server: Server = request.getfixturevalue("postgres_server")
    name = server.create_database(template=request.getfixturevalue("postgres_template"))
    with serving_memos(PostgresDatabase(server.dsn(name)), shared_provider, folder) as service:
        yield service
    server.drop_database(name)


def check_schema(url: str) -> None:
    """The keys, indexes and columns that the document asks for."""
    engine = create_engine(driver_url(url))
    found = inspect(engine)
    assert [each["name"] for each in found.get_columns("email_outbox")] == list(COLUMNS)
    assert found.get_pk_constraint("memos")["constrained_columns"] == ["id"]
    assert [each["column_names"] for each in found.get_unique_constraints("memos")] == [
        ["memo_number_prefix", "memo_number_sequence"]
    ]
    assert [each["column_names"] for each in found.get_unique_constraints("memo_messages")] == [["event_id"]]
    assert ["memo_id"] in [each["column_names"] for each in found.get_indexes("memo_messages")]
    [foreign] = found.get_foreign_keys("memo_messages")
    assert (foreign["constrained_columns"], foreign["referred_table"]) == (["memo_id"], "memos")
    engine.dispose()


def driver_url(url: str) -> str:
    """For an engine that is not async."""
    return url.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def granted(postgres_server: Server, postgres_template: str) -> Iterator[tuple[Memos, str, str]]:
    """The application's tables, and the addresses of its own role and of the orchestrator's."""
    with granted_roles(postgres_server, postgres_template) as roles, roles.database() as database:
        made = Memos(database)
        made.prepare()
        database.execute(f"grant select, insert, update on memos, memo_numbers, memo_messages to {roles.name('app')}")
        database.execute(f"grant select on email_outbox, outbox_history to {roles.name('app')}")
        yield made, roles.under(database.url, "app").url, roles.under(database.url, "orchestrator").url


def worker(memos: Memos, provider: Provider, *options: str, settings: Path = SETTINGS) -> Process:
    """A worker of its own with the application's settings."""
    return sendonce(
        "worker", "--config", str(settings), *options, database=url_of(memos.database),
        environment=environment(provider),
    )  # fmt: skip
