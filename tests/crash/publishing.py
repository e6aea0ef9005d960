"""An application that publishes at a steady rate in transactions of its own, and writes down what it was told of each.

python -m tests.crash.publishing '{"url": …, "which": 0, …}'       Orders, as JSON

Each transaction has a row of the application's own beside its events. The journal is a file that outlives SIGKILL:
a transaction is noted before its COMMIT and again when that was answered, so that what was acknowledged is known.
"""

import json
import random
import sqlite3
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import psycopg

from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from tests.crash.recorder import KINDS

PUBLISHERS = 2
LARGEST = 20
ROLLED_BACK_SHARE = REPEATED_SHARE = 0.03
DEBT_SECONDS = 10.0
CATCH_UP = 1.5
ORDERED, SUBSCRIBED = "chaos.order", "chaos.news"
ORDERS = "create table chaos_orders (publisher integer, place bigint, amount integer, primary key (publisher, place))"
ORDER = "insert into chaos_orders (publisher, place, amount) values ({0}, {0}, {0}) on conflict do nothing"
TROUBLE = (
    psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction, sqlite3.OperationalError
)  # fmt: skip
ASKED, ACKNOWLEDGED, ROLLED_BACK = b"a", b"c", b"r"
_RECORD = struct.Struct("<QHc")
ENTRY_BYTES = _RECORD.size


class Entry(NamedTuple):
    """So many messages from this place on, and what their publisher knows of them."""

    place: int
    amount: int
    state: bytes


def number_of(which: int, place: int) -> int:
    """The message's number: dense over all publishers."""
    return place * PUBLISHERS + which


def kind_of(number: int) -> str:
    return KINDS[number // PUBLISHERS % len(KINDS)]


def journal(folder: Path, which: int) -> Path:
    return folder / f"publisher-{which}.journal"


def entries(path: Path) -> Iterator[Entry]:
    """What a publisher has written down. A record that was cut short by a kill is none."""
    if path.exists():
        whole = path.read_bytes()
        yield from map(Entry._make, _RECORD.iter_unpack(whole[: len(whole) // _RECORD.size * _RECORD.size]))


def append(file: BinaryIO, entry: Entry) -> None:
    """Write one down."""
    file.write(_RECORD.pack(*entry))


@dataclass(frozen=True, kw_only=True)
class Orders:
    url: str
    folder: str
    which: int
    rate: float
    seed: int
    started: float
    receivers: dict[str, str]


class Publisher:
    """Goes on where its journal ends; ends when there is a file named `stop`, and rests while there is one `brake`."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._folder = Path(orders.folder)
        path = journal(self._folder, orders.which)
        known = list(entries(path))
        self._place = max((entry.place + entry.amount for entry in known), default=0)
        self._done = sum(entry.amount for entry in known if entry.state == ACKNOWLEDGED)
        self._journal = cast(BinaryIO, path.open("ab", buffering=0))
        self._journal.truncate(len(known) * _RECORD.size)
        self._rng = random.Random(f"{orders.seed} {orders.which} {self._place}")
        self._outbox = Outbox()
        self._last: Entry | None = None
        self._again: Entry | None = None
        self._connection: Any = None

    def run(self) -> None:
        rate, begun = self._orders.rate, self._orders.started
        while not (self._folder / "stop").exists():
            if (self._folder / "brake").exists():
                time.sleep(0.2)
                continue
            wanted = (time.monotonic() - begun) * rate - self._done
            if wanted > DEBT_SECONDS * rate:
                begun += wanted / rate - DEBT_SECONDS  # what could not be published in time is not published at all
            if wanted < 1:
                time.sleep(max(0.001, (1 - wanted) / rate))
                continue
            at = time.monotonic()
            entry = self._again or Entry(self._place, self._rng.randint(1, LARGEST), ASKED)
            if self._transact(entry):
                time.sleep(max(0.0, at + entry.amount / rate / CATCH_UP - time.monotonic()))

    def _transact(self, entry: Entry) -> bool:
        """One transaction; False when the database did not let it come to an end."""
        try:
            self._begin()
            self._connection.execute(
                ORDER.format("?" if self._is_sqlite else "%s"), (self._orders.which, entry.place, entry.amount)
            )
            self._outbox.publish_many(self._connection, self._drafts(entry))
            if self._rng.random() < ROLLED_BACK_SHARE:
                self._connection.rollback()
                self._note(entry, ROLLED_BACK)
            else:
                self._note(entry, ASKED)
                self._connection.commit()
                self._note(entry, ACKNOWLEDGED)
                self._last = entry
                self._done += entry.amount
        except TROUBLE:
            self._drop()
            self._again = entry if self._rng.random() < 0.5 else None  # an application may try again, or give up
            time.sleep(0.1)
            return False
        else:
            self._again = None
            return True
        finally:
            self._place = max(self._place, entry.place + entry.amount)

    def _drafts(self, entry: Entry) -> list[Draft]:
        """The events of a transaction; now and then those of the last one once more, with the same keys."""
        drafts = list(map(self._draft, range(entry.place, entry.place + entry.amount)))
        if self._last is not None and self._rng.random() < REPEATED_SHARE:
            drafts += map(self._draft, range(self._last.place, self._last.place + self._last.amount))
        return drafts

    def _draft(self, place: int) -> Draft:
        number = number_of(self._orders.which, place)
        kind = kind_of(number)
        if kind == "subscribed":
            return Draft(SUBSCRIBED, {"order": number}, key=str(number), to=None)
        to = f"{self._orders.receivers[kind]}/{kind}/{number}"
        if_unsure = "hold" if kind == "held" else None
        return Draft(ORDERED, {"order": number}, key=str(number), to=to, if_unsure=if_unsure)

    def _note(self, entry: Entry, state: bytes) -> None:
        append(self._journal, entry._replace(state=state))

    @property
    def _is_sqlite(self) -> bool:
        return self._orders.url.startswith("sqlite:")

    def _begin(self) -> None:
        if self._connection is None:
            self._connection = (
                sqlite3.connect(self._orders.url.removeprefix("sqlite:///"), timeout=20, isolation_level=None)
                if self._is_sqlite
                else psycopg.connect(self._orders.url, connect_timeout=5, prepare_threshold=None)
            )
        if self._is_sqlite:
            self._connection.execute("begin immediate")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*TROUBLE):
                connection.close()


if __name__ == "__main__":
    Publisher(Orders(**json.loads(sys.argv[1]))).run()
