"""The time of the database: everything in one transaction is written with it."""

from datetime import datetime
from typing import NamedTuple

from sendonce.sql.steps import Steps, records


class _Clock(NamedTuple):
    now: datetime


def now() -> Steps[datetime]:
    """The time at which this transaction has begun."""
    [clock] = yield from records(_Clock, "clock")
    return clock.now
