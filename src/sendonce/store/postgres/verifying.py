"""The consistency check's looks: each is one read-only transaction that sees one moment."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from sendonce.store.migrations import available
from sendonce.store.postgres.definitions import reading
from sendonce.store.postgres.lanes import Connection, Lanes, fetch
from sendonce.store.postgres.migrator import PACKAGE, version_on
from sendonce.store.records import ALIVE
from sendonce.store.rules import DISABLED, NOT_VALID, Broken, Rule, broken_rules, rules_of
from sendonce.store.verifying import (
    DELIVERIES_EACH,
    FOUND_CAP,
    LAST_ID,
    ROUTED,
    SPANS,
    SPANS_OF_TIME,
    Inspected,
    Tally,
    Times,
    VerifyFacts,
    Walk,
)

_TIMES = {name: span.total_seconds() for name, span in SPANS_OF_TIME.items()}


class Verifying(Lanes):
    """See VerifyStore."""

    async def verify_facts(self) -> VerifyFacts:
        async with self._snapshot() as connection:
            rows = await fetch(connection, "verify_facts", {"alive": ALIVE.total_seconds()})
        return VerifyFacts(*rows[0])

    async def inspect(
        self, walk: Walk, checks: Sequence[str], after: int, *, limit: int, ended: Times | None = None
    ) -> Inspected:
        async with self._snapshot() as connection:
            values = {"after": after, "limit": limit, "rows": limit * DELIVERIES_EACH}
            looked, last, has_more = (await fetch(connection, SPANS[walk], values))[0]
            upto = last if has_more else LAST_ID
            found = await _found(connection, checks, after, upto)
            tally = Tally()
            if ended is not None:
                span = {"after": after, "upto": upto, "until": ended.until, "surely": ended.surely}
                tally = Tally(*(await fetch(connection, "tally_ended", span))[0])
            unrouted = 0
            if ROUTED in checks:
                unrouted = (await fetch(connection, "count_unrouted", {"after": after, "upto": upto}))[0][0]
        return Inspected(looked, upto, has_more, found, tally, unrouted)

    async def inspect_again(self, checks: Sequence[str], after: int, upto: int) -> Mapping[str, Sequence[int]]:
        async with self._snapshot() as connection:
            return await _found(connection, checks, after, upto)

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


async def _found(connection: Connection, checks: Sequence[str], after: int, upto: int) -> dict[str, list[int]]:
    values = {"after": after, "upto": upto, "cap": FOUND_CAP, **_TIMES}
    found = {check: [row[0] for row in await fetch(connection, f"verify_{check}", values)] for check in checks}
    return {check: ids for check, ids in found.items() if ids}
