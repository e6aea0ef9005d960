"""The consistency check's looks: each is one transaction on the connection that cannot write."""

from collections.abc import Mapping, Sequence

from sendonce.store.migrations import available
from sendonce.store.rules import Broken, Rule, bare, broken_rules, rules_of
from sendonce.store.sqlite.lanes import PACKAGE, Lane, Transaction
from sendonce.store.sqlite.migrator import version_on
from sendonce.store.sqlite.times import microseconds, moment, stamp
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

_TIMES = {name: microseconds(span) for name, span in SPANS_OF_TIME.items()}


class Verifying:
    """See VerifyStore."""

    _reader: Lane

    async def verify_facts(self) -> VerifyFacts:
        return await self._reader.run(_facts)

    async def inspect(
        self, walk: Walk, checks: Sequence[str], after: int, *, limit: int, ended: Times | None = None
    ) -> Inspected:
        return await self._reader.run(_inspect, walk, checks, after, limit, ended)

    async def inspect_again(self, checks: Sequence[str], after: int, upto: int) -> Mapping[str, Sequence[int]]:
        return await self._reader.run(_found, checks, after, upto)

    async def broken_rules(self) -> list[Broken]:
        return await self._reader.run(broken_on)


def _facts(transaction: Transaction) -> VerifyFacts:
    row = transaction.fetch("verify_facts", _TIMES)[0]
    return VerifyFacts(moment(row[0]), *row[1:])


def _inspect(
    transaction: Transaction, walk: Walk, checks: Sequence[str], after: int, limit: int, ended: Times | None
) -> Inspected:
    values = {"after": after, "limit": limit, "rows": limit * DELIVERIES_EACH}
    looked, last, has_more = transaction.fetch(SPANS[walk], values)[0]
    upto = last if has_more else LAST_ID
    found = _found(transaction, checks, after, upto)
    tally = Tally()
    if ended is not None:
        span = {"after": after, "upto": upto, "until": stamp(ended.until), "surely": stamp(ended.surely)}
        tally = Tally(*transaction.fetch("tally_ended", span)[0])
    unrouted = 0
    if ROUTED in checks:
        unrouted = transaction.fetch("count_unrouted", {"after": after, "upto": upto})[0][0]
    return Inspected(looked, upto, bool(has_more), found, tally, unrouted)


def _found(transaction: Transaction, checks: Sequence[str], after: int, upto: int) -> dict[str, list[int]]:
    values = {"after": after, "upto": upto, "cap": FOUND_CAP, **_TIMES}
    found = {check: [row[0] for row in transaction.fetch(f"verify_{check}", values)] for check in checks}
    return {check: ids for check, ids in found.items() if ids}


def broken_on(transaction: Transaction) -> list[Broken]:
    """What of the schema is not as the migrations made it."""
    expected = rules_of(available(PACKAGE), version_on(transaction.connection))
    # A constraint cannot be taken from a table, and none of them has a row of its own here.
    wanted = {key: rule for key, rule in expected.items() if rule.kind != "constraint"}
    return broken_rules(wanted, [Rule(*row) for row in transaction.fetch("found_rules")], _reading)


def _reading(rule: Rule) -> object:
    return None if rule.kind == "table" else bare(rule.text)
