"""The consistency check's looks: each is one read-only transaction that sees one moment."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sendonce.store.migrations import available
from sendonce.store.postgres.definitions import reading
from sendonce.store.postgres.lanes import Connection, Lanes, fetch
from sendonce.store.postgres.migrator import PACKAGE, version_on
from sendonce.store.rules import DISABLED, NOT_VALID, Broken, Rule, broken_rules, rules_of
from sendonce.store.verifying import (
    SPANS_OF_TIME,
)

_TIMES = {name: span.total_seconds() for name, span in SPANS_OF_TIME.items()}


class Verifying(Lanes):
    """See VerifyStore."""

    async def broken_rules(self) -> list[Broken]:
        async with self._snapshot() as connection:
            return await broken_on(connection)

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[Connection]:
        async with self.people.transaction() as connection:
            await fetch(connection, "read_snapshot", {})
            yield connection


async def broken_on(connection: Connection) -> list[Broken]:
    """What of the schema is not as the migrations made it."""
    expected = rules_of(available(PACKAGE), await version_on(connection))
    rows = await fetch(connection, "found_rules", {"disabled": DISABLED, "not_valid": NOT_VALID})
    return broken_rules(expected, [Rule(*row) for row in rows], reading)
