"""How each verb of an Admin is called: for everything that there is, whoever it belongs to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, TypeAlias

from sendonce.domain.deliveries import DeliveryState
from sendonce.store.filters import Filter
from tests.store.databases import Database

MINE = "they said so"
NOWHERE = 10**9


@dataclass(frozen=True)
class Ids:
    """The ids of all rows, of every tenant."""

    events: Sequence[int]
    deliveries: Sequence[int]
    dead_letters: Sequence[int]
    requests: Sequence[int]
    subscriptions: Sequence[int]
    operations: Sequence[int]
    messages: Sequence[int]

    @classmethod
    def of(cls, database: Database, *more: int) -> "Ids":
        """Those that are there, and more."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: [*(row["id"] for row in database.rows(name)), *more] for name in names})


Call: TypeAlias = tuple[tuple[object, ...], dict[str, object]]


@dataclass(frozen=True)
class Calls:
    """The calls of one verb; `what` is the table whose ids it takes, one in each call."""

    of: Callable[[Ids], Iterator[Call]]
    what: str | None = None


def once(*args: object, **kwargs: object) -> Calls:
    return Calls(lambda ids: iter([(args, kwargs)]))


def several(*each: Mapping[str, object]) -> Calls:
    return Calls(lambda ids: iter([((), dict(kwargs)) for kwargs in each]))


def for_each(what: str, *args: object, **kwargs: object) -> Calls:
    return Calls(lambda ids: (((each, *args), kwargs) for each in getattr(ids, what)), what)


def for_lists(what: str, **kwargs: object) -> Calls:
    return Calls(lambda ids: ((([each],), kwargs) for each in getattr(ids, what)), what)


LIST = several({}, {"limit": 1}, {"limit": 1, "before": 3}, {"type": "memo.*"}, {"destination": "null:a"})
NO_TIME = timedelta(0)

LOOKS: dict[str, Calls] = {
    "events": LIST,
    "event": for_each("events"),
    "deliveries": several({}, {"limit": 1}, {"status": DeliveryState.DEAD_LETTERED}, {"destination": "null:a"}),
    "delivery": for_each("deliveries"),
    "deliveries_of": for_each("events"),
    "attempts_of": for_each("deliveries"),
    "explain": for_each("deliveries"),
    "dead_letters": several({}, {"limit": 1}, {"type": "memo.*"}, {"include_cancelled": True}),
    "dead_letter": for_each("dead_letters"),
    "dead_letter_summary": several({}, {"limit": 1}, {"type": "memo.*"}),
    "undelivered": several({}, {"limit": 1}, {"before": 3}),
    "requests": several({}, {"limit": 1}),
    "request": for_each("requests"),
    "wait_for_request": for_each("requests", NO_TIME),
    "subscriptions": several({}, {"before": 3}, {"limit": 1}),
    "subscription": for_each("subscriptions"),
}
# In this order: what changes little, then what gives up for good.
SHARED: dict[str, Calls] = LOOKS | {
    "add_subscription": several(
        {"types": ["note.*"], "to": "null:a"},
        {"types": ["note.*"], "to": "https://hook.example/x", "description": "mine"},
        {"types": ["note.*"], "to": "nowhere"},
    ),
    "change_subscription": for_each("subscriptions", types=["note.*"], rate="10/s"),
    "test_subscription": for_each("subscriptions"),
    "rotate_secret": for_each("subscriptions"),
    "pause_subscription": for_each("subscriptions", reason=MINE),
    "resume_subscription": for_each("subscriptions", reason=MINE),
    "requeue": for_lists("dead_letters", reason=MINE),
    "replay": for_lists("deliveries", reason=MINE),
    "correct": for_each("deliveries", to="null:c", reason=MINE),
    "cancel": for_lists("deliveries", reason=MINE),
    "attest": for_lists("dead_letters", reason=MINE),
    "discard": for_lists("dead_letters", reason=MINE),
    "remove_subscription": for_each("subscriptions", reason=MINE),
}
ALL_MEMOS = Filter(type="memo.*")
EVIDENCE = {"token": "0" * 40, "outcome": "Delivered", "source": "a file"}

# What operators have besides.
OPERATORS: dict[str, Calls] = {
    "status": once(),
    "payload": for_each("events"),
    "content": for_each("deliveries"),
    "findings_of": for_each("deliveries"),
    "workers": once(),
    "stops": once(),
    "parked": once(),
    "held_back": once(),
    "alerts": once(),
    "backfills": once(),
    "subscription_details": for_each("subscriptions"),
    "operations": once(),
    "operation": for_each("operations"),
    "evidence": several(EVIDENCE),
    "evidence_of": for_each("deliveries"),
    "import_evidence": once("token,outcome\n" + "0" * 40 + ",Delivered\n", source="a file"),
    "instance": once(),
    "messages": once(),
    "message": for_each("messages"),
    "tries_of": for_each("messages"),
    "receipts_of": once("message-1"),
    "grants_sql": once(),
    "preview_operation": once("requeue", ALL_MEMOS),
    "matches": once("requeue", ALL_MEMOS),
    "begin_operation": once("requeue", ALL_MEMOS, reason=MINE),
    "run_operation": for_each("operations"),
    "pause_operation": for_each("operations"),
    "resume_operation": for_each("operations"),
    "cancel_operation": for_each("operations"),
    "stop": once("channel", "sms", reason=MINE),
    "resume": once("destination", "null:h"),
    "reencrypt_secrets": once(),
    "nothing_lost": once(reason=MINE),
    "name_instance": once("blue"),
    "doubt": once(reason=MINE),
    "reconcile": once(),
    "audit": once(since=None),
    "verify": once(),
    "doctor": once(),
    "schema_version": once(),
    "preview_prune": once(),
    "prune": once(reason=MINE),
    "preview_erase": once(subject="ada"),
    "erase": once(subject="ada", reason=MINE),
    "retry_messages": for_lists("messages", reason=MINE),
    "discard_messages": for_lists("messages", reason=MINE),
    "erase_message": once("message-1", reason=MINE),
}


def verbs_of(kind: type) -> set[str]:
    """The verbs of an Admin, each of which has an awaited twin unless it does nothing with the database."""
    return {
        name
        for name, value in vars_of(kind).items()
        if callable(value) and not (name.startswith("a") and callable(vars_of(kind).get(name.removeprefix("a"))))
    }


def vars_of(kind: type) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
