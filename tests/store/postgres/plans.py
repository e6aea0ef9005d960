"""How PostgreSQL would run a query: every step of its plan, with and without knowing the values."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import psycopg
from psycopg.sql import Literal as Value

from sendonce.sql.queries import parameters, with_parameters

Mode: TypeAlias = Literal["force_generic_plan", "force_custom_plan"]
BIG = {
    "sendonce_events",
    "sendonce_deliveries",
    "sendonce_attempts",
    "sendonce_dead_letters",
    "sendonce_requests",
    "sendonce_request_keys",
    "sendonce_recipients",
    "sendonce_receipts",
    "sendonce_messages",
    "sendonce_tries",
    "sendonce_evidence",
}
WHOLE = {
    "sendonce_events_pkey",
    "sendonce_events_key",
    "sendonce_deliveries_pkey",
    "sendonce_deliveries_once",
    "sendonce_attempts_pkey",
    "sendonce_dead_letters_pkey",
    "sendonce_requests_pkey",
    "sendonce_requests_version",
    "sendonce_recipients_pkey",
    "sendonce_dead_letters_delivery_id_key",
    "sendonce_receipts_pkey",
    "sendonce_receipts_age",
    "sendonce_messages_pkey",
    "sendonce_messages_message_id_consumer_generation_key",
    "sendonce_messages_age",
    "sendonce_tries_pkey",
    "sendonce_evidence_pkey",
    "sendonce_evidence_of",
    "sendonce_evidence_age",
}


class Step(NamedTuple):
    """One node of a plan: what it does, to which table, by which index."""

    kind: str
    table: str | None
    via: str | None
    has_condition: bool


class Plan(NamedTuple):
    steps: list[Step]

    @property
    def scanned(self) -> set[str]:
        """What is read from end to end: big tables, and indexes that hold all of a big table's rows."""
        tables = {step.table for step in self.steps if step.kind == "Seq Scan" and step.table in BIG}
        return tables | {step.via for step in self.steps if step.via in WHOLE and not step.has_condition}

    @property
    def indexes(self) -> set[str]:
        """The indexes that are used on the way to rows, and to find out about a key, without our prefix."""
        return {step.via.removeprefix("sendonce_") for step in self.steps if step.via}


def plan_of(url: str, query: str, values: Mapping[str, object], mode: Mode) -> Plan:
    """The plan of a query as it is in the .sql file."""
    names = parameters(query)
    numbered = with_parameters(query, lambda name: f"${names.index(name) + 1}")
    given = ", ".join(Value(values[name]).as_string() for name in names)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"set plan_cache_mode = {mode}".encode())
        connection.execute(f"prepare asked as {numbered}".encode())
        call = f"explain (format json) execute asked{f'({given})' if given else ''}"
        row = connection.execute(call.encode()).fetchone()
    assert row is not None
    plans = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return Plan([step for each in plans for step in _steps(each["Plan"])])


def _steps(node: Mapping[str, Any]) -> Iterator[Step]:
    yield Step(node["Node Type"], node.get("Relation Name"), node.get("Index Name"), "Index Cond" in node)
    for arbiter in node.get("Conflict Arbiter Indexes", ()):
        yield Step("Conflict", node.get("Relation Name"), arbiter, has_condition=True)
    for inner in node.get("Plans", ()):
        yield from _steps(inner)
