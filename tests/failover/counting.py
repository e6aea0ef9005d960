"""What a failover that lost commits cost, counted from the publishers' journals, the new primary and the receiver."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.checking import BITS, journals, stream
from tests.crash.ledger import Ledger
from tests.crash.publishing import ACKNOWLEDGED, kind_of
from tests.store.databases import Database

_DELIVERIES = (
    "select e.key, d.status, l.reason from sendonce_events e join sendonce_deliveries d on d.event_id = e.id"
    " left join sendonce_dead_letters l on l.delivery_id = d.id"
)


@dataclass(kw_only=True)
class Account:
    """`forgotten`: acknowledged to the application, and not on the new primary; of these, `forgotten_sent` were
    received. `unsent`: marked as sent and never received. `held`: for a person. `again`: accepted more than once, by
    the kind of receiver.
    """

    published: int = 0
    forgotten: int = 0
    forgotten_sent: int = 0
    completed: int = 0
    unsent: int = 0
    held: int = 0
    again: Counter[str] = field(default_factory=Counter)
    strange: Counter[str] = field(default_factory=Counter)


def count(database: Database, folder: Path, ledger: Ledger) -> Account:
    """Everything must have come to its end."""
    account, there = Account(), set()
    for key, status, reason in stream(database, _DELIVERIES):
        number = int(key)
        there.add(number)
        kind, times = kind_of(number), ledger.times(number)
        account.published += 1
        account.completed += status == "Completed"
        account.unsent += status == "Completed" and not times
        if status == "DeadLettered" and reason == "in_doubt":
            account.held += 1
        elif status != "Completed":
            account.strange[f"{kind} is {status} ({reason})"] += 1
        if times > 1:
            account.again[kind] += times - 1
    told, _ = journals(folder)
    for number in range(len(told.bits)):
        if told.of(number) & BITS[ACKNOWLEDGED] and number not in there:
            account.forgotten += 1
            account.forgotten_sent += ledger.times(number) > 0
    return account
