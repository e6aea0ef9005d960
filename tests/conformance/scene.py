"""One database, real worker processes, and a provider process that is asked what it really has."""

import json
import signal
from itertools import count
from pathlib import Path
from typing import Any

from tests.cli.workbench import Ran, run
from tests.crash.accounts import end_doubt_waits, end_leases, url_of
from tests.processes import Process, sendonce, until
from tests.provider import Provider
from tests.store.databases import Database

POLICY = {"first_delay": "50ms", "longest_delay": "200ms", "jitter": 0, "timeout": "20s", "doubt_wait": "100ms"}
OPEN = "select count(*) from sendonce_deliveries where status not in ('Completed', 'DeadLettered')"
LOOK_UPS = "/deliveries/"
_numbers = count(1)


class Scene:
    """Destinations below `asked` can be looked up, and doubling them would show: nothing there is deduplicated.

    Those below `recognised` cannot be looked up, but the provider knows their tokens again. Those below `plain` have
    neither.
    """

    def __init__(self, database: Database, provider: Provider, folder: Path) -> None:
        self.database = database
        self.provider = provider
        self.path = f"/{next(_numbers):04}"
        self.asked, self.recognised, self.plain = (f"{self.path}/{name}" for name in ("asked", "recognised", "plain"))
        self._folder = folder
        provider.clear()
        provider.control(deduplicate=True, path=self.recognised)
        self.settings()

    def leave(self) -> None:
        """Leave the provider as it was found."""
        self.provider.control(closed=False, forget=False)
        self.provider.control(look_up_fail=None, look_up_slow=None, path=LOOK_UPS)

    def settings(self, more: str = "", profile: str = "") -> None:
        """Write the workers' settings: the endpoint that can be asked, with more of its keys, and more tables."""
        provider = self.provider
        endpoint = f'[http.asked]\nurl = "{provider.url}{self.asked}/"\nlook_up = "{provider.look_up}"\n{profile}\n'
        mail = f'[mail]\nsender = "shop@example.com"\n[smtp]\nurl = "smtp+plain://{provider.smtp}"\n'
        (self._folder / "sendonce.toml").write_text(f"{endpoint}{mail}{more}\n")

    def to(self, path: str) -> str:
        return f"{self.provider.url}{path}"

    def publish(self, below: str, amount: int = 1) -> None:
        """Record events, each with a destination of its own below this path."""
        for number in range(amount):
            key = f"{below}-{number}"
            self.database.publish("review.done", {"review": number}, key=key, to=self.to(f"{below}/{number}"))

    def worker(self, *options: str, environment: dict[str, str] | None = None, **policy: object) -> Process:
        """A real worker process with short delays. However busy the machine is, it loses no lease, and waits for
        every answer that comes."""
        return sendonce(
            "worker", "--config", str(self._folder / "sendonce.toml"), "--lease", "60s", "--poll", "50ms",
            "--policy", json.dumps(POLICY | policy), *options,
            database=url_of(self.database), environment=environment,
        )  # fmt: skip

    def victim(self, *options: str, environment: dict[str, str] | None = None) -> Process:
        """A worker that will die: however slow the machine is, before its sends time out and its lease is over."""
        return self.worker(*options, "--lease", "120s", environment=environment, timeout="60s")

    def end_leases(self) -> None:
        """Let the time be over that every lease has: whoever had them is dead or frozen and renews none.

        What they sent has arrived by then.
        """
        self.provider.caught_up()
        end_leases(self.database)

    def work(
        self, *options: str, environment: dict[str, str] | None = None, is_heir: bool = False, **policy: object
    ) -> Process:
        """Run a worker until everything is completed or given up. An heir need not wait before it asks about what is
        in doubt: whoever sent that is dead or frozen."""
        with self.worker(*options, environment=environment, **policy) as worker:
            self.until_closed(has_no_doubt_wait=is_heir)
            worker.send(signal.SIGTERM)
            # Where nothing was left to do it may be told to stop before it listens to signals.
            assert worker.ended() in (0, -signal.SIGTERM)
        return worker

    def until_closed(self, *, has_no_doubt_wait: bool = False) -> None:
        def are_closed() -> bool:
            if has_no_doubt_wait:
                end_doubt_waits(self.database)
            return not self.database.one(OPEN)

        until(are_closed, "the end of all deliveries")

    def run(self, *arguments: str) -> Ran:
        """A command of the operator's."""
        ran = run(*arguments, cwd=self._folder, env={"SENDONCE_DATABASE": url_of(self.database), **_NETWORKS})
        assert "Traceback" not in ran.err, ran.err
        return ran

    def reconcile(self, *options: str) -> Any:
        """What `sendonce reconcile --json` says."""
        return json.loads(self.run("reconcile", "--policy", json.dumps(POLICY), "--json", *options).out)

    def deliveries(self) -> list[dict[str, Any]]:
        return self.database.rows("deliveries")

    def delivery(self) -> dict[str, Any]:
        """The only one."""
        [row] = self.deliveries()
        return row

    def outcomes(self, delivery_id: int | None = None) -> list[tuple[str, str | None]]:
        """What each attempt came to, with its code; of one delivery, or of the only one."""
        wanted = delivery_id or self.delivery()["id"]
        attempts = [row for row in self.database.rows("attempts") if row["delivery_id"] == wanted]
        return [(row["outcome"], row["error_code"]) for row in attempts]

    def has(self) -> dict[str, dict[str, Any]]:
        """What the provider really has of this test, by path."""
        return {
            message["path"]: message
            for message in self.provider.messages().values()
            if message["path"].startswith(self.path) and message["count"]
        }

    def counts(self) -> dict[str, int]:
        """How often the provider has accepted what was sent to each path."""
        return {path: message["count"] for path, message in self.has().items()}


_NETWORKS = {"SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8"}
