"""The consistency check's looks: each is one transaction on the connection that cannot write."""

from sendonce.store.migrations import available
from sendonce.store.rules import Broken, Rule, bare, broken_rules, rules_of
from sendonce.store.sqlite.lanes import PACKAGE, Lane, Transaction
from sendonce.store.sqlite.migrator import version_on
from sendonce.store.sqlite.times import microseconds
from sendonce.store.verifying import (
    SPANS_OF_TIME,
)

_TIMES = {name: microseconds(span) for name, span in SPANS_OF_TIME.items()}


class Verifying:
    """See VerifyStore."""

    _reader: Lane

    async def broken_rules(self) -> list[Broken]:
        return await self._reader.run(broken_on)


def broken_on(transaction: Transaction) -> list[Broken]:
    """What of the schema is not as the migrations made it."""
    expected = rules_of(available(PACKAGE), version_on(transaction.connection))
    # A constraint cannot be taken from a table, and none of them has a row of its own here.
    wanted = {key: rule for key, rule in expected.items() if rule.kind != "constraint"}
    return broken_rules(wanted, [Rule(*row) for row in transaction.fetch("found_rules")], _reading)


def _reading(rule: Rule) -> object:
    return None if rule.kind == "table" else bare(rule.text)
