"""A system in the middle of an upgrade: old and new workers and publishers on one database."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sendonce.store.migrations import Migration
from tests.conformance.scene import Scene
from tests.crash.accounts import url_of
from tests.processes import Process, until
from tests.provider import Provider
from tests.store.databases import Database, PostgresDatabase
from tests.upgrade import filling, migrating, publishing
from tests.upgrade.releases import Program

SETTLED = "status in ('Completed', 'DeadLettered')"
# What is finished, and what belongs to it; only columns that every schema has.
FINISHED = {
    "deliveries": "select id, event_id, subscription_id, created_at, updated_at, notified_at, expires_at, proven_at,"
    " destination_hash, generation, corrections, attempt_count, deferred_count, has_content, in_doubt, status,"
    f" destination, if_unsure, final_error_code, notification_id from sendonce_deliveries where {SETTLED} order by id",
    "attempts": "select a.* from sendonce_attempts a join sendonce_deliveries d on d.id = a.delivery_id"
    f" where d.{SETTLED} order by a.delivery_id, a.attempt",
    "dead letters": "select id, delivery_id, created_at, reason, error_code from sendonce_dead_letters order by id",
    "events": "select id, version, created_at, content_digest, tenant, type, key, subject, payload, headers"
    " from sendonce_events order by id",
    "contents": "select * from sendonce_contents order by event_id, destination_hash, corrections",
    "requests": "select * from sendonce_requests order by id",
}
SCHEMA = "select value from sendonce_meta where name = 'schema_version'"
WAITS_FOR_A_TABLE = (
    "select count(*) from pg_locks where not granted and mode = 'AccessExclusiveLock'"
    " and database = (select oid from pg_database where datname = current_database())"
)
WRONGLY_ROUTED = (
    "select e.id, e.key, e.routed from sendonce_events e where e.routed is null or e.routed <>"
    " (select count(*) from sendonce_deliveries d"
    " where d.event_id = e.id and d.generation = 0 and d.corrections = 0)"
)


class System:
    """The scene of the conformance tests, played by two versions of the program."""

    def __init__(
        self, database: Database, provider: Provider, folder: Path, *, old: Program, new: Program, migration: Migration
    ) -> None:
        self.database, self.old, self.new, self.migration = database, old, new, migration
        self.scene = Scene(database, provider, folder)
        self.provider = provider
        self.paths = {name: f"{self.scene.path}/{name}" for name in filling.NAMES}
        # What is dropped after it was accepted can be asked for, as the rest below "asked".
        self.paths["dropped"] = f"{self.scene.asked}/dropped"

    def fill(self) -> None:
        """Bring the old program's database into every state there is, with the old program."""
        self.command(self.old, "migrate")
        self.active = self._subscription("order.*", "recognised/subscribed")
        self.paused = self._subscription("held.*", "recognised/held")
        self.command(self.old, "subscriptions", "pause", str(self.paused))
        addresses = [self.scene.to(self.paths[name]) for name in filling.NAMES]
        self.old.run("-m", filling.__name__, *addresses, database=url_of(self.database))
        self.provider.control(fail="422", path=self.paths["refused"])
        self.provider.control(fail="503", path=self.paths["failing"])
        self.provider.control(drop_after_accept="1", path=self.paths["dropped"])
        # No program wrote receipts then, but the table was there.
        self.database.execute(
            "insert into sendonce_receipts (consumer, message_id, received_at)"
            " select ?, ?, max(created_at) from sendonce_events",
            *filling.RECEIPT,
        )
        self._work_off()
        letters = [row["id"] for row in self.database.rows("dead_letters")]
        better = self.scene.to(f"{self.scene.recognised}/corrected")
        self.command(self.old, "dead-letters", "correct", str(letters[0]), "--to", better, "--reason", "a typo")
        self.command(self.old, "dead-letters", "requeue", str(letters[1]), "--reason", "again")
        self._work_off()
        self.provider.control(drop_after_accept=None, path=self.paths["dropped"])

    def _work_off(self) -> None:
        slow = {"first_delay": "1h", "longest_delay": "1h", "doubt_wait": "1h"}
        with self.scene.worker("--until-idle", environment=self.old.environment, **slow) as worker:
            assert worker.ended() == 0, worker.said

    def _subscription(self, types: str, below: str) -> int:
        to = self.scene.to(f"{self.scene.path}/{below}")
        return int(self.command(self.old, "subscriptions", "add", "--type", types, "--to", to, "--json")["id"])

    def command(self, program: Program, *arguments: str) -> Any:
        """A command of this version; what it says as JSON, if it was asked for that."""
        said = program.run("-m", "sendonce", *arguments, database=url_of(self.database))
        return json.loads(said) if "--json" in arguments else said

    def worker(self, program: Program) -> Process:
        # Whoever is killed had leases, and they end by themselves.
        return self.scene.worker("--lease", "10s", environment=program.environment, timeout="8s")

    def publisher(self, program: Program, name: str) -> Process:
        asked, recognised = self.scene.to(self.scene.asked), self.scene.to(self.scene.recognised)
        environment = {**program.environment, "SENDONCE_DATABASE": url_of(self.database)}
        return Process("-m", publishing.__name__, name, asked, recognised, environment=environment)

    def migrate(self, **environment: str) -> Process:
        """The new program's `sendonce migrate` as a process; environment as in tests/upgrade/migrating.py."""
        whole = {**self.new.environment, "SENDONCE_DATABASE": url_of(self.database), **environment}
        return Process("-m", migrating.__name__, environment=whole)

    def check_that_a_migration_steps_back(self) -> None:
        """While somebody's transaction does not end, a migration waits, and the work does not wait behind it."""
        if not isinstance(self.database, PostgresDatabase):
            return  # readers hold up nobody there, and whoever writes for long holds up everybody
        before = self.database.one(SCHEMA)
        with self._long_transaction(), self.migrate() as waiting:
            until(lambda: self.database.one(WAITS_FOR_A_TABLE), "a migration that waits for a lock")
            self.goes_on("while a migration waits for somebody's transaction", 100)
            assert waiting.is_running
            waiting.kill()
        assert self.database.one(SCHEMA) == before

    @contextmanager
    def _long_transaction(self) -> Iterator[None]:
        """Somebody reads in a transaction and does not end it: what one migration or another changes."""
        with self.database.connection(autocommit=True) as connection:
            connection.execute("begin")
            connection.execute("select count(*) from sendonce_events, sendonce_subscriptions").fetchall()
            yield
            connection.execute("rollback")

    def finished(self) -> dict[str, list[Any]]:
        """Every row of what is finished."""
        return {name: self.database.execute(question) for name, question in FINISHED.items()}

    def completed(self) -> int:
        return int(self.database.one("select count(*) from sendonce_deliveries where status = 'Completed'"))

    def goes_on(self, what: str, amount: int = 5) -> None:
        """Return when so many more deliveries are completed."""
        already = self.completed()
        until(lambda: self.completed() >= already + amount, f"deliveries that are completed {what}")

    def let_everything_end(self) -> None:
        """What waits for a later time is due now, what is held back may go, and what failed does so no more."""
        for name in ("refused", "failing"):
            self.provider.control(fail=None, path=self.paths[name])
        self.command(self.new, "subscriptions", "resume", str(self.paused))
        self.database.execute(
            "update sendonce_deliveries set next_attempt_at = created_at where next_attempt_at > updated_at"
        )
        if "not_before" in self.database.rows("deliveries")[0]:
            waiting = "status = 'PendingRetry' and not_before is not null"
            self.database.execute(f"update sendonce_deliveries set not_before = null where {waiting}")
        self.scene.until_closed()
