"""Each role can do exactly its job, with the real code, when the printed rights are granted."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

import psycopg
import pytest
import pytest_asyncio

from sendonce.domain.attempts import Verdict
from sendonce.domain.emails import Email
from sendonce.domain.evidence import Evidence, Told
from sendonce.domain.outcomes import Delivered, Failed, Refused, Unknown
from sendonce.domain.policies import IfUnsure
from sendonce.errors import ConfigError, KeyReused, StoreError
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from sendonce.store.postgres import grants
from tests.given import HOLD, POLICY, WORKER, expire, given_due_delivery, given_event, given_lease, result, settle_with
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.roles import KEEPER, WITNESS, Roles, granted_roles, subscribe

Under: TypeAlias = Callable[[str], PostgresDatabase]
S = timedelta(seconds=1)
LETTER = Email("ada@example.com", subject="Hello", text="Dear Ada")


@pytest.fixture(scope="module")
def roles(postgres_server: Server, postgres_template: str) -> Iterator[Roles]:
    with granted_roles(postgres_server, postgres_template) as roles:
        yield roles


@pytest.fixture
def database(roles: Roles) -> Iterator[PostgresDatabase]:
    with roles.database() as database:
        yield database


@pytest_asyncio.fixture
async def under(roles: Roles, database: PostgresDatabase) -> AsyncIterator[Under]:
    """The test's database as a role sees it."""
    seen: dict[str, PostgresDatabase] = {}

    def as_role(role: str) -> PostgresDatabase:
        return seen.setdefault(role, roles.under(database.url, role))

    yield as_role
    for each in seen.values():
        await each.close()


async def test_M10_app_records_events_with_contents_and_subscriptions(database: PostgresDatabase, under: Under) -> None:
    subscribe(database, "memo.*")
    with under("app").connection() as connection:
        outbox = Outbox(notify=True)
        first = outbox.publish(connection, "memo.created", {"memo": 1}, key="memo-1", to=["null:a", LETTER])
        again = outbox.publish(connection, "memo.created", {"memo": 1}, key="memo-1", to=["null:a", LETTER])

        with pytest.raises(KeyReused):
            outbox.publish(connection, "memo.created", {"memo": 2}, key="memo-1", to="null:a")

    assert (first.duplicate, first.deliveries) == (False, 3)
    assert (again.event_id, again.duplicate, again.deliveries) == (first.event_id, True, 0)
    assert database.one("select count(*) from sendonce_contents where content is not null") == 1


async def test_M10_app_records_batches_with_duplicates(database: PostgresDatabase, under: Under) -> None:
    subscribe(database, "memo.created")
    drafts = [Draft("memo.created", {"memo": n}, key=f"memo-{n}", to=["null:a", LETTER]) for n in range(3)]
    with under("app").connection() as connection:
        outbox = Outbox()
        first = outbox.publish_many(connection, drafts)
        again = outbox.publish_many(connection, [*drafts, Draft("memo.created", {}, key="other", to=None)])

    assert [each.deliveries for each in first] == [3, 3, 3]
    assert [each.duplicate for each in again] == [True, True, True, False]
    assert database.one("select count(*) from sendonce_deliveries") == 10


async def test_M10_app_waits_for_a_racing_twin(database: PostgresDatabase, under: Under) -> None:
    def publish() -> bool:
        with under("app").connection() as connection:
            return Outbox().publish(connection, "memo.created", {}, key="one", to="null:a").duplicate

    duplicates = await asyncio.gather(*(asyncio.to_thread(publish) for _ in range(8)))

    assert sorted(duplicates) == [False] + [True] * 7
    assert database.one("select count(*) from sendonce_deliveries") == 1


async def test_W17_orchestrator_starts_settles_and_gives_up(database: PostgresDatabase, under: Under) -> None:
    store = await under("orchestrator").open()
    given_due_delivery(database, to=LETTER)
    for _ in range(2):
        given_due_delivery(database)

    lease = await given_lease(store)
    verdicts = await store.settle(
        [result(lease, Delivered("n")), result(lease, Failed("503"), of=1), result(lease, Refused("410"), of=2)]
    )

    assert "Dear Ada" in (lease.claims[0].content or "")
    assert verdicts == [Verdict.APPLIED] * 3
    assert [row["status"] for row in database.rows("deliveries")] == ["Completed", "PendingRetry", "DeadLettered"]


async def test_W17_orchestrator_keeps_late_results_as_evidence(database: PostgresDatabase, under: Under) -> None:
    store = await under("orchestrator").open()
    keeper = await under(KEEPER).open()
    given_due_delivery(database)
    lease = await given_lease(store)
    database.advance(HOLD + S)
    await expire(keeper)

    late = await settle_with(store, lease, Delivered("n-7"))
    again = await settle_with(store, lease, Delivered("n-7"))
    other = await settle_with(store, lease, Refused("410"))

    assert late + again + other == [Verdict.LATE] * 3
    assert [row["kind"] for row in database.rows("findings")] == ["late_proof", "late_result"]
    assert database.one("select proven_at is not null from sendonce_deliveries") is True


async def test_W17_orchestrator_parks_what_it_may_not_change(database: PostgresDatabase, under: Under) -> None:
    store = await under("orchestrator").open()
    paused = subscribe(database, "memo.created", state="paused")
    given_event(database)
    given_due_delivery(database, to="mailto:ada@example.com", type="other.type")
    database.execute("insert into sendonce_stops (scope, value, operator) values ('channel', 'mailto', 'ada')")

    started = await store.start(WORKER, 10, HOLD)

    assert (started.lease, started.parked) == (None, 2)
    parked = database.execute("select parked_on from sendonce_deliveries order by id")
    assert parked == [(f"subscription:{paused}",), ("stop:channel:mailto",)]


async def test_W17_orchestrator_cancels(database: PostgresDatabase, under: Under) -> None:
    store = await under("orchestrator").open()
    delivery_id = given_due_delivery(database)

    done = await store.cancel([delivery_id], operator="ada", reason="not needed")

    assert done.ids == (delivery_id,)
    assert [row["reason"] for row in database.rows("dead_letters")] == ["cancelled"]
    assert [row["kind"] for row in database.rows("operations")] == ["cancel"]


async def test_M10_worker_keeps_its_row_and_its_leases(database: PostgresDatabase, under: Under) -> None:
    store = await under("worker").open()
    given_due_delivery(database)
    lease = await given_lease(await under("orchestrator").open())

    worker_id = await store.register("host:1", "1.0", 10)
    await store.beat(worker_id, progressed=True)
    renewed = await store.renew([lease.id], HOLD)
    idle = await store.is_idle()
    await store.release([lease.id])
    kept = len(database.rows("leases"))
    await settle_with(await under("orchestrator").open(), lease, Delivered("n"))
    await store.release([lease.id])
    await store.roll_up_counters()
    await store.leave(worker_id)

    assert renewed == {lease.id}
    assert (idle, kept, database.rows("leases")) == (False, 1, [])
    assert database.one("select stopped_at is not null and progressed_at is not null from sendonce_workers") is True


async def test_M10_worker_reads_what_its_gauges_show(under: Under) -> None:
    store = await under("worker").open()

    worker_id = await store.register("host:1", "1.0", 10, is_listening=True)

    assert await store.is_eldest(worker_id)
    assert [worker.id for worker in (await store.status()).workers] == [worker_id]


async def test_M10_worker_rolls_counters_up(database: PostgresDatabase, under: Under) -> None:
    database.execute("insert into sendonce_counters (name, amount) select 'completed', 1 from generate_series(1, 5)")

    await (await under("worker").open()).roll_up_counters()

    assert database.execute("select name, amount from sendonce_counters") == [("completed", 5)]


async def test_M10_expiry_needs_worker_and_orchestrator_together(database: PostgresDatabase, under: Under) -> None:
    given_due_delivery(database)
    await given_lease(await under("orchestrator").open())
    database.advance(HOLD + S)

    for role in ("worker", "orchestrator"):
        with pytest.raises(StoreError, match="may not do that"):
            await expire(await under(role).open())
    closed = await expire(await under(KEEPER).open())

    assert len(closed) == 1
    assert [row["status"] for row in database.rows("deliveries")] == ["PendingRetry"]


async def test_M10_operator_opens_generations_and_discards(database: PostgresDatabase, under: Under) -> None:
    given_due_delivery(database, to=LETTER)
    given_due_delivery(database)
    engine = await under("orchestrator").open()
    lease = await given_lease(engine)
    await settle_with(engine, lease, Refused("410"))
    store = await under("operator").open()
    first, second = (claim.delivery_id for claim in lease.claims)

    opened = await store.open_generations([first], kind="requeue", operator="ada", reason="fixed")
    letter = await store.dead_letter_of(second)
    assert letter is not None
    gone = await store.discard([letter.id], operator="ada", reason="too old")

    assert (len(opened.ids), gone.ids) == (1, (letter.id,))
    assert [row["closed_as"] for row in database.rows("dead_letters")] == ["requeued", "discarded"]
    assert "Dear Ada" in ((await given_lease(engine)).claims[0].content or "")


async def test_M10_operator_attests_and_writes_findings(database: PostgresDatabase, under: Under) -> None:
    given_due_delivery(database, to=LETTER)
    engine = await under("orchestrator").open()
    await settle_with(engine, await given_lease(engine), Refused("410"))
    store = await under("operator").open()
    [letter] = await store.dead_letters(Filter())

    [attested] = (await store.attest([letter.id], operator="ada", reason="seen", notification_id="m-1")).ids

    assert await store.add_finding(attested, kind="no_evidence", details="gone")
    since = database.now() - timedelta(days=1)
    after = await store.first_delivery_since(since) - 1
    assert [row.id for row in (await store.completed_after(after, since=since, limit=9)).rows] == [attested]


async def test_W17_orchestrator_puts_in_doubt_and_leases_what_is(database: PostgresDatabase, under: Under) -> None:
    given_due_delivery(database)
    store = await under("orchestrator").open()

    assert (await store.doubt(0, 10, wait=timedelta(0)))[0] == 1
    await store.log_doubt(operator="ada", reason="restored", affected=1)
    lease = (await store.start_doubtful(WORKER, 10, HOLD, after=0)).lease

    assert lease is not None
    assert lease.claims[0].in_doubt


async def test_M10_operator_stops_and_resumes(database: PostgresDatabase, under: Under) -> None:
    given_due_delivery(database, to="null:a")
    store, engine = await under("operator").open(), await under("orchestrator").open()

    await store.stop("channel", "null", operator="ada", reason="incident")
    await store.stop("channel", "null", operator="ada", reason="incident")
    held = await engine.start(WORKER, 10, HOLD)
    await store.resume("channel", "null", operator="ada")

    assert (held.lease, held.parked) == (None, 1)
    assert len((await given_lease(engine)).claims) == 1


async def test_M10_operator_keeps_subscriptions(database: PostgresDatabase, under: Under) -> None:
    store, engine = await under("operator").open(), await under("orchestrator").open()
    added = await store.add_subscription(
        tenant="",
        types=["memo.*", "memo.created"],
        destination="null:hook",
        policy=None,
        description="d",
        operator="ada",
    )
    await store.set_subscription_state(added, "paused", operator="ada", reason="theirs is down")
    given_event(database)
    held = await engine.start(WORKER, 10, HOLD)

    await store.set_subscription_state(added, "active", operator="ada", reason=None)
    lease = await given_lease(engine)
    await store.set_subscription_state(added, "removed", operator="ada", reason=None)

    assert (held.parked, len(lease.claims)) == (1, 1)
    assert not await store.subscriptions(None)
    assert database.one("select count(*) from sendonce_subscription_types") == 0
    assert database.one("select count(*) from sendonce_operations") == 4


async def test_M10_operator_keeps_secrets_without_reading_them(database: PostgresDatabase, under: Under) -> None:
    store = await under("operator").open()
    added = await store.add_subscription(
        tenant="",
        types=["*"],
        destination="https://example.com/hook",
        policy=None,
        description=None,
        operator="ada",
        rate=5,
        secrets=lambda _: {"signing": b"first", "bearer": b"token"},
    )

    await store.rotate_secret(added, b"second", overlap=60 * S, operator="ada", reason=None)
    await store.set_subscription_rate(added, None, operator="ada", reason=None)
    kept = await store.kept_secrets(added)

    assert [each.kind for each in kept] == ["signing", "bearer", "signing"]
    with pytest.raises(StoreError, match="this database role may not do that"):
        await store.secrets_of([added])
    with pytest.raises(StoreError, match="this database role may not do that"):
        await store.reseal(lambda _, __, stored: stored, operator="ada")
    await (await database.open()).reseal(lambda _, __, stored: stored, operator="ada")
    await database.close()


async def test_M10_worker_reads_secrets_and_disables_what_is_gone(database: PostgresDatabase, under: Under) -> None:
    subscription_id = subscribe(database, "memo.*")
    database.execute(
        "insert into sendonce_subscription_secrets (subscription_id, secret) values (?, 'x')", subscription_id
    )
    store = await under("worker").open()

    [found] = await store.secrets_of([subscription_id])
    disabled = await store.disable_subscription(subscription_id, reason="the receiver answered 410 Gone")

    assert ([each.secret for each in found.secrets], disabled) == ([b"x"], True)
    assert database.execute("select state, state_reason from sendonce_subscriptions") == [
        ("disabled", "the receiver answered 410 Gone")
    ]
    assert database.execute("select kind, operator from sendonce_operations") == [("disabled", "sendonce worker")]


async def test_M10_janitor_blanks_contents_and_deletes_what_is_finished(
    database: PostgresDatabase, under: Under
) -> None:
    given_due_delivery(database, to=LETTER)
    engine = await under("orchestrator").open()
    lease = await given_lease(engine)
    await settle_with(engine, lease, Delivered("n"))
    janitor = under("janitor")

    janitor.execute(
        "update sendonce_events set payload = null, headers = null, subject = null, content_gone_at = now()"
    )
    janitor.execute("update sendonce_contents set content = null")
    janitor.execute("insert into sendonce_operations (kind, operator, subject) values ('prune', 'janitor', 'all')")
    for table in ("dead_letters", "attempts", "deliveries", "contents", "events", "findings", "counters"):
        janitor.execute(f"delete from sendonce_{table}")

    assert database.rows("deliveries") == database.rows("events") == database.rows("contents") == []


async def test_W17_temporary_table_of_the_same_name_deceives_nobody(database: PostgresDatabase, under: Under) -> None:
    """The function that parks runs with its owner's rights, and triggers decide by what they read."""
    active = subscribe(database, "memo.created")
    given_event(database)
    with under("orchestrator").connection(autocommit=True) as connection:
        connection.execute("create temp table sendonce_subscriptions (id bigint, state text)")
        connection.execute("insert into sendonce_subscriptions values (%s, 'paused')", (active,))
        connection.execute("select sendonce_park('{1}', '{}', '{}', null)")
    with under("operator").connection(autocommit=True) as connection:
        connection.execute("create temp table sendonce_deliveries as select * from public.sendonce_deliveries")
        connection.execute("update pg_temp.sendonce_deliveries set status = 'Completed', next_attempt_at = null")
        with pytest.raises(psycopg.errors.CheckViolation, match="needs a finished generation 0"):
            connection.execute(
                "insert into public.sendonce_deliveries (event_id, destination, destination_hash, generation)"
                " select event_id, destination, destination_hash, 1 from public.sendonce_deliveries"
            )

    assert database.execute("select parked_on from sendonce_deliveries") == [(None,)]


def test_M10_rights_can_be_granted_again(roles: Roles, database: PostgresDatabase) -> None:
    rights = "select relname, relacl::text from pg_class where relname like 'sendonce%%' order by relname"
    before = database.execute(rights)

    roles.grant(database.url)

    assert database.execute(rights) == before


@pytest.mark.parametrize("prefix", ["", 'x"; drop table t; --', "x'", "Sendonce_", "9_", "ä_", "x" * 51, "a-b", "x\n"])
def test_M10_prefix_that_is_no_plain_name_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        grants.sql(prefix)


async def test_M10_late_evidence_is_for_who_is_operator_and_orchestrator(
    database: PostgresDatabase, under: Under
) -> None:
    for number in range(4):
        given_due_delivery(database, key=f"memo-{number}")
    owner = await database.open()
    lease = await given_lease(owner)
    outcomes = (Unknown("timeout"), Unknown("timeout"), Refused("410"), Delivered("n-1"))
    await owner.settle([result(lease, outcomes[n], of=n, can_look_up=True) for n in range(4)])
    held = await given_held(database, owner)
    ids = [claim.delivery_id for claim in lease.claims]
    witness = under(WITNESS)
    store = await witness.open()

    def said(outcome: Told) -> Evidence:
        return Evidence(source="bank", outcome=outcome, token="t")

    effects = [
        (await store.add_evidence(of, said(outcome), operator="ada")).effect
        for of, outcome in (
            (ids[0], Told.DELIVERED), (ids[1], Told.REFUSED), (ids[2], Told.DELIVERED), (ids[3], Told.REFUSED),
            (held, Told.DELIVERED),
        )
    ]  # fmt: skip

    assert effects == ["settled", "settled", "contradicts", "contradicts", "settled"]
    for role in ("operator", "orchestrator", "worker", "reader"):
        alone, alike = given_due_delivery(database, key=f"alone-{role}"), under(role)
        seen = await alike.open()
        with pytest.raises(StoreError, match="may not do that"):
            await seen.add_evidence(alone, said(Told.REFUSED), operator="ada")
        await alike.close()
    for each in (witness, database):
        await each.close()


async def given_held(database: PostgresDatabase, owner: Store) -> int:
    """A delivery that may have been sent and waits for a person."""
    delivery_id = given_due_delivery(database, key="held")
    lease = await given_lease(owner)
    await settle_with(owner, lease, Unknown("timeout"), replace(POLICY, if_unsure=IfUnsure.HOLD))
    return delivery_id
