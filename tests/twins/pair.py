"""A SQLite database in memory and a PostgreSQL database that follows it: whatever is asked of one is asked of both."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from unittest.mock import patch

from sendonce.store import leases
from sendonce.store.sqlite.connection import MEMORY, QUERIES, OwnConnection, microseconds, moment, open_file
from sendonce.store.sqlite.store import SqliteStore
from tests.simulation.database import EPOCH_SECONDS, template
from tests.twins.calls import TRANSACT, Call, Recorded
from tests.twins.follower import Follower, tables_of


class Pair:
    """Time stands still but for `advance`."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._runner = asyncio.Runner()
        self._now = EPOCH_SECONDS * 1_000_000
        self._connection = open_file(MEMORY)
        self._connection.deserialize(template())
        self._connection.execute(QUERIES["make_results"])
        lane = OwnConnection(MEMORY, self.clock, inline=True)
        lane._connection = self._connection
        self._leases = count(1)
        self._told: list[Call] = []
        self._store = Recorded(SqliteStore(lane, lane), self._connection, self.clock, self._told.append)
        follower.empty()

    def clock(self) -> int:
        return self._now

    @property
    def now(self) -> datetime:
        return moment(self._now).astimezone(UTC)

    def advance(self, by: timedelta) -> None:
        self._now += microseconds(by)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Ask both; what both answer, or None when both refuse in the same words."""
        answer = None
        with (
            patch.object(time, "time_ns", lambda: self._now * 1000),
            patch.object(leases, "randbits", lambda _: next(self._leases)),
        ):
            try:
                answer = self._runner.run(getattr(self._store, name)(*args, **kwargs))
            except Exception as error:
                if not self._told:
                    raise AssertionError(f"SQLite could not do {name}{args}{kwargs}") from error
        self._follower.follow(self._told.pop())
        return answer

    def record(self, verb: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a caller records in a transaction of its own."""
        return self.call(TRANSACT, lambda own: verb(own, *args, **kwargs))

    def ids(self, sql: str) -> list[Any]:
        """The first column of what is there now."""
        return [row[0] for row in self._connection.execute(sql).fetchall()]

    def compare(self) -> None:
        self._follower.compare(tables_of(self._connection))

    def close(self) -> None:
        self._connection.close()
        self._runner.close()
