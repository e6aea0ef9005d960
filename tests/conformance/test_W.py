"""W1 to W18 on both databases: through the webhook application, its API, its view and its worker.

What takes a hand in the worker's place (a result twice, a job that must not be made) is done on the stores; what is
about rights, under the printed roles.
"""

import inspect
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from psycopg import errors

from apps.serving import prepare
from apps.webhooks.keys import MIGRATIONS
from sendonce.channels.registry import Channels
from sendonce.domain.attempts import Report, Verdict
from sendonce.domain.outcomes import Delivered, Failed, Refused
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.sql.queries import load
from sendonce.store.ports import Store
from sendonce.store.postgres.grants import ROLES
from tests.conformance.sagas import ALLOWED, FORBIDDEN, MOVING, Only, Sealed, given_history, given_sagas, moving_files
from tests.conformance.webhooking import DEFAULT_LIMIT, REFUSED, SAGA, Tenant, Webhooks, moment
from tests.given import HOLD, POLICY, WORKER, given_lease, result, settle_with
from tests.processes import ROOT, until
from tests.store.conftest import store
from tests.store.databases import Database, PostgresDatabase
from tests.store.postgres.plans import Mode, plan_of
from tests.store.postgres.roles import Roles

__all__ = ["store"]

pytestmark = pytest.mark.slow

MODES: tuple[Mode, ...] = ("force_generic_plan", "force_custom_plan")


def test_W1_view_has_the_columns_of_a_saga_and_its_times_are_utc(webhooks: Webhooks, tenant: Tenant) -> None:
    endpoint_id = tenant.endpoint()
    tenant.behave(fail="503:first:1", retry_after="60s")
    event_id = tenant.publish()
    delivery = tenant.waiting(event_id)

    saga = webhooks.saga(delivery["id"])

    assert list(saga) == SAGA
    assert (saga["event_id"], saga["subscription_id"], saga["status"]) == (event_id, endpoint_id, "PendingRetry")
    assert (saga["attempt_count"], saga["final_error_code"]) == (1, "http_503")
    times = [moment(saga[name]) for name in ("created_at", "updated_at", "next_attempt_at")]
    assert all(each.utcoffset() == timedelta(0) for each in times)
    assert times == sorted(times)
    assert abs(datetime.now(UTC) - times[1]) < timedelta(minutes=1)
    assert timedelta(seconds=55) < times[2] - times[1] < timedelta(seconds=65)


def test_W1_what_has_ended_has_no_next_time(webhooks: Webhooks, tenant: Tenant) -> None:
    tenant.endpoint()
    [delivery] = tenant.ended(tenant.publish())

    saga = webhooks.saga(delivery["id"])

    assert (saga["status"], saga["next_attempt_at"]) == ("Completed", None)


def test_W2_database_refuses_a_second_saga_for_a_pair(webhooks: Webhooks, tenant: Tenant) -> None:
    tenant.endpoint()
    [delivery] = tenant.ended(tenant.publish())

    with pytest.raises(REFUSED):
        webhooks.database.execute(
            "insert into sendonce_deliveries (event_id, subscription_id, created_at, updated_at, next_attempt_at,"
            " destination, destination_hash)"
            " select event_id, subscription_id, created_at, updated_at, created_at, destination, destination_hash"
            " from sendonce_deliveries where id = ?",
            delivery["id"],
        )


def test_W3_same_event_makes_one_saga_for_each_endpoint_however_it_matches(tenant: Tenant) -> None:
    tenant.endpoint("a", "order.paid", "order.*", "*")
    tenant.endpoint("b")
    event = {"type": "order.paid", "key": "order-1", "payload": {"order": 1}}

    answers = [tenant.call("POST", "/events", event) for _ in range(3)]

    assert [answer.status for answer in answers] == [201, 200, 200]
    assert [answer.body["deliveries"] for answer in answers] == [2, 0, 0]
    assert len({answer.body["id"] for answer in answers}) == 1
    tenant.ended(answers[0].body["id"])
    assert tenant.counts() == {f"{tenant.path}/a": 1, f"{tenant.path}/b": 1}


async def test_W4_W12_same_result_twice_changes_the_saga_once(database: Database, store: Store) -> None:
    [delivery_id] = await given_sagas(database, store)
    lease = await given_lease(store)
    failed = result(lease, Failed("http_503"))

    first = await store.settle([failed])
    once = database.rows("deliveries")
    second = await store.settle([failed, failed])

    assert (first, second) == ([Verdict.APPLIED], [Verdict.ALREADY_APPLIED] * 2)
    assert database.rows("deliveries") == once
    assert [(row["id"], row["attempt_count"]) for row in once] == [(delivery_id, 1)]


def test_W5_no_move_is_possible_but_those_drawn(webhooks: Webhooks, tenant: Tenant) -> None:
    """From every state that a delivery can be in while the application runs, each move that is not drawn."""
    endpoint_id = tenant.endpoint("held")
    tenant.post(f"/endpoints/{endpoint_id}/pause")
    pending = tenant.delivery(tenant.publish("held"))["id"]
    tenant.call("DELETE", f"/endpoints/{tenant.endpoint('none')}")
    tenant.endpoint("later", "later.*", retry_limit=2)
    tenant.behave("later", fail="503", retry_after="60s")
    retrying = tenant.waiting(tenant.publish("later", "later.paid"))["id"]
    tenant.endpoint("done", "done.*")
    [done] = tenant.ended(tenant.publish("done", "done.paid"))

    refused = {pending: ["Completed", "PendingRetry"], retrying: ["Completed", "Pending"], done["id"]: ["Pending"]}
    for delivery_id, states in refused.items():
        before = webhooks.saga(delivery_id)
        for state in [*states, "Sent"]:
            with pytest.raises(REFUSED):
                webhooks.database.execute(
                    "update sendonce_deliveries set status = ?, next_attempt_at = null, parked_on = null where id = ?",
                    state,
                    delivery_id,
                )
        assert webhooks.saga(delivery_id) == before


@pytest.mark.parametrize("database_name", ["postgres", "sqlite"])
def test_W6_in_code_only_the_orchestrators_statements_move_a_saga_or_make_a_job(database_name: str) -> None:
    """They stand in its own files of queries, and of the engine only its module asks the store for them."""
    engine = {path: path.read_text("utf-8") for path in (ROOT / "src/sendonce/engine").glob("*.py")}
    asking = {path.name for path, code in engine.items() if re.search(r"store\.(start\w*|settle|cancel)\(", code)}

    assert moving_files(database_name) == {"claims.sql", "settle.sql"}
    assert asking == {"orchestrator.py"}


@pytest.mark.parametrize("role", [role for role in ROLES if role != "orchestrator"])
def test_W6_in_the_database_only_the_orchestrator_may_move_a_saga_or_make_a_job(
    roles: Roles, saga: PostgresDatabase, role: str
) -> None:
    seen = roles.under(saga.url, role)

    for statement in MOVING:
        with pytest.raises(errors.InsufficientPrivilege):
            seen.execute(statement)


async def test_W7_orchestrator_decides_and_never_sends_nor_looks_into_a_payload(
    database: Database, store: Store
) -> None:
    """It gets the store's verbs for sagas and jobs and no others, and of channels it may ask one thing."""
    await given_sagas(database, store, 3)
    verbs, asking = Only(store, "start", "settle"), Only(Channels(), "can_look_up")
    orchestrator = Orchestrator(cast(Any, verbs), Policies(POLICY), cast(Any, asking))

    started = await orchestrator.start(WORKER, 10, HOLD)
    assert started.lease is not None
    outcomes = (Delivered("n"), Failed("http_503"), Refused("http_410"))
    claims = [claim._replace(payload=Sealed("secret")) for claim in started.lease.claims]
    reports = [Report(claim, started.lease.id, outcomes[n]) for n, claim in enumerate(claims)]
    verdicts = await orchestrator.settle(orchestrator.decide(reports))

    assert verdicts == [Verdict.APPLIED] * 3
    assert [row["status"] for row in database.rows("deliveries")] == ["Completed", "PendingRetry", "DeadLettered"]
    assert [row["attempt_count"] for row in database.rows("deliveries")] == [1, 1, 1]
    assert len(database.rows("dead_letters")) == 1
    code = inspect.getsource(Orchestrator)
    code = code.replace("is_subscription=claim.subscription_id is not None", "")
    code = re.sub(r"\bcan_look_up\(\s*claim\b", "", code)
    assert not re.search(r"payload|\.send\(|look_up\(|aiohttp|renew|release|expire|subscription|event", code)


def test_W7_W17_orchestrators_role_touches_no_event_subscription_or_lease_and_deletes_nothing(
    roles: Roles, saga: PostgresDatabase
) -> None:
    seen = roles.under(saga.url, "orchestrator")
    for statement in ALLOWED:
        seen.execute(statement)

    for statement in FORBIDDEN:
        with pytest.raises(errors.InsufficientPrivilege):
            seen.execute(statement)


def test_W8_saga_has_one_active_job_and_finished_ones_are_kept(webhooks: Webhooks, tenant: Tenant) -> None:
    tenant.endpoint()
    tenant.behave(fail="503:first:1", late="5s")
    event_id = tenant.publish()
    delivery_id = tenant.delivery(event_id)["id"]
    until(lambda: webhooks.jobs(delivery_id)[1:] == ["Leased"], "the second attempt")

    with pytest.raises(REFUSED):
        webhooks.database.execute(
            "insert into sendonce_attempts (delivery_id, lease_id, created_at, attempt, status)"
            " select delivery_id, lease_id, created_at, 3, 'Leased' from sendonce_attempts"
            " where delivery_id = ? and attempt = 2",
            delivery_id,
        )
    tenant.ended(event_id)

    assert webhooks.jobs(delivery_id) == ["Failed", "Completed"]
    with pytest.raises(REFUSED):
        webhooks.database.execute(
            "update sendonce_attempts set status = 'Leased', outcome = null, finished_at = null where delivery_id = ?",
            delivery_id,
        )


async def test_W9_job_is_made_when_it_is_due_and_never_after_the_end(database: Database, store: Store) -> None:
    [delivery_id] = await given_sagas(database, store)

    async def claimed() -> list[int]:
        lease = (await store.start(WORKER, 10, HOLD)).lease
        return [] if lease is None else [claim.delivery_id for claim in lease.claims]

    lease = await given_lease(store)
    while_active = await claimed()
    await settle_with(store, lease, Failed("http_503"))
    too_early = await claimed()
    database.advance(timedelta(seconds=11))
    lease = await given_lease(store)
    await settle_with(store, lease, Refused("http_410"))
    database.advance(timedelta(days=400))

    assert (while_active, too_early, await claimed()) == ([], [], [])
    assert [claim.delivery_id for claim in lease.claims] == [delivery_id]


async def test_W10_W13_wait_doubles_up_to_its_cap_and_is_the_documented_one(database: Database, store: Store) -> None:
    policy = replace(POLICY, max_attempts=6, first_delay=timedelta(seconds=10), longest_delay=timedelta(seconds=60))
    [delivery_id] = await given_sagas(database, store)
    waits = []
    for _ in range(5):
        await settle_with(store, await given_lease(store), Failed("http_503"), policy)
        row = await store.delivery(delivery_id)
        assert row is not None
        assert row.next_attempt_at is not None
        waits.append((row.next_attempt_at - row.updated_at).total_seconds())
        database.advance(timedelta(seconds=61))
    await settle_with(store, await given_lease(store), Failed("http_503"), policy)

    assert waits == [10, 20, 40, 60, 60]
    assert "min(longest_delay, first_delay · 2^(n−1))" in (ROOT / "docs/about/how-it-works.md").read_text("utf-8")
    assert [row["status"] for row in database.rows("deliveries")] == ["DeadLettered"]


def test_W11_limit_is_the_settings_default_unless_the_endpoint_has_its_own(tenant: Tenant) -> None:
    limits = {None: DEFAULT_LIMIT, 2: 2, 6: 6}
    places = {tenant.endpoint(f"limit-{limit}", retry_limit=limit): limits[limit] for limit in limits}
    for limit in limits:
        tenant.behave(f"limit-{limit}", fail="503")

    rows = tenant.ended(tenant.publish())

    assert {row["endpoint_id"]: row["attempt_count"] for row in rows} == places
    assert {row["status"] for row in rows} == {"DeadLettered"}
    assert tenant.counts() == {}


def test_W11_limit_that_is_changed_holds_for_what_waits(tenant: Tenant) -> None:
    endpoint_id = tenant.endpoint(retry_limit=1)
    tenant.post(f"/endpoints/{endpoint_id}/pause")
    tenant.behave(fail="503")
    event_id = tenant.publish()

    changed = tenant.call("PATCH", f"/endpoints/{endpoint_id}", {"retry_limit": 3})
    tenant.post(f"/endpoints/{endpoint_id}/resume")
    [row] = tenant.ended(event_id)
    default = tenant.call("PATCH", f"/endpoints/{endpoint_id}", {"retry_limit": None})

    assert (changed.body["retry_limit"], row["attempt_count"]) == (3, 3)
    assert default.body["retry_limit"] is None
    assert default.body["event_types"] == ["order.*"]


def test_W12_W14_result_is_counted_once_and_success_keeps_the_last_error(webhooks: Webhooks, tenant: Tenant) -> None:
    tenant.endpoint()
    tenant.behave(fail="503:first:2")

    [row] = tenant.ended(tenant.publish())

    story = tenant.get(f"/deliveries/{row['id']}")
    assert (row["status"], row["attempt_count"], row["last_error"]) == ("Completed", 3, "http_503")
    assert [each["outcome"] for each in story["attempts"]] == ["Failed", "Failed", "Delivered"]
    assert webhooks.provider.totals(tenant.path)["requests"] == 3
    assert webhooks.saga(row["id"])["final_error_code"] == "http_503"
    assert any("nothing more happens" in sentence for sentence in story["explanation"])


def test_W13_failure_waits_with_its_error_and_the_last_one_is_a_dead_letter_at_the_same_time(
    webhooks: Webhooks, tenant: Tenant
) -> None:
    tenant.endpoint(retry_limit=2)
    tenant.behave(fail="408", retry_after="60s")
    event_id = tenant.publish()
    first = tenant.waiting(event_id)
    webhooks.database.execute("update sendonce_deliveries set next_attempt_at = created_at where id = ?", first["id"])

    [last] = tenant.ended(event_id)

    assert (first["attempt_count"], first["last_error"]) == (1, "http_408")
    assert moment(first["next_attempt_at"]) > moment(first["updated_at"])
    assert (last["status"], last["attempt_count"], last["next_attempt_at"]) == ("DeadLettered", 2, None)
    [letter] = webhooks.database.execute(
        "select z.reason, z.error_code from sendonce_dead_letters z join sendonce_deliveries d"
        " on d.id = z.delivery_id and d.updated_at = z.created_at where d.id = ?",
        last["id"],
    )
    assert letter == ("exhausted", "http_408")


def test_W15_what_has_ended_refuses_any_update_of_any_column(webhooks: Webhooks, tenant: Tenant) -> None:
    tenant.endpoint("good")
    tenant.endpoint("bad")
    tenant.behave("bad", fail="422")
    ended = tenant.ended(tenant.publish())
    columns = list(webhooks.database.rows("deliveries")[0])

    assert sorted(row["status"] for row in ended) == ["Completed", "DeadLettered"]
    for row in ended:
        before = webhooks.saga(row["id"])
        for column in [name for name in columns if name != "id"]:
            with pytest.raises(REFUSED):
                webhooks.database.execute(f"update sendonce_deliveries set {column} = {column} where id = ?", row["id"])
        assert webhooks.saga(row["id"]) == before


def test_W16_requeued_dead_letter_is_a_new_saga_and_the_old_one_stays(webhooks: Webhooks, tenant: Tenant) -> None:
    tenant.endpoint(retry_limit=1)
    tenant.behave(fail="503")
    event_id = tenant.publish()
    [old] = tenant.ended(event_id)
    before = webhooks.saga(old["id"])
    tenant.behave(fail=None)
    letter_id = tenant.letter(old["id"])

    [new_id] = tenant.post("/dead-letters/requeue", {"ids": [letter_id], "reason": "it is back"})["delivery_ids"]
    [kept, new] = tenant.ended(event_id)

    assert webhooks.saga(old["id"]) == before
    assert (kept["id"], kept["status"], kept["generation"]) == (old["id"], "DeadLettered", 0)
    assert (new["id"], new["status"], new["generation"], new["attempt_count"]) == (new_id, "Completed", 1, 1)
    assert webhooks.saga(new_id)["subscription_id"] == before["subscription_id"]
    assert tenant.get("/dead-letters") == []
    again = tenant.call("POST", "/dead-letters/requeue", {"ids": [letter_id], "reason": "twice"})
    assert (again.status, tenant.counts()) == (409, {f"{tenant.path}/a": 1})


async def test_W16_new_saga_is_pending_with_no_attempt_and_due_now(database: Database, store: Store) -> None:
    [delivery_id] = await given_sagas(database, store)
    await settle_with(store, await given_lease(store), Refused("http_410"))
    old = database.rows("deliveries")

    await store.open_generations([delivery_id], kind="requeue", operator="ada", reason="back")

    kept, new = database.rows("deliveries")
    assert [kept] == old
    assert (new["status"], new["attempt_count"], new["generation"]) == ("Pending", 0, 1)
    [claim] = (await given_lease(store)).claims
    assert claim.delivery_id == new["id"]


def test_W2_W18_no_query_of_the_application_scans_a_table(pg_dsn: str) -> None:
    """Behind 20,000 sagas. Every query, at a million and on SQLite: the two test_plans.py."""
    prepare(pg_dsn, MIGRATIONS)
    given_history(PostgresDatabase(pg_dsn))
    sagas = "select id from webhook_delivery_sagas where"
    queries = load("sendonce.store.postgres") | {
        "pair": f"{sagas} event_id = 17 and subscription_id = 18",
        "due": f"{sagas} next_attempt_at <= now() order by next_attempt_at limit 10",
    }
    asked: dict[str, dict[str, object]] = {
        "pair": {},
        "due": {},
        "undelivered_places": {"window": 100},
        "undelivered_ids": {"ids": list(range(1, 51)), "tenant": "acme", "limit": 50},
        "delivery_ids_of_event": {"event_id": 17, "window": 100},
        "open_dead_letter_window": {"before_at": datetime.now(UTC), "before_id": 1, "window": 10},
    }

    for mode in MODES:
        plans = {name: plan_of(pg_dsn, queries[name], values, mode) for name, values in asked.items()}
        assert {name: plan.scanned for name, plan in plans.items() if plan.scanned} == {}
        assert "deliveries_due" in plans["due"].indexes
        assert "deliveries_once" in plans["pair"].indexes
