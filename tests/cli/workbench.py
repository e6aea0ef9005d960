"""The command line under test: run in this process, or as a real one; and deliveries brought to a state."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sendonce.cli import main
from sendonce.compose import open_store
from sendonce.domain.attempts import Report, Result
from sendonce.domain.decide import decide
from sendonce.domain.outcomes import Outcome
from sendonce.domain.policies import Policy
from sendonce.store.ports import Store

Answer = TypeVar("Answer")
# What is to be tried again is not due again while a test looks at it.
POLICY = Policy(jitter=0, max_attempts=3, first_delay=timedelta(minutes=5), doubt_wait=timedelta(minutes=5))
LONGEST_RUN = 30.0
# How a moment ago is worded, on machines that are slow and on others.
JUST_NOW = r"(just now|\d+s ago)"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def rows(self) -> Any:
        """The rows of a list."""
        return self.json["rows"]


@dataclass(frozen=True, slots=True)
class Cli:
    """The command line on one database, in this process."""

    database: str
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Ran:
        self.capsys.readouterr()
        code = main([*arguments, "--database", self.database])
        out, err = self.capsys.readouterr()
        return Ran(code, out, err)

    def publish(self, key: str, *options: str, type: str = "memo.saved") -> Any:
        """Record an event; what `publish --json` says of it."""
        where = () if "--to" in options else ("--subscriptions-only",)
        return self("publish", type, "--key", key, *where, *options, "--json").json

    def delivery(self, key: str, to: str = "null:a", *options: str) -> int:
        """Record an event for one destination; the delivery's id."""
        delivery_id = self.publish(key, "--to", to, *options)["deliveries"][0]["id"]
        assert isinstance(delivery_id, int)
        return delivery_id

    def ask(self, work: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """What `work` answers on this database's store."""

        async def opened() -> Answer:
            store = await open_store(self.database)
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(opened())

    def attempt(self, outcome: Outcome, *, can_look_up: bool | None = False, policy: Policy = POLICY) -> list[int]:
        """Claim everything that is due and end each attempt like this; the deliveries."""

        async def work(store: Store) -> list[int]:
            started = await store.start(1, 100, timedelta(seconds=30))
            assert started.lease is not None
            lease = started.lease
            results = []
            for claim in lease.claims:
                known = claim.delivery(in_doubt=claim.in_doubt, can_look_up=can_look_up)
                decision = decide(known, outcome, policy, spread=0)
                results.append(Result(Report(claim, lease.id, outcome), decision))
            await store.settle(results)
            await store.release([lease.id])
            return [claim.delivery_id for claim in lease.claims]

        return self.ask(work)

    def claim(self, *, hold: timedelta = timedelta(seconds=30), name: str = "host:7") -> int:
        """Register a worker that claims everything due and says no more; the lease's id."""

        async def work(store: Store) -> int:
            worker = await store.register(name, "1.0", 10)
            started = await store.start(worker, 100, hold)
            assert started.lease is not None
            return started.lease.id

        return self.ask(work)


def run(
    *arguments: str | bytes,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    program: tuple[str, ...] = ("-m", "sendonce"),
) -> Ran:
    """Run the real command in a process of its own."""
    done = subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=cwd,
        env=clean_environment(env),
        input=stdin,
        capture_output=True,
        timeout=LONGEST_RUN,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    ours = ("SENDONCE_", "COLUMNS", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, **(more or {})}
