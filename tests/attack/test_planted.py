"""Operators and functions that a role plants beside our tables, as everybody may by default up to PostgreSQL 14.

An operator for exactly the types at hand is taken before the server's own that fits them by a cast, wherever it is; and
what is called inside a function with its owner's rights has these rights. So what is planted here fits everything, and
fails when it is called: whatever our functions do, they do as before.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from itertools import product

import psycopg
import pytest

from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Delivered, Failed, Refused
from sendonce.store.postgres import grants
from sendonce.store.postgres import migrate as postgres_migrate
from tests.given import given_due_delivery, given_lease, settle_with
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase
from tests.store.postgres.roles import Roles, granted_roles

pytestmark = pytest.mark.slow

TYPES = ("text", "varchar", "name", "bigint", "int", "smallint", "boolean", "uuid", "bytea", "timestamptz", "float8")
LISTS = ("bigint[]", "int[]", "text[]")
OPERATORS = {"text": ("||", "+", "-"), "boolean": ("=", "<>", "<", ">", "<=", ">=", "~~")}
# With the same types as the server's own, or better ones, under every name that a function of ours calls.
ARGUMENTS = (
    "", *TYPES, *LISTS, "text, text", "text, varchar", "bytea, text", "bytea, name", "text, name", "text, int",
    "bytea, int, int", "text, text, int", "text, varchar, int", "text, int, int", "bytea, bigint, bigint",
)  # fmt: skip
FUNCTION = (
    "create function {schema}.{name}({arguments}) returns {result} language plpgsql as"
    " $$ begin raise exception 'planted, as %', current_user using errcode = 'ZZ999'; end $$"
)

# For each function of ours a statement that calls it, itself without any operator or function that could be planted.
CALLS: dict[str, tuple[str, str]] = {
    "sendonce_forbid": ("orchestrator", "update sendonce_attempts set lease_id = 99"),
    "sendonce_refuse_move": ("orchestrator", "update sendonce_deliveries set destination = 'null:elsewhere'"),
    "sendonce_check_moved": (
        "orchestrator",
        "update sendonce_deliveries set updated_at = default where notified_at is null and final_error_code is null",
    ),
    "sendonce_check_attempt": (
        "orchestrator",
        "insert into sendonce_attempts (delivery_id, attempt, lease_id, status) values (3, 2, 1, 'Leased')",
    ),
    "sendonce_held": (
        "orchestrator",
        "select sendonce_held('{5,6}', '{5,6}', '{null,1}', '{null:a,subscription:1}', '{null,null}', 5, 5, '{null:a}',"
        " '{0}', '{}', '{}')",
    ),
    "sendonce_held_back": (
        "orchestrator",
        "select sendonce_held_back('{5,6}', '{5,6}', '{null,1}', '{null:a,subscription:1}', '{null,null}', 5, 5,"
        " '{null:a}', '{0}', '{}', '{}', array['null'], '{null:b}', '{}')",
    ),
    "sendonce_channel": ("orchestrator", "select sendonce_channel('https://example.com/hook', true, '{https://example.}')"),
    "sendonce_set_aside": (
        "orchestrator",
        "select sendonce_set_aside('{5,6}', '{null:a}', array['null'], null, array['null'], '{null:b}', '{}', 1)",
    ),
    "sendonce_fence": ("orchestrator", "select sendonce_fence('here', 4, 1, 99)"),
    "sendonce_stop_of": ("orchestrator", "select sendonce_stop_of(5, 1, 'null:a')"),
    "sendonce_park": ("orchestrator", "select sendonce_park('{5,6}', '{null:a}', array['null'], null)"),
    "sendonce_place": ("orchestrator", "select sendonce_place('https://example.com/hook')"),
    "sendonce_hold": ("operator", "select sendonce_hold('{1,2}')"),
    "sendonce_check_generation": (
        "operator",
        "insert into sendonce_deliveries (event_id, destination, destination_hash, generation)"
        " select event_id, destination, destination_hash, 1 from sendonce_deliveries where notified_at is not null",
    ),
    "sendonce_check_correction": (
        "operator",
        "insert into sendonce_contents (event_id, corrections, destination_hash, content)"
        " select event_id, 1, destination_hash, '{}' from sendonce_deliveries where final_error_code is not null",
    ),
    "sendonce_refuse_plain_secret": (
        "operator",
        "insert into sendonce_subscription_secrets (subscription_id, secret) values (1, 'plain:mine')",
    ),
    "sendonce_refuse_unbound_secret": (
        "operator",
        "insert into sendonce_subscription_secrets (subscription_id, secret) values (1, 'sealed:old')",
    ),
    "sendonce_mark_signed": (
        "operator",
        "insert into sendonce_subscription_secrets (subscription_id, secret) values (1, 'sealed:2:new')",
    ),
    "sendonce_check_run": (
        "app",
        "insert into sendonce_requests (event_id, version, content_digest, run, type, subject)"
        " values (1, 1, '00000000-0000-0000-0000-000000000001', 1, 'memo.shared', 'memo')",
    ),
    "sendonce_check_request_key": (
        "app", "insert into sendonce_request_keys (request_id, type, key) values (7, 'memo.shared', 'a')",
    ),
    "sendonce_count_duplicates": ("app", "update sendonce_receipts set duplicates = 2"),
    "sendonce_check_message": (
        "operator",
        "insert into sendonce_messages (generation, consumer, message_id, source, next_attempt_at)"
        " values (1, 'mailer', 'message-1', 'webhook:shop', '2030-01-01')",
    ),
    "sendonce_check_attempt_delete": ("janitor", "delete from sendonce_attempts"),
    "sendonce_check_content_delete": ("janitor", "delete from sendonce_contents"),
    "sendonce_check_event_delete": ("janitor", "delete from sendonce_events"),
    "sendonce_check_blanked": ("janitor", "update sendonce_events set payload = null, content_gone_at = created_at"),
    "sendonce_check_content_blanked": ("janitor", "update sendonce_contents set content = null"),
    "sendonce_blanked": ("reader", "select sendonce_blanked(0, 100, 10)"),
    "sendonce_altered": ("reader", "select sendonce_altered(0, 100, 10)"),
}  # fmt: skip


@pytest.fixture(scope="module", params=[15, 16, 18])
def roles(request: pytest.FixtureRequest, server_of: Callable[[int], Server]) -> Iterator[Roles]:
    server: Server = server_of(request.param)
    migrated = server.create_database()
    asyncio.run(postgres_migrate.migrate(server.dsn(migrated)))
    try:
        with granted_roles(server, migrated) as roles:
            yield roles
    finally:
        server.drop_database(migrated)


@pytest.fixture
def database(roles: Roles) -> Iterator[PostgresDatabase]:
    """A delivery in each state, a subscription with its secret, and the rights of PostgreSQL 14."""
    with roles.database() as database:
        asyncio.run(fill(database))
        database.execute("grant create on schema public to public")
        database.execute(f"grant create on database {database.one('select current_database()')} to {roles.name('app')}")
        yield database


async def fill(database: PostgresDatabase) -> None:
    database.execute("insert into sendonce_receipts (consumer, message_id) values ('mailer', 'message-1')")
    store = await database.open()
    await store.add_subscription(
        tenant="", types=["order.*"], destination="https://example.com/", policy=None, description=None, operator="ada",
        rate=5, secrets=lambda _: {"bearer": b"sealed:2:x"},
    )  # fmt: skip
    letter = Email("ada@example.com", subject="Hello", text="Dear Ada")
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), Delivered("n-1"))
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), Refused("410"))
    given_due_delivery(database, to=letter)
    await settle_with(store, await given_lease(store), Failed("503"))
    given_due_delivery(database)
    await given_lease(store)
    given_due_delivery(database)
    given_due_delivery(database, to=None, type="order.paid")
    await store.stop("destination", "null:other", operator="ada", reason="test")
    database.execute("insert into sendonce_meta values ('secrets', 'bound')")
    await database.close()


def plant(database: PostgresDatabase, schema: str) -> None:
    """As the role that this database is seen by: everything that could be called instead of what is meant."""
    names = {name for (body,) in database.execute(
        "select prosrc from pg_proc where pronamespace = 'public'::regnamespace and proname like 'sendonce%%'"
    ) for name in re.findall(r"([a-z_0-9]+)\(", body)}  # fmt: skip
    called = database.execute(
        "select distinct proname from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname = any(?)",
        [*names, "array_agg", "unnest", "cardinality", "coalesce", "substring", "position", "now", "format"],
    )
    script = [
        FUNCTION.format(schema=schema, name=f'"{name}"', arguments=arguments, result="text")
        for (name,) in called
        for arguments in ARGUMENTS
    ]
    for left, right in product((*TYPES, *LISTS), repeat=2):
        for result, operators in OPERATORS.items():
            name = f"planted_{result}"
            script.append(FUNCTION.format(schema=schema, name=name, arguments=f"{left}, {right}", result=result))
            script += [
                f"create operator {schema}.{operator}"
                f" (leftarg = {left}, rightarg = {right}, function = {schema}.{name})"
                for operator in operators
            ]
    script.append(f"grant usage on schema {schema} to public")
    with database.connection() as connection:
        connection.execute(";".join(script).encode())


def outcome(roles: Roles, database: PostgresDatabase, role: str, statement: str, path: str) -> object:
    """What comes of a statement, which is taken back: its rows, or how it is refused."""
    seen = roles.under(database.url, role)
    with psycopg.connect(seen.url) as connection:
        connection.execute(f"set search_path = {path}".encode())
        try:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else cursor.rowcount
        except psycopg.Error as error:
            return error.sqlstate, error.diag.message_primary
        finally:
            connection.rollback()


def test_function_of_ours_is_called_by_a_statement_of_this_file(database: PostgresDatabase) -> None:
    ours = database.execute("select proname from pg_proc where pronamespace = 'public'::regnamespace")

    assert {name for (name,) in ours} == set(CALLS)


@pytest.mark.parametrize(("schema", "path"), [("public", "public"), ("evil", "evil, public, pg_catalog")])
def test_functions_of_ours_never_call_a_planted_function(
    roles: Roles, database: PostgresDatabase, schema: str, path: str
) -> None:
    before = {name: outcome(roles, database, *call, path="public") for name, call in CALLS.items()}
    app = roles.under(database.url, "app")
    if schema != "public":
        app.execute(f"create schema {schema}")
    plant(app, schema)

    after = {name: outcome(roles, database, *call, path=path) for name, call in CALLS.items()}

    assert after == before
    assert before["sendonce_park"] == [(2,)]
    assert before["sendonce_altered"] == before["sendonce_blanked"] == []


def test_role_without_secrets_cannot_read_them_through_a_planted_operator(
    roles: Roles, database: PostgresDatabase
) -> None:
    """The very attack: `text || bigint` in a function that runs with its owner's rights."""
    app = roles.under(database.url, "app")
    app.execute("create table public.loot (secret text)")
    app.execute("grant insert on public.loot to public")
    app.execute(
        "create function public.steal(text, bigint) returns text language plpgsql as $$ begin"
        " insert into public.loot select encode(secret, 'escape') from public.sendonce_subscription_secrets;"
        " return $1; exception when insufficient_privilege then return $1; end $$"
    )
    app.execute("create operator public.|| (leftarg = text, rightarg = bigint, function = public.steal)")

    roles.under(database.url, "orchestrator").execute("select sendonce_park('{5,6}', '{null:a}', '{}', null)")
    roles.under(database.url, "reader").execute("select sendonce_altered(0, 100, 10)")

    assert app.execute("select secret from public.loot") == []
    assert database.execute("select parked_on from sendonce_deliveries where id = 6") == [("rate:1",)]


def test_printed_rights_let_nobody_plant_anything(roles: Roles, database: PostgresDatabase) -> None:
    roles.grant(database.url)

    for role in grants.ROLES:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            roles.under(database.url, role).execute(
                "create function public.mine() returns int language sql as 'select 1'"
            )


def test_function_looks_in_the_servers_own_schema_first(database: PostgresDatabase) -> None:
    """But one, which names the schema of everything it calls: with a path of its own it would be slow."""
    found = database.execute(
        "select proname, proconfig, prosrc from pg_proc where pronamespace = 'public'::regnamespace order by proname"
    )

    assert {name for name, settings, _ in found if settings != ["search_path=pg_catalog, public, pg_temp"]} == {
        "sendonce_place"
    }
    [body] = [body for name, _, body in found if name == "sendonce_place"]
    assert re.findall(r"(?<!pg_catalog\.)\b\w+\(", body.replace("operator(", "")) == []
