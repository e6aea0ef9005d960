"""Every text that a caller can give is treated alike on both databases: kept, answered and refused in one way.

The verbs and their texts are taken from the signatures of the store's port, so that a new verb cannot be forgotten: it
is called with what VALUES has for its parameters by name, and a parameter that is not there fails the test.
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import is_dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import psycopg
import pytest

from sendonce import UNIQUE, Outbox
from sendonce.domain.attempts import Witness
from sendonce.domain.breakers import Answers, Pauses
from sendonce.domain.events import new_event
from sendonce.domain.evidence import Evidence, Told
from sendonce.domain.outcomes import Delivered, Refused
from sendonce.domain.serving import Served
from sendonce.sql.steps import run_sync
from sendonce.store.bulk import REQUEUE, NewOperation
from sendonce.store.callers import store_on
from sendonce.store.filters import Filter
from sendonce.store.inbox import MessageFilter
from sendonce.store.ports import Store
from sendonce.store.tries import Arrived, Content, Failure
from sendonce.store.upkeep import Person, Stage, Turn
from sendonce.store.verifying import Walk
from tests.given import HOLD, result
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase
from tests.store.test_holds import undone

MARK = "zqz"
BAD = {
    "NUL": f"{MARK}\0a",
    "half a character": f"{MARK}\ud800a",
    "700 characters": MARK + "é" * 700,
    "controls": f"{MARK}\x01\x1b[31m\r\n\u202e\x7fa",
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# One value for every parameter, by its name. Deliveries: 1 was given up, 2 has arrived, 3 waits. Messages: 1 was given
# up, 2 is due again.
VALUES: dict[str, Any] = {
    "delivery_id": 1, "delivery_ids": [1], "dead_letter_ids": [1], "dead_letter_id": 1, "event_id": 1,
    "event_ids": [1], "subscription_id": 1, "subscription_ids": [1], "operation_id": 1, "worker_id": 1,
    "row_ids": [1], "message_id": "m-1", "request_id": 1, "lease_ids": [1],
    "operator": "ada", "reason": "because", "noticed_by": "host:1", "message": "so it is", "details": "so it is",
    "kind": "requeue", "subject": "all", "name": "dead_letters", "version": "1", "code": "503", "met_at": "host",
    "tenant": "", "types": ["a.b"], "destination": "null:b", "policy": None, "description": None, "ask": None,
    "rate": None, "secrets": None, "content": "{}", "even_if_sent": True, "notification_id": None, "token": "t",
    "key": "k", "scope": "tenant", "value": "acme", "state": "paused", "part": "payloads", "room": "channel:null",
    "rooms": ["rate:1"], "serves": None, "by": "token", "place": "delivery_window", "checks": ["routed"],
    "after": 0, "before": None, "limit": 10, "upper": 9, "upto": 9, "window": 9, "most": 9, "amount": 1, "turn": 1,
    "wanted": Filter(), "person": Person(destination="null:a"), "shared": False, "affected": 1, "seen": 1,
    "concurrency": 1, "is_listening": False, "hold": HOLD, "wait": HOLD, "pause": HOLD, "repeat": HOLD, "whole": HOLD,
    "overlap": HOLD, "secret": b"s", "walk": Walk.EVENTS, "ended": None, "quotas": {"rate:1": 1}, "probes": None,
    "answers": Answers(), "pauses": Pauses(first=HOLD, longest=HOLD), "served": Served(["null"]), "size": None,
    "stage": Stage.PAYLOADS, "age": HOLD, "archive": None, "seal": lambda *_: b"x", "limits": None, "fence": None,
    "witness": Witness(1, 1, 1, 1, NOW),
    "consumer": "wallet", "worker": "w:1", "most_lost": 3, "row_id": None,
    "arrived": Arrived(consumer="wallet", id="m-9", position="1", source="amqp:shop/payments"),
    "failure": Failure("ValueError", "so it is", reason="exhausted"),
    "event": new_event("a.b", {}, key="k", to=None),
    "evidence": Evidence(source="bank", outcome=Told.DELIVERED, token="t", reference="r"),
    "operation": NewOperation(
        kind=REQUEUE, operator="ada", reason="r", subject="s", wanted=Filter(), rate=1.0, first_id=0, upper_id=9
    ),
}  # fmt: skip
# Where a verb wants another one.
OWN: dict[str, dict[str, Any]] = {
    "cancel": {"delivery_ids": [3]},
    "operations": {"before": 99},
    "rooms": {"after": ""},
    "end_turn": {"turn": Turn(1, HOLD)},
    "take_turn": {"turn": Turn(1, HOLD)},
    "retain": {"turn": None},
    "messages": {"wanted": MessageFilter()},
    "seek_deliveries": {"wanted": ["t"]},
    "let_out": {"wanted": 1},
    "take_tokens": {"wanted": 1},
    "resume": {"scope": "tenant", "value": "stopped"},
    "correct": {"destination": None},
    "fail_message": {"content": Content(body=b"{}", headers={"a": "b"}, subject="s")},
}
PLAIN = (int, str, bytes, float, bool, type(None), timedelta, datetime)


def verbs() -> dict[str, Callable[..., Any]]:
    """The whole port."""
    ports = [port for port in Store.__mro__ if port.__module__.startswith("sendonce")]
    return {name: verb for port in ports for name, verb in vars(port).items() if callable(verb) and name[0] != "_"}


def texts_of(name: str, verb: Callable[..., Any]) -> Iterator[tuple[str, Callable[[str], Any]]]:
    """The texts that a verb takes: what each is called, and the argument with such a text in it."""
    hints = get_type_hints(verb)
    for parameter in list(signature(verb).parameters)[1:]:
        wanted = hints[parameter]
        if wanted in (str, str | None):
            yield parameter, lambda text: text
        elif wanted in (Sequence[str], Collection[str], Sequence[str] | None):
            yield parameter, lambda text: [text]
        elif any(str in _deep(each) for each in (wanted, *get_args(wanted))):
            given = OWN.get(name, {}).get(parameter, VALUES[parameter])
            for field in _fields(given):
                yield f"{parameter}.{field}", partial(_with, given, field)


def _deep(wanted: Any) -> list[Any]:
    """The types of the fields of a record, and of what is in them."""
    if not (is_dataclass(wanted) or hasattr(wanted, "_fields")):
        return []
    return [each for hint in get_type_hints(wanted).values() for each in (hint, *get_args(hint))]


def _fields(given: Any) -> list[str]:
    hints = {} if given is None else get_type_hints(type(given))
    return [field for field, hint in hints.items() if hint in (str, str | None)]


def _with(given: Any, field: str, text: str) -> Any:
    if hasattr(given, "_replace"):
        return given._replace(**{field: text})
    return replace(given, **{field: text})


TEXTS = [(name, text, put) for name, verb in sorted(verbs().items()) for text, put in texts_of(name, verb)]


def outcome(database: Database, name: str, parameter: str, argument: Any) -> list[str]:
    """What becomes of a call: how it was refused, what of the text was answered, and what of it is kept where."""
    with undone(database) as connection:
        store = run_sync(store_on(connection))
        given_scene(connection, store)
        own = {**VALUES, **OWN.get(name, {}), parameter: argument}
        verb = verbs()[name]
        wanted = [each for each in signature(verb).parameters.values() if each.name != "self"]
        known = {
            each.name: own[each.name] for each in wanted if each.default is Parameter.empty or each.name == parameter
        }
        try:
            answer = run_sync(getattr(store, name)(**known))
        except Exception as error:
            return [f"{type(error).__name__}"]
        return [*re.findall(rf"'[^']*{MARK}[^']*'", repr(answer)), *kept(connection)]


def given_scene(connection: Any, store: Store) -> None:
    outbox = Outbox()
    for _ in range(3):
        outbox.publish(connection, "a.b", {}, key=UNIQUE, to="null:a")
    run_sync(
        store.add_subscription(
            tenant="", types=["c.d"], destination="null:s", policy=None, description=None, operator="ada"
        )
    )
    lease = run_sync(store.start(1, 2, HOLD)).lease
    assert lease is not None
    run_sync(store.settle([result(lease, Refused("410")), result(lease, Delivered("n-2"), of=1)]))
    run_sync(store.stop("tenant", "stopped", operator="ada", reason=None))
    run_sync(store.begin_operation(VALUES["operation"]))
    given_up, again = VALUES["failure"], Failure("ValueError", "so it is", again_in=timedelta(0))
    for key, failure in (("m-1", given_up), ("m-2", again)):
        arrived = replace(VALUES["arrived"], id=key)
        run_sync(store.fail_message(arrived, None, OWN["fail_message"]["content"], failure, worker="w:1"))


def kept(connection: Any) -> list[str]:
    """Every cell in which the text is, with its place."""
    found = []
    for table in TABLES:
        cursor = connection.execute(f"select * from sendonce_{table}")
        columns = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            cells = zip(columns, row, strict=True)
            found += [f"{table}.{column}: {cell!r}" for column, cell in cells if isinstance(cell, str) and MARK in cell]
    return sorted(found)


TABLES = (
    *("events", "deliveries", "attempts", "dead_letters", "contents", "findings", "operations", "corrections"),
    *("subscriptions", "subscription_types", "stops", "breakers", "workers", "alerts", "meta", "losses", "evidence"),
    *("requests", "recipients", "retention", "messages", "tries", "receipts"),
)


@pytest.fixture
def both(
    tmp_path: Path, sqlite_template: Path, postgres_server: Server, postgres_template: str
) -> Iterator[tuple[SqliteDatabase, PostgresDatabase]]:
    path = tmp_path / "sendonce.db"
    shutil.copyfile(sqlite_template, path)
    name = postgres_server.create_database(template=postgres_template)
    yield SqliteDatabase(path), PostgresDatabase(postgres_server.dsn(name))
    postgres_server.drop_database(name)


def begin_again(database: PostgresDatabase) -> None:
    """What is undone leaves gaps in the ids here, and none on SQLite."""
    with psycopg.connect(database.url) as connection:
        connection.execute(
            "select setval(quote_ident(sequencename)::regclass, 1, false) from pg_sequences"
            " where sequencename like 'sendonce%'"
        )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bad", BAD)
def test_text_is_treated_alike_on_both_databases(both: tuple[SqliteDatabase, PostgresDatabase], bad: str) -> None:
    _, postgres = both
    differing = {}
    for name, text, put in TEXTS:
        try:
            argument = put(BAD[bad])
        except Exception:  # noqa: S112 - it is refused before it comes to a store
            continue
        parameter = text.partition(".")[0]
        begin_again(postgres)
        outcomes = [outcome(database, name, parameter, argument) for database in both]
        if outcomes[0] != outcomes[1]:
            differing[f"{name}({text})"] = outcomes

    assert differing == {}


def test_texts_of_every_verb_are_tried() -> None:
    tried = {name for name, _, _ in TEXTS}

    assert {"stop", "correct", "deliveries", "register", "begin_operation", "add_evidence", "messages"} <= tried
    assert {"begin_message", "fail_message", "due_messages", "retry_messages", "erase_message"} <= tried
    assert len(TEXTS) > 100
