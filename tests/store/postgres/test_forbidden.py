"""Each forbidden thing, tried as each role, is refused by the database itself."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Delivered
from sendonce.errors import StoreError
from sendonce.store.postgres import grants
from tests.given import HOLD, WORKER, given_due_delivery, given_lease, settle_with
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.roles import Roles, granted_roles

# Who may do what: exactly these roles, and nobody else. A right on a column is written table.column.
WHO_MAY = {
    "insert events.payload": {"app"},
    "select events.payload": {"app", "orchestrator", "operator", "janitor"},
    "update events.payload": {"janitor"},
    "update events.key": set(),
    "delete events": {"janitor"},
    "insert contents.content": {"app", "operator"},
    "select contents.content": {"orchestrator", "operator", "janitor"},
    "update contents.content": {"janitor"},
    "insert corrections.replaces": {"operator"},
    "delete corrections": {"janitor"},
    "update operations.last_id": {"operator", "orchestrator"},
    "update operations.reason": set(),
    "select deliveries.status": {"orchestrator", "worker", "operator", "janitor", "reader"},
    "insert deliveries.destination": {"app", "orchestrator", "operator"},
    "insert deliveries.status": {"orchestrator", "operator"},
    "insert deliveries.generation": {"orchestrator", "operator"},
    "update deliveries.status": {"orchestrator"},
    "update deliveries.attempt_count": {"orchestrator"},
    "update deliveries.in_doubt": {"orchestrator"},
    "update deliveries.notified_at": {"orchestrator"},
    "update deliveries.next_attempt_at": {"orchestrator", "operator"},
    "delete deliveries": {"janitor"},
    "select attempts.outcome": {"orchestrator", "worker", "operator", "janitor", "reader"},
    "insert attempts.status": {"orchestrator"},
    "update attempts.status": {"orchestrator"},
    "update attempts.response": {"orchestrator", "janitor"},
    "delete attempts": {"janitor"},
    "insert leases.expires_at": {"orchestrator"},
    "update leases.expires_at": {"worker"},
    "delete leases": {"worker"},
    "insert dead_letters.reason": {"orchestrator"},
    "update dead_letters.closed_as": {"operator", "janitor"},
    "update dead_letters.reason": set(),
    "delete dead_letters": {"janitor"},
    "insert findings.kind": {"orchestrator", "operator"},
    "update findings.kind": set(),
    "update findings.details": {"janitor"},
    "insert operations.operator": {"orchestrator", "worker", "operator", "janitor"},
    "update operations.operator": set(),
    "insert subscriptions.destination": {"operator"},
    "update subscriptions.state": {"worker", "operator"},
    "update subscriptions.rate": {"operator"},
    "update subscriptions.destination": set(),
    "update subscriptions.is_signed": set(),
    "delete subscriptions": set(),
    "select subscription_secrets.secret": {"worker"},
    "select subscription_secrets.kind": {"worker", "operator", "reader"},
    "insert subscription_secrets.secret": {"operator"},
    "update subscription_secrets.secret": set(),
    "update subscription_secrets.expires_at": {"operator"},
    "delete subscription_secrets": {"operator", "janitor"},
    "update breakers.probe_at": {"orchestrator"},
    "delete breakers": {"orchestrator"},
    "update buckets.tokens": {"orchestrator"},
    "insert alerts.name": {"worker"},
    "update alerts.told_at": {"worker"},
    "delete alerts": set(),
    "insert stops.scope": {"operator"},
    "delete stops": {"operator"},
    "update workers.seen_at": {"worker"},
    "insert requests.version": {"app"},
    "insert request_keys.key": {"app"},
    "insert recipients.destination": {"app"},
    "select recipient_states.status": {"app", "operator", "reader"},
    "select request_states.status": {"app", "operator", "reader"},
    "update requests.version": set(),
    "update request_keys.request_id": set(),
    "update recipients.destination_hash": {"operator"},
    "update recipients.is_required": set(),
    "delete requests": {"janitor"},
    "delete request_keys": {"janitor"},
    "delete recipients": {"janitor"},
    "update retention.last_id": {"janitor"},
    "update meta.value": set(),
    "delete meta": set(),
}

FORBIDDEN = {
    "app": [
        "insert into sendonce_deliveries (event_id, destination, destination_hash, status)"
        " values (1, 'null:b', gen_random_uuid(), 'Completed')",
        "insert into sendonce_deliveries (event_id, destination, destination_hash, generation)"
        " values (1, 'null:b', gen_random_uuid(), 1)",
        "insert into sendonce_deliveries (event_id, destination, destination_hash, attempt_count)"
        " values (1, 'null:b', gen_random_uuid(), 3)",
        "update sendonce_deliveries set status = 'Completed', next_attempt_at = null",
        "update sendonce_deliveries set next_attempt_at = now()",
        "delete from sendonce_deliveries",
        "select status from sendonce_deliveries",
        "update sendonce_events set payload = null",
        "delete from sendonce_events",
        "select outcome from sendonce_attempts",
        "insert into sendonce_attempts (delivery_id, attempt, lease_id, status) values (2, 1, 1, 'Leased')",
        "update sendonce_attempts set status = 'Failed'",
        "delete from sendonce_attempts",
        "select content from sendonce_contents",
        "update sendonce_contents set content = null",
        "select secret from sendonce_subscription_secrets",
        "select id from sendonce_subscription_secrets",
        "update sendonce_subscriptions set state = 'paused'",
        "insert into sendonce_stops (scope, value, operator) values ('all', '', 'me')",
        "select sendonce_park('{1}', '{}', '{}', null)",
        "select nextval('sendonce_lease_ids')",
    ],
    "orchestrator": [
        "delete from sendonce_deliveries",
        "delete from sendonce_attempts",
        "delete from sendonce_dead_letters",
        "insert into sendonce_events (type, key, content_digest) values ('a', 'k', gen_random_uuid())",
        "update sendonce_events set payload = null",
        "delete from sendonce_events",
        "update sendonce_contents set content = null",
        "update sendonce_subscriptions set state = 'active'",
        "insert into sendonce_subscriptions (destination) values ('null:a')",
        "select id from sendonce_subscriptions for share",
        "delete from sendonce_subscription_types",
        "update sendonce_leases set expires_at = now() + interval '1 hour'",
        "delete from sendonce_leases",
        "select secret from sendonce_subscription_secrets",
        "delete from sendonce_stops",
    ],
    "worker": [
        "update sendonce_deliveries set status = 'Completed'",
        "update sendonce_deliveries set next_attempt_at = now()",
        "insert into sendonce_deliveries (event_id, destination, destination_hash)"
        " values (1, 'null:b', gen_random_uuid())",
        "delete from sendonce_deliveries",
        "insert into sendonce_attempts (delivery_id, attempt, lease_id, status) values (2, 1, 1, 'Leased')",
        "update sendonce_attempts set status = 'Failed', outcome = 'Unknown', finished_at = now()",
        "delete from sendonce_attempts",
        "insert into sendonce_leases (id, worker_id, expires_at, deliveries) values (99, 1, now(), '{}')",
        "select payload from sendonce_events",
        "select content from sendonce_contents",
        "update sendonce_subscription_secrets set secret = 'x'",
        "insert into sendonce_subscription_secrets (subscription_id, secret) values (1, 'x')",
        "delete from sendonce_subscription_secrets",
        "update sendonce_subscriptions set destination = 'null:elsewhere'",
        "update sendonce_subscriptions set rate = 1",
        "insert into sendonce_subscriptions (destination) values ('null:a')",
        "select reason from sendonce_operations",
        "delete from sendonce_operations",
        "delete from sendonce_alerts",
        "update sendonce_breakers set allowance = 9",
        "delete from sendonce_stops",
        "select sendonce_park('{1}', '{}', '{}', null)",
    ],
    "operator": [
        "update sendonce_deliveries set status = 'Completed', next_attempt_at = null",
        "update sendonce_deliveries set attempt_count = 0",
        "update sendonce_deliveries set in_doubt = false",
        "delete from sendonce_deliveries",
        "insert into sendonce_attempts (delivery_id, attempt, lease_id, status) values (2, 1, 1, 'Leased')",
        "update sendonce_attempts set status = 'Failed'",
        "delete from sendonce_attempts",
        "insert into sendonce_events (type, key, content_digest) values ('a', 'k', gen_random_uuid())",
        "update sendonce_events set payload = null",
        "delete from sendonce_events",
        "update sendonce_dead_letters set reason = 'expired'",
        "delete from sendonce_dead_letters",
        "update sendonce_operations set operator = 'somebody else'",
        "update sendonce_operations set reason = 'another'",
        "delete from sendonce_operations",
        "update sendonce_contents set content = null",
        "delete from sendonce_contents",
        "update sendonce_corrections set replaces = 1",
        "delete from sendonce_corrections",
        "select secret from sendonce_subscription_secrets",
        "update sendonce_subscription_secrets set secret = 'x'",
        "update sendonce_leases set expires_at = now()",
        "select sendonce_park('{1}', '{}', '{}', null)",
    ],
    "reader": [
        "select payload from sendonce_events",
        "select content from sendonce_contents",
        "select secret from sendonce_subscription_secrets",
        "insert into sendonce_events (type, key, content_digest) values ('a', 'k', gen_random_uuid())",
        "update sendonce_deliveries set next_attempt_at = now()",
        "delete from sendonce_deliveries",
        "insert into sendonce_operations (kind, operator, subject) values ('x', 'x', 'x')",
        "update sendonce_dead_letters set closed_at = now(), closed_as = 'discarded'",
        "insert into sendonce_stops (scope, value, operator) values ('all', '', 'me')",
        "select id from sendonce_deliveries for update",
        "select sendonce_park('{1}', '{}', '{}', null)",
    ],
    "janitor": [
        "update sendonce_deliveries set status = 'Completed'",
        "update sendonce_events set key = 'other'",
        "update sendonce_attempts set status = 'Failed'",
        "insert into sendonce_deliveries (event_id, destination, destination_hash)"
        " values (1, 'null:b', gen_random_uuid())",
        "select secret from sendonce_subscription_secrets",
        "delete from sendonce_subscriptions",
        "delete from sendonce_leases",
        "delete from sendonce_stops",
    ],
}

# Whoever has the right to do one of these is refused by the rules; everybody else has not even the right.
AGAINST_THE_RULES_FOR_ALL = [
    # a second delivery of an event to one place: another hash, or another name
    "insert into sendonce_deliveries (event_id, subscription_id, destination, destination_hash)"
    " values (5, 1, 'subscription:1', gen_random_uuid())",
    "insert into sendonce_deliveries (event_id, subscription_id, destination, destination_hash)"
    " select 5, 1, 'subscription:2', substr(encode(sha256('14:subscription:2'), 'hex'), 1, 32)::uuid",
    "insert into sendonce_deliveries (event_id, destination, destination_hash) values (4, 'null:a', gen_random_uuid())",
    # an id that nobody asks about
    "insert into sendonce_deliveries (event_id, destination, destination_hash, generation, notification_id)"
    " select event_id, destination, destination_hash, 1, 'n-7' from sendonce_deliveries where id = 2",
    "update sendonce_deliveries set notification_id = 'n-7' where id = 4",
    # what an open delivery was recorded as
    "update sendonce_deliveries set subscription_id = null where id = 5",
    "update sendonce_deliveries set subscription_id = 2 where id = 5",
    "update sendonce_deliveries set has_content = true where id = 4",
    # a job for what has ended, or that nobody has; one taken away
    "insert into sendonce_attempts (delivery_id, attempt, lease_id, status) values (1, 2, 1, 'Leased')",
    "update sendonce_deliveries set status = 'InProgress', next_attempt_at = null where id = 4",
    "update sendonce_deliveries set status = 'PendingRetry', next_attempt_at = now(), attempt_count = attempt_count + 1"
    " where id = 3",
    "update sendonce_deliveries set status = 'DeadLettered' where id = 3",
    "update sendonce_attempts set lease_id = 99 where delivery_id = 3",
    # what an open delivery would send
    "update sendonce_events set payload = null, content_gone_at = now() where id = 4",
    "update sendonce_events set payload = null, headers = null, content_gone_at = now() where id = 3",
    "update sendonce_events set subject = null, content_gone_at = now() where id = 6",
    "update sendonce_contents set content = null where event_id = 6",
    # a secret that is another's, and signatures that are no longer wanted
    "update sendonce_subscription_secrets set subscription_id = 2",
    "update sendonce_subscription_secrets set kind = 'bearer'",
    "update sendonce_subscriptions set is_signed = null",
]

AGAINST_THE_RULES = {
    "orchestrator": [
        "update sendonce_deliveries set attempt_count = 9 where status = 'Completed'",
        "update sendonce_deliveries set status = 'Completed', next_attempt_at = null where status = 'Pending'",
        "update sendonce_deliveries set destination = 'null:elsewhere' where status = 'Pending'",
        "update sendonce_attempts set outcome = 'Failed' where status = 'Completed'",
        "insert into sendonce_deliveries (event_id, destination, destination_hash, status, next_attempt_at)"
        " values (1, 'null:b', gen_random_uuid(), 'Completed', null)",
    ],
    "operator": [
        "update sendonce_deliveries set updated_at = now() where status = 'Completed'",
        "insert into sendonce_deliveries (event_id, destination, destination_hash, generation)"
        " select event_id, destination, destination_hash, 1 from sendonce_deliveries where status = 'Pending'",
    ],
    "janitor": [
        "delete from sendonce_deliveries where status = 'Pending'",
        "delete from sendonce_deliveries where status = 'InProgress'",
        "update sendonce_events set payload = '{}'",
        "update sendonce_events set payload = null, subject = 'other'",
        "update sendonce_contents set content = 'other'",
        "update sendonce_attempts set response = 'other' where status = 'Completed'",
        "delete from sendonce_attempts where status = 'Leased'",
        "delete from sendonce_events",
        "delete from sendonce_dead_letters where closed_at is null",
    ],
}

FOR_OWNERS_ONLY = [
    "drop table sendonce_findings",
    "alter table sendonce_deliveries disable trigger all",
    "alter table sendonce_events add column more text",
    "drop trigger deliveries_follow_the_rules on sendonce_deliveries",
    "create trigger mine after update on sendonce_deliveries execute function sendonce_forbid()",
    "create or replace function sendonce_forbid() returns trigger language plpgsql as 'begin return null; end'",
    "alter function sendonce_park(bigint[], text[], text[], text) security invoker",
    "truncate sendonce_counters",
    "create index on sendonce_deliveries (status)",
    "set session_replication_role = replica",
    "update sendonce_meta set value = '9'",
    "delete from sendonce_meta",
]


@pytest.fixture(scope="module")
def roles(postgres_server: Server, postgres_template: str) -> Iterator[Roles]:
    with granted_roles(postgres_server, postgres_template) as roles:
        yield roles


@pytest.fixture(scope="module")
def database(roles: Roles) -> Iterator[PostgresDatabase]:
    """One for all tests of this file: they change nothing. A row of each kind is there to be tried on."""
    with roles.database() as database:
        asyncio.run(fill(database))
        yield database


async def fill(database: PostgresDatabase) -> None:
    store = await database.open()
    subscription_id = await store.add_subscription(
        tenant="", types=["order.*"], destination="null:hook", policy=None, description=None, operator="ada"
    )
    await store.add_subscription(
        tenant="other", types=["*"], destination="null:other", policy=None, description=None, operator="ada"
    )
    database.execute(
        "insert into sendonce_subscription_secrets (subscription_id, secret) values (?, 'x')", subscription_id
    )
    given_due_delivery(database, to=Email("ada@example.com", subject="Hello", text="Dear Ada"))
    await settle_with(store, await given_lease(store), Delivered("n-1"))
    cancelled = given_due_delivery(database)
    await store.cancel([cancelled], operator="ada", reason="test")
    given_due_delivery(database)
    await given_lease(store)
    given_due_delivery(database)
    given_due_delivery(database, to=None, type="order.paid")
    given_due_delivery(database, to=Email("eve@example.com", subject="Hello", text="Dear Eve"), subject="memo 6")
    await database.close()


def attempt(database: PostgresDatabase, statement: str) -> None:
    """Try it, and leave nothing behind even when it works."""
    with psycopg.connect(database.url, autocommit=True) as connection, connection.transaction(force_rollback=True):
        connection.execute(statement.encode())


def cases(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(role, statement) for role, statements in table.items() for statement in statements]


@pytest.mark.parametrize("right", WHO_MAY)
def test_M10_W6_W17_only_these_roles_have_the_right(roles: Roles, database: PostgresDatabase, right: str) -> None:
    verb, _, target = right.partition(" ")
    table, _, column = target.partition(".")
    ask = "select has_column_privilege(?, ?, ?, ?)" if column else "select has_table_privilege(?, ?, ?)"
    middle = (f"sendonce_{table}", column) if column else (f"sendonce_{table}",)

    able = {role for role in grants.ROLES if database.one(ask, roles.name(role), *middle, verb)}

    assert able == WHO_MAY[right]


@pytest.mark.parametrize(("role", "statement"), cases(FORBIDDEN))
def test_M10_W6_W17_database_refuses_what_a_role_may_not_do(
    roles: Roles, database: PostgresDatabase, role: str, statement: str
) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        attempt(roles.under(database.url, role), statement)


@pytest.mark.parametrize(("role", "statement"), cases(AGAINST_THE_RULES))
def test_W15_W17_rules_hold_for_those_who_have_the_right(
    roles: Roles, database: PostgresDatabase, role: str, statement: str
) -> None:
    with pytest.raises(errors.CheckViolation):
        attempt(roles.under(database.url, role), statement)


@pytest.mark.parametrize("statement", AGAINST_THE_RULES_FOR_ALL)
def test_W2_W5_W8_R10_no_role_and_not_the_owner_gets_around_the_rules(
    roles: Roles, database: PostgresDatabase, statement: str
) -> None:
    with pytest.raises(errors.CheckViolation):
        attempt(database, statement)
    for role in grants.ROLES:
        with pytest.raises((errors.CheckViolation, errors.InsufficientPrivilege)):
            attempt(roles.under(database.url, role), statement)


@pytest.mark.parametrize("statement", FOR_OWNERS_ONLY)
def test_M10_nobody_but_the_owner_can_take_the_rules_away(
    roles: Roles, database: PostgresDatabase, statement: str
) -> None:
    attempt(database, statement)
    for role in grants.ROLES:
        with pytest.raises(errors.InsufficientPrivilege):
            attempt(roles.under(database.url, role), statement)


@pytest.mark.parametrize("role", [role for role in grants.ROLES if role != "orchestrator"])
async def test_W6_nobody_but_the_orchestrator_can_start(roles: Roles, database: PostgresDatabase, role: str) -> None:
    seen = roles.under(database.url, role)
    store = await seen.open()

    with pytest.raises(
        StoreError, match=r"this database role may not do that \(permission denied for .*\); see: sendonce"
    ):
        await store.start(WORKER, 1, HOLD)

    await seen.close()


def test_M10_login_without_a_role_sees_nothing(roles: Roles, database: PostgresDatabase) -> None:
    tables = database.execute(
        "select relname from pg_class where relname like 'sendonce%%' and relkind in ('r', 'S') order by relname"
    )
    public = "select count(*) from pg_class, aclexplode(relacl) a where relname = ? and a.grantee = 0"

    assert len(tables) > 10
    assert [name for (name,) in tables if database.one(public, name)] == []
    park = "sendonce_park(bigint[], text[], text[], text)"
    assert database.one("select has_function_privilege('public', ?, 'execute')", park) is False
