"""With a million finished deliveries behind it, every query goes by its index, and a claim stays as cheap as ever.

The queries are asked by the real code, with the values that it gives them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from sendonce import UNIQUE, Draft, Outbox
from sendonce.compose import migrate
from sendonce.domain.outcomes import Delivered
from sendonce.outbox.entries import queries
from sendonce.sql.queries import load, pyformat
from sendonce.store.postgres import claims
from sendonce.store.postgres.connection import QUERIES, Connection, carry_out
from sendonce.store.postgres.settle import settle
from sendonce.store.postgres.store import PostgresStore
from tests.given import given_lease, result, settle_with
from tests.servers.binaries import local_binaries, packaged
from tests.servers.postgres import Server, start
from tests.store.databases import PostgresDatabase
from tests.store.postgres import million
from tests.store.postgres.everything import do_everything, opened, publish
from tests.store.postgres.plans import Mode, plan_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SQL = load("sendonce.store.postgres") | queries("postgres")
NAMES = {text: name for name, text in QUERIES.items()} | {
    pyformat(text): name for name, text in queries("postgres").items()
}

# The index by which each query reaches the big tables, and the small ones that may grow.
EXPECTED = {
    "start": {"deliveries_due", "events_pkey"},
    "start_waiting": {"deliveries_parked", "events_pkey"},
    "lock_waiting": {"deliveries_parked"},
    "rooms": {"deliveries_parked"},
    "forget_breakers": {"deliveries_parked"},
    "start_doubtful": {"deliveries_in_doubt", "events_pkey"},
    "doubt": {"deliveries_pkey", "deliveries_once"},
    "policies_in_step": {"deliveries_pkey"},
    "letters_to_attest": {"dead_letters_pkey"},
    "attest": {"deliveries_pkey"},
    "close_attested": {"dead_letters_pkey"},
    "corrected_deliveries": {"corrections_replaces_key"},
    "to_correct": {"deliveries_pkey", "dead_letters_delivery_id_key", "events_pkey"},
    "add_corrected_content": {"deliveries_pkey"},
    "open_correction": {"deliveries_pkey"},
    "close_corrected": {"dead_letters_delivery_id_key"},
    "move_recipient": {"requests_event", "recipients_pkey"},
    "corrections_of": {"corrections_pkey", "corrections_replaces_key", "deliveries_pkey"},
    "content_of": {"deliveries_pkey", "contents_pkey"},
    "letter_window": {"dead_letters_pkey", "deliveries_pkey", "events_pkey"},
    "replay_window": {"deliveries_pkey", "deliveries_once", "events_pkey"},
    "cancel_window": {"deliveries_pkey", "events_pkey"},
    "letter_bounds": {"dead_letters_pkey"},
    "delivery_bounds": {"deliveries_pkey"},
    "still_open": {"deliveries_pkey", "deliveries_once", "dead_letters_delivery_id_key"},
    "add_findings": {"findings_of"},
    "completed_window": {"deliveries_pkey", "deliveries_once"},
    "delivery_from": {"deliveries_pkey"},
    "left_alone": {"deliveries_in_doubt"},
    "channel_rooms": {"deliveries_parked"},
    "unserved": {"deliveries_parked"},
    "make_due": {"deliveries_pkey"},
    "give_up_unserved": {"deliveries_pkey"},
    "beat": {"attempts_pkey"},
    "notice_loss": {"deliveries_pkey", "events_pkey"},
    "end_loss": {"deliveries_in_doubt"},
    "undoubt": {"deliveries_in_doubt"},
    "orphans": {"deliveries_pkey", "attempts_pkey"},
    "lock_due": {"deliveries_due"},
    "settle": {"attempts_pkey", "deliveries_pkey"},
    "judge": {"attempts_pkey", "deliveries_pkey"},
    "prove": {"deliveries_pkey", "events_key", "deliveries_once"},
    "add_late_result": {"findings_of"},
    "cancel": {"deliveries_pkey"},
    "renew": {"leases_pkey"},
    "expired_leases": {"leases_expiry"},
    "expired_claims": {"attempts_pkey", "deliveries_pkey", "events_pkey"},
    "is_idle": {"deliveries_due", "attempts_pkey"},
    "roll_up_counters": {"counters_pkey"},
    "newest_generations": {"deliveries_pkey", "deliveries_once"},
    "open_generations": {"deliveries_pkey"},
    "close_dead_letters_of": {"dead_letters_delivery_id_key"},
    "discard": {"dead_letters_pkey"},
    "unpark": {"deliveries_parked"},
    "status_counts": {
        "deliveries_due",
        "deliveries_in_doubt",
        "attempts_pkey",
        "dead_letters_waiting",
    },
    "readings": {"deliveries_due", "deliveries_in_doubt", "dead_letters_waiting", "findings_pkey"},
    "open_channels": {"deliveries_due", "deliveries_parked", "deliveries_pkey", "attempts_pkey"},
    "parked_by": {"deliveries_parked"},
    "event_window": {"events_pkey"},
    "event_rows": {"events_pkey"},
    "event_payload": {"events_pkey"},
    "event_ids_of_key": {"events_key"},
    "delivery_window": {"deliveries_pkey"},
    "due_window": {"deliveries_due"},
    "parked_window": {"deliveries_parked"},
    "waiting_in": {"deliveries_parked"},
    "in_flight_ids": {"attempts_pkey"},
    "dead_letter_window": {"dead_letters_delivery_id_key"},
    "delivery_ids_of_event": {"deliveries_once"},
    "delivery_ids_among": {"deliveries_pkey"},
    "generation_ids": {"deliveries_pkey", "deliveries_once"},
    "held_subscription_rooms": {"deliveries_parked"},
    "delivery_rows": {"deliveries_pkey", "events_pkey"},
    "delivery_ids_of_token": {"deliveries_pkey", "events_pkey"},
    "attempts_of": {"attempts_pkey"},
    "lease_of": {"attempts_pkey", "leases_pkey"},
    "findings_of": {"findings_of"},
    "evidence_of": {"evidence_of"},
    "evidence_with_reference": {"evidence_source_reference_key"},
    "same_evidence": {"evidence_of"},
    "evidence_target": {"deliveries_pkey"},
    "doubtful_window": {"deliveries_in_doubt"},
    "deliveries_of_tokens": {"deliveries_pkey", "events_pkey"},
    "deliveries_of_notifications": {"deliveries_pkey"},
    "prove_by_evidence": {"deliveries_pkey"},
    "refuse_by_evidence": {"deliveries_pkey"},
    "open_dead_letter_window": {"dead_letters_open"},
    "dead_letter_id_of": {"dead_letters_delivery_id_key"},
    "dead_letter_rows": {"dead_letters_pkey", "deliveries_pkey", "events_pkey"},
    "request_window": {"requests_pkey"},
    "request_ids_of_subject": {"requests_version"},
    "request_ids_of_key": {"request_keys_pkey"},
    "request_rows": {"requests_pkey", "recipients_pkey", "deliveries_once"},
    "request_state": {"requests_pkey", "recipients_pkey", "deliveries_once"},
    "find_request": {"request_keys_pkey", "requests_pkey", "requests_version"},
    "retention_reached": {"events_pkey"},
    "retention_window": {"events_pkey", "deliveries_once"},
    "ripe_events": {"events_pkey", "deliveries_once", "dead_letters_delivery_id_key"},
    "held_events": {"deliveries_once"},
    "lock_events": {"events_pkey"},
    "deliveries_of_events": {"deliveries_once"},
    "blank_events": {"events_pkey"},
    "delete_attempts": {"attempts_pkey"},
    "delete_dead_letters": {"dead_letters_delivery_id_key"},
    "delete_deliveries": {"deliveries_pkey"},
    "mark_history_gone": {"events_pkey"},
    "delete_events": {"events_pkey"},
    "without_content": {"deliveries_pkey", "events_pkey"},
    "requests_of_events": {"requests_event"},
    "delete_recipients": {"recipients_pkey"},
    "delete_request_keys": {"request_keys_of"},
    "delete_requests": {"requests_pkey"},
    "archive_requests": {"requests_event"},
    "archive_events": {"events_pkey"},
    "archive_deliveries": {"deliveries_pkey"},
    "archive_attempts": {"attempts_pkey"},
    "archive_dead_letters": {"dead_letters_delivery_id_key"},
    "events_to": {"deliveries_pkey"},
    "events_about": {"events_pkey"},
    "erasure_facts": {"events_pkey", "deliveries_once"},
    "erase_contents": {"deliveries_pkey", "contents_pkey"},
    "erase_events": {"events_pkey"},
    "erase_attempts": {"attempts_pkey"},
    "erase_dead_letters": {"dead_letters_delivery_id_key"},
    "undelivered_places": {"deliveries_due", "deliveries_parked", "dead_letters_open"},
    "undelivered_ids": {"deliveries_pkey", "events_pkey"},
    "count_removed": {"deliveries_pkey"},
    "oldest_due": {"deliveries_due"},
    "send_times": {"attempts_pkey"},
    "event_span": {"events_pkey", "deliveries_once"},
    "delivery_span": {"deliveries_pkey"},
    "request_span": {"requests_pkey"},
    "verify_routed": {"events_pkey", "deliveries_once"},
    "count_unrouted": {"events_pkey"},
    "verify_contents": {"contents_pkey", "deliveries_once"},
    "verify_events": {"deliveries_pkey", "events_pkey"},
    "verify_content": {"deliveries_pkey", "contents_pkey"},
    "verify_history": {"attempts_pkey", "deliveries_pkey"},
    "verify_attempts": {"deliveries_pkey", "attempts_pkey"},
    "verify_leased": {"deliveries_pkey", "attempts_pkey"},
    "verify_waiting": {"deliveries_pkey"},
    "verify_parked": {"deliveries_pkey"},
    "verify_expired": {"deliveries_pkey"},
    "verify_generations": {"deliveries_pkey", "deliveries_once"},
    "verify_dead_letters": {"deliveries_pkey", "dead_letters_delivery_id_key"},
    "verify_decided": {"dead_letters_delivery_id_key", "deliveries_pkey", "deliveries_once"},
    "verify_corrections": {"corrections_pkey", "deliveries_pkey"},
    "verify_outcomes": {"deliveries_pkey", "attempts_pkey"},
    "verify_ended": {"deliveries_pkey", "attempts_pkey", "dead_letters_delivery_id_key"},
    "verify_doubt": {"deliveries_pkey", "attempts_pkey", "deliveries_once"},
    "verify_ids": {"deliveries_pkey", "attempts_pkey"},
    "verify_tokens": {"deliveries_pkey", "events_pkey"},
    "tally_ended": {"deliveries_pkey"},
    "verify_requests": {"requests_pkey", "events_pkey", "recipients_pkey", "deliveries_once"},
    "verify_request_parts": {"recipients_pkey", "request_keys_of", "requests_pkey"},
    "record_event": {"events_key", "subscription_types_pkey"},
    "record_events": {"events_key"},
    "find_events": {"events_key"},
    "event_at": {"events_pkey"},
    "request_at": {"requests_pkey"},
    "delivery_at": {"deliveries_pkey"},
    "dead_letter_at": {"dead_letters_pkey"},
    "waiting_dead_letter_window": set(),  # by its own index, or by that of all open ones
    "given_up": {"dead_letters_pkey", "deliveries_pkey", "events_pkey"},
    "last_of_step": {"deliveries_pkey"},
    "has_receipt": {"receipts_pkey"},
    "newest_message": {"messages_message_id_consumer_generation_key"},
    "due_messages": {"messages_due", "messages_pkey"},
    "see_message": {"messages_pkey"},
    "begin_message_again": {"messages_pkey"},
    "fail_message": {"messages_pkey"},
    "complete_message": {"messages_pkey"},
    "hold_messages": {"messages_pkey"},
    "return_messages": {"messages_pkey"},
    "end_try": {"tries_pkey"},
    "lose_tries": {"tries_pkey"},
    "message_window": {"messages_pkey"},
    "dead_message_ids": {"messages_dead"},
    "message_ids_called": {"messages_message_id_consumer_generation_key"},
    "message_rows": {"messages_pkey"},
    "message_at": {"messages_pkey"},
    "tries_of": {"tries_pkey"},
    "receipts_of": {"receipts_pkey"},
    "inbox_counts": {"messages_due", "messages_dead"},
    "lock_messages": {"messages_pkey"},
    "close_messages": {"messages_pkey"},
    "cancel_messages": {"messages_pkey"},
    "reopen_messages": {"messages_pkey"},
    "blank_messages": {"messages_pkey"},
    "blank_tries": {"tries_pkey"},
    "blank_receipts": {"receipts_pkey"},
    "old_contents": {"messages_content"},
    "old_messages": {"messages_age"},
    "drop_tries": {"tries_pkey"},
    "drop_messages": {"messages_pkey"},
    "drop_old_receipts": {"receipts_age", "messages_message_id_consumer_generation_key"},
    "drop_old_evidence": {"evidence_age", "evidence_pkey"},
    "message_span": {"messages_pkey"},
    "verify_handled": {"messages_pkey", "receipts_pkey"},
    "verify_message_generations": {"messages_pkey", "messages_message_id_consumer_generation_key"},
    "verify_tries": {"tries_pkey", "messages_pkey"},
}
# These touch small tables only, or do not read at all.
SMALL = {
    "add_evidence",
    "bury_by_evidence",
    "count_by_evidence",
    "add_cancelled",
    "add_unserved",
    "count",
    "insert_message",
    "begin_try",
    "add_correction",
    "take_audit",
    "keep_audit",
    "end_audit",
    "read_snapshot",
    "server_settings",
    "careless_defaults",
    "vacuum_holders",
    "table_health",
    "missing_rights",
    "current_role",
    "verify_facts",
    "lease_span",
    "operation_span",
    "verify_lease_ends",
    "verify_lease_expiry",
    "verify_lease_use",
    "verify_operations",
    # Ask a function, whose plan is not seen from outside.
    "verify_payloads",
    "verify_digests",
    "found_rules",
    "begin_operation",
    "lock_operation",
    "move_operation",
    "set_operation_state",
    "operation_window",
    "operation_at",
    "operation_rows",
    "register",
    "noticed_since",
    "leave",
    "release",
    "log_operation",
    "stop",
    "lift_stop",
    "park",
    "lock_deliveries",
    "held_requests",
    "add_subscription",
    "add_subscription_types",
    "set_subscription_state",
    "breaker",
    "clock",
    "add_breaker",
    "set_breaker",
    "drop_breaker",
    "add_bucket",
    "take_tokens",
    "give_back_tokens",
    "set_subscription_rate",
    "set_subscription_policy",
    "set_subscription_ask",
    "tenant_of_subscription",
    "add_test_event",
    "add_test_delivery",
    "touch_subscription",
    "disable_subscription",
    "secrets_of",
    "kept_secrets",
    "add_secret",
    "end_secrets",
    "drop_ended_secrets",
    "secret_window",
    "reseal_secret",
    "remove_subscription_types",
    "loss_to_mark",
    "bind_secrets",
    "served",
    "strangers",
    "loss_marked",
    "disprove_loss",
    "open_loss",
    "instance",
    "set_instance",
    "drop_instance",
    "server",
    "fence",
    "schema_version",
    "backfill",
    "set_backfill",
    "close_backfill",
    "backfills",
    "namespace",
    "live_workers",
    "eldest_worker",
    "stops",
    "tell_alert",
    "note_alert",
    "clear_alert",
    "alerts",
    "subscription_window",
    "subscription_at",
    "subscription_rows",
    "take_turn",
    "keep_turn",
    "end_turn",
    "pass_by",
    "blank_contents",
    "delete_contents",
    "delete_corrections",
    "archive_contents",
    "archive_findings",
    "delete_findings",
    "erase_findings",
    "drop_all_ended_secrets",
    "drop_old_workers",
    "drop_old_operations",
    "log_upkeep",
    "fail_as_conflict",
    "wait_for_turn",
    "add_request",
    "add_request_key",
}

Asked = dict[str, list[Mapping[str, object]]]


@pytest.fixture(scope="module")
def long_history(postgres_server: Server, postgres_template: str) -> Iterator[str]:
    name = postgres_server.create_database(template=postgres_template)
    million.fill(postgres_server.dsn(name))
    yield postgres_server.dsn(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def no_history(postgres_server: Server, postgres_template: str) -> Iterator[str]:
    """The same present, with nothing finished behind it."""
    name = postgres_server.create_database(template=postgres_template)
    million.fill(postgres_server.dsn(name), finished=0)
    yield postgres_server.dsn(name)
    postgres_server.drop_database(name)


@pytest_asyncio.fixture
async def store(long_history: str) -> AsyncIterator[PostgresStore]:
    async with opened(long_history) as store:
        yield store


@pytest.fixture(scope="module")
def asked(long_history: str) -> Asked:
    """Every query that the code has asked while it did everything it can do, with all the values it gave."""
    seen: Asked = {}

    def note(query: object, values: Mapping[str, object] | None) -> None:
        name = NAMES.get(query) if isinstance(query, str) else None
        if name is not None:
            seen.setdefault(name, []).append(dict(values or {}))

    ask = psycopg.AsyncConnection.execute

    async def noting(self: Any, query: Any, values: Any = None, **options: Any) -> Any:
        note(query, values)
        return await ask(self, query, values, **options)

    class Noting(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            note(query, params)
            return super().execute(query, params, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.AsyncConnection, "execute", noting)
        asyncio.run(do_everything(long_history))
    with psycopg.connect(long_history, cursor_factory=Noting) as connection:
        publish(connection)
    return seen


def test_W18_query_is_asked_and_looked_at(asked: Asked) -> None:
    assert EXPECTED.keys() | SMALL == {name for name, text in SQL.items() if text}
    assert EXPECTED.keys() <= asked.keys()


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_W18_at_a_million_deliveries_every_query_goes_by_its_index(long_history: str, asked: Asked, mode: Mode) -> None:
    scanned: dict[str, set[str]] = {}
    missing: dict[str, set[str]] = {}
    for name, indexes in EXPECTED.items():
        for values in asked[name][:6]:
            plan = plan_of(long_history, SQL[name], values, mode)
            scanned[name] = scanned.get(name, set()) | plan.scanned
            missing[name] = missing.get(name, set()) | (indexes - plan.indexes)

    assert {name: tables for name, tables in scanned.items() if tables} == {}
    assert {name: indexes for name, indexes in missing.items() if indexes} == {}


@pytest.fixture
def quiet_database() -> Iterator[PostgresDatabase]:
    """On a server of its own: transactions of others, in any database, hold on to what must make room."""
    server = start(local_binaries() or packaged(16), settings={"autovacuum": "off"})
    try:
        url = server.dsn(server.create_database())
        migrate(url)
        yield PostgresDatabase(url)
    finally:
        server.stop()


async def test_W18_settle_writes_no_index(quiet_database: PostgresDatabase) -> None:
    store = await PostgresStore.connect(quiet_database.url)
    seen = [await updates_of_a_settle(quiet_database, store) for _ in range(3)]

    await store.close()
    assert {"attempts": [500, 500], "deliveries": [500, 500]} in seen


async def updates_of_a_settle(database: PostgresDatabase, store: PostgresStore) -> dict[str, list[int]]:
    """How many rows a settle of 500 has changed in each table, and how many of them in their place."""
    with database.connection() as connection:
        Outbox().publish_many(connection, [Draft("memo.created", {}, key=UNIQUE, to="null:a") for _ in range(500)])
    lease = await given_lease(store, limit=500)
    results = [result(lease, Delivered(f"n-{n}"), of=n) for n in range(500)]
    async with store.results.transaction() as settling:
        before = await updates_on(settling)
        await carry_out(settling, settle(results))
        after = await updates_on(settling)
    return {
        table: [now - then for now, then in zip(counts, before.get(table, [0, 0]), strict=True)]
        for table, counts in after.items()
    }


async def updates_on(connection: Connection) -> dict[str, list[int]]:
    """What this connection has counted and not handed in yet, of transactions before this one too."""
    cursor = await connection.execute(
        "select relname, n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where n_tup_upd > 0"
    )
    return {name.removeprefix("sendonce_"): counts for name, *counts in await cursor.fetchall()}


async def blocks_read(store: PostgresStore) -> int:
    """The blocks of our tables and indexes that claims have asked for until now."""
    async with store.claims.connection() as connection:
        await connection.execute("select pg_stat_force_next_flush()")
    async with store.people.connection() as connection:
        cursor = await connection.execute(
            "select sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::int from pg_statio_user_tables"
        )
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def blocks_of_a_claim(store: PostgresStore) -> int:
    before = await blocks_read(store)
    lease = await given_lease(store, limit=100)
    after = await blocks_read(store)
    assert len(lease.claims) == 100
    await settle_with(store, lease, Delivered())
    return after - before


async def test_W18_claim_reads_no_more_with_a_million_behind_it(
    long_history: str, no_history: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "FULL_SCAN_SECONDS", 3600)
    async with opened(no_history) as empty, opened(long_history) as full:
        for store in (empty, full):
            await given_lease(store, limit=100)
        little, much = await blocks_of_a_claim(empty), await blocks_of_a_claim(full)

    assert much <= 1.2 * little


async def test_W18_claim_reads_no_more_under_an_old_snapshot(
    long_history: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "FULL_SCAN_SECONDS", 3600)
    async with opened(long_history) as store:
        await given_lease(store, limit=100)
        before = await blocks_of_a_claim(store)
        with psycopg.connect(long_history) as old:
            old.execute("set transaction isolation level repeatable read")
            old.execute("select count(*) from sendonce_meta")
            for _ in range(20):
                await settle_with(store, await given_lease(store, limit=1000), Delivered())

            after = await blocks_of_a_claim(store)

    assert after <= 1.2 * before
