"""The business: an order, its event and its row in the naive outbox are one transaction, or none of them is there."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sendonce import Outbox
from sendonce.devtools.demo import naive
from sendonce.domain.events import render_payload

WAVES = (range(1, 21), range(21, 46), range(46, 61))
ROLLED_BACK = frozenset({7, 19, 28, 41, 55})
REFUSED = frozenset({50, 57})
ORDERS = frozenset(number for wave in WAVES for number in wave)

# Minutes of a real outage are seconds here, for both outboxes alike.
SLOTS = 12
TIMEOUT_SECONDS = 2.0
LEASE_SECONDS = 3
POLICY = {"first_delay": "300ms", "longest_delay": "1s", "timeout": f"{TIMEOUT_SECONDS}s", "doubt_wait": "500ms"}
# A sender is killed with so many requests in flight, of which some have arrived and some have not.
KILL_AT = 8
SOME = 2


class Side(StrEnum):
    """Whose requests: the first part of their path, after which comes the order."""

    SENDONCE = "sendonce"
    NAIVE = "naive"

    @property
    def path(self) -> str:
        return f"/{self}/"


class Mood(StrEnum):
    SLOW = "slow"
    BUSY = "busy"
    WELL = "well"


# As `sendonce receive` is told; it recognises no token in any mood. Slow: half of the requests wait for a second before
# it looks at them, every answer takes its time, and every eighth is lost on its way.
BEHAVIOURS: Mapping[Mood, Mapping[str, object]] = {
    Mood.SLOW: {"slow": "1s:0.5", "late": "700ms", "drop_after_accept": "0.125"},
    Mood.BUSY: {"slow": None, "late": "100ms", "drop_after_accept": None, "fail": "503:0.25"},
    Mood.WELL: {"fail": None},
}


CUSTOMERS = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Radia", "Leslie")
TYPE = "order.placed"


class PaymentDeclined(Exception):
    """The business says no when everything has been written already."""


@dataclass(frozen=True, slots=True)
class Naive:
    """The naive outbox as it sees itself."""

    waiting: int = 0
    sent: int = 0
    given_up: int = 0


class Shop:
    """Places orders on a connection of its own, as any application does."""

    def __init__(self, path: Path, receiver: str) -> None:
        self._connection = sqlite3.connect(path, timeout=10)
        self._outbox = Outbox()
        self._receiver = receiver

    def open(self) -> None:
        with self._connection:
            self._connection.execute(
                "create table orders (id integer primary key, customer text not null, cents integer not null)"
            )
            self._connection.execute(naive.TABLE)

    def place(self, number: int) -> bool:
        """Record an order and both its messages; False when the transaction was rolled back."""
        try:
            with self._connection as transaction:
                self._write(transaction, number)
                if number in ROLLED_BACK:
                    raise PaymentDeclined
        except PaymentDeclined:
            return False
        return True

    def orders(self) -> set[int]:
        """The orders that are really there."""
        return {number for (number,) in self._connection.execute("select id from orders order by id limit 1000")}

    def naive(self) -> Naive:
        return Naive(
            *self._connection.execute(
                "select count(*) filter (where sent_at is null and tries < 5), count(sent_at),"
                " count(*) filter (where sent_at is null and tries >= 5) from naive_outbox"
            ).fetchone()
        )

    def close(self) -> None:
        self._connection.close()

    def _write(self, transaction: sqlite3.Connection, number: int) -> None:
        customer, cents = CUSTOMERS[number % len(CUSTOMERS)], 990 + number * 137 % 5000
        order = {"order": number, "customer": customer, "cents": cents}
        transaction.execute("insert into orders (id, customer, cents) values (:order, :customer, :cents)", order)
        self._outbox.publish(transaction, TYPE, order, key=key_of(number), to=self._url(Side.SENDONCE, number))
        naive.add(transaction, self._url(Side.NAIVE, number), render_payload(order))

    def _url(self, side: Side, number: int) -> str:
        return f"http://{self._receiver}{side.path}{number}"


def key_of(number: int) -> str:
    """The event's key for an order."""
    return f"order-{number}"


def order_of(key: str) -> int:
    return int(key.removeprefix("order-"))
