"""Receipts, as statements on the caller's connection. Only rows that come back decide, never an error's text."""

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files

from sendonce.domain.messages import Name, check_result
from sendonce.errors import NotAllowed, StoreBusy
from sendonce.sql.queries import Database, Statement, Statements, Value, array, split

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Receipt:
    """What `once` says about a message. It is true when it came first, so that `if receipt:` handles it once.

    Whoever handles it may say what came of it: `receipt.result = "deducted 12"`. A duplicate has what was said then.
    """

    __slots__ = ("_result", "consumer", "duplicates", "first", "message_id", "received_at")

    def __init__(self, name: Name) -> None:
        self.consumer, self.message_id = name
        self.first = True
        self.received_at: datetime | None = None
        """When the first one came; None for the first one itself."""
        self.duplicates = 0
        """How often it has come again, this time included."""
        self._result: str | None = None

    @property
    def result(self) -> str | None:
        """What the handler has said about it, up to 2,000 bytes."""
        return self._result

    @result.setter
    def result(self, result: str) -> None:
        if not self.first:
            raise NotAllowed("this message was handled before: its result stays as it is")
        self._result = check_result(result)

    def __bool__(self) -> bool:
        return self.first

    def __repr__(self) -> str:
        return f"Receipt({self.consumer!r}, {self.message_id!r}, first={self.first})"


@cache
def queries(database: Database) -> dict[str, str]:
    """Return the statements for one database, by name."""
    return split(files("sendonce.inbox").joinpath("sql", f"{database}.sql").read_text("utf-8"))


def receive(name: Name, database: Database) -> Statements[Receipt]:
    """Write the message's receipt, or note that it has come again."""
    receipt = Receipt(name)
    if database == "sqlite":
        yield Statement(queries(database)["begin_handling"])
    if not (yield _statement(database, "receive", name._asdict())):
        _seen(receipt, (yield _statement(database, "see_again", name._asdict())))
    return receipt


def look(name: Name, database: Database) -> Statements[Receipt | None]:
    """Return the message's receipt, if it is there."""
    receipt = Receipt(name)
    rows = yield Statement(queries(database)["seen"], name._asdict())
    if not rows:
        return None
    _seen(receipt, rows)
    return receipt


def receive_many(consumer: str, message_ids: Sequence[str], database: Database) -> Statements[list[Receipt]]:
    """The same for several messages, in their order; one that is there twice comes again the second time."""
    receipts = {each: Receipt(Name(consumer, each)) for each in sorted(message_ids)}
    if database == "sqlite":
        yield Statement(queries(database)["begin_handling"])
    if receipts:
        asked = {"consumer": consumer, "message_ids": _listed(database, receipts)}
        first = {_text(row[0]) for row in (yield _statement(database, "receive_many", asked))}
        known = [each for each in receipts if each not in first]
        if known:
            asked["message_ids"] = _listed(database, known)
            rows = {_text(row[0]): row for row in (yield _statement(database, "see_many_again", asked))}
            for each in known:
                _seen(receipts[each], [rows[each]] if each in rows else [])
    handled: list[Receipt] = []
    for each in message_ids:
        handled.append((yield from _again(receipts[each], database)) if receipts[each] in handled else receipts[each])
    return handled


def _again(receipt: Receipt, database: Database) -> Statements[Receipt]:
    """The same message once more in one batch."""
    name = Name(receipt.consumer, receipt.message_id)
    again = Receipt(name)
    _seen(again, (yield _statement(database, "see_again", name._asdict())))
    return again


def keep_results(receipts: Iterable[Receipt], database: Database) -> Statements[None]:
    """The handler is done: write what it has said about these."""
    for each in receipts:
        values = {"consumer": each.consumer, "message_id": each.message_id, "result": each.result}
        yield Statement(queries(database)["keep_result"], values)
    if database == "sqlite":
        # Whoever has committed inside has ended the savepoint by that.
        with suppress(Exception):
            yield Statement(queries(database)["end_handling"])


def give_up(database: Database) -> Statements[None]:
    """The handler has failed: nothing that it has done can be committed, and no receipt says otherwise."""
    # What cannot be carried out is no longer needed: the transaction is broken already, or has ended.
    with suppress(Exception):
        yield Statement(queries(database)["give_up"])
        if database == "sqlite":
            yield Statement(queries(database)["end_handling"])


def _statement(database: Database, name: str, values: dict[str, str | None]) -> Statement:
    given: dict[str, Value] = dict(values)
    if database == "sqlite":
        given["now"] = time.time_ns() // 1000
    return Statement(queries(database)[name], given)


def _listed(database: Database, message_ids: Iterable[str]) -> str | None:
    return array(list(message_ids)) if database == "postgres" else json.dumps(list(message_ids))


def _seen(receipt: Receipt, rows: Sequence[Sequence[object]]) -> None:
    for _, received_at, duplicates, result in rows:
        receipt.first = False
        receipt.received_at = _EPOCH + timedelta(microseconds=int(str(received_at)))
        receipt.duplicates = int(str(duplicates))
        receipt._result = None if result is None else _text(result)
        return
    raise StoreBusy(f"the receipt of {receipt.message_id!r} was deleted while we looked; try again")


def _text(value: object) -> str:
    """A caller's SQLite connection may be set up to give texts as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
