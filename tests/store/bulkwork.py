"""Many finished deliveries at once, for trying operations by filter: put into the tables by one statement each."""

from sendonce.domain.destinations import destination_hash
from sendonce.store.bulk import CANCEL, NewOperation, OperationRow
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from tests.store.databases import Database, PostgresDatabase

EVERYTHING = Filter()

_HASH = destination_hash("null:seed").hex()
_POSTGRES = f"""
insert into sendonce_events (content_digest, type, key, payload)
  select gen_random_uuid(), 'order.created', 'seed-' || n, '{{"n":1}}' from generate_series(1, ?) n;
insert into sendonce_deliveries (event_id, destination_hash, destination)
  select id, '{_HASH}', 'null:seed' from sendonce_events;
update sendonce_deliveries
   set status = 'DeadLettered', next_attempt_at = null, attempt_count = 3, final_error_code = '503';
insert into sendonce_dead_letters (delivery_id, reason, error_code)
  select id, 'exhausted', '503' from sendonce_deliveries order by id
"""
_SQLITE = f"""
insert into sendonce_events (created_at, content_digest, type, key, payload)
  with recursive s(n) as (select 1 union all select n + 1 from s where n < ?)
  select 1, x'00000000000000000000000000000001', 'order.created', 'seed-' || n, '{{"n":1}}' from s;
insert into sendonce_deliveries (event_id, created_at, updated_at, next_attempt_at, destination_hash, destination)
  select id, 1, 1, 1, x'{_HASH}', 'null:seed' from sendonce_events;
update sendonce_deliveries
   set status = 'DeadLettered', next_attempt_at = null, attempt_count = 3, final_error_code = '503';
insert into sendonce_dead_letters (delivery_id, created_at, reason, error_code)
  select id, 1, 'exhausted', '503' from sendonce_deliveries order by id
"""


def given_many_dead_letters(database: Database, amount: int) -> None:
    """So many deliveries that were given up; there must be nothing else."""
    script = _POSTGRES if isinstance(database, PostgresDatabase) else _SQLITE
    with database.connection() as connection:
        for statement in script.split(";"):
            values = (amount,) if "?" in statement else ()
            connection.execute(database.spell(statement), values)


async def begun(store: Store, kind: str, wanted: Filter = EVERYTHING) -> OperationRow:
    """An operation over all that there is."""
    first_id, upper_id = await store.bounds(kind)
    return await store.begin_operation(
        NewOperation(
            kind=kind, operator="ada", reason="test", subject="test", wanted=wanted, rate=1000.0,
            first_id=first_id, upper_id=upper_id,
        )
    )  # fmt: skip


async def step(store: Store, operation: OperationRow, *, window: int = 5000, most: int = 500) -> OperationRow:
    take = store.cancel_step if operation.kind == CANCEL else store.step
    return await take(operation.id, window=window, most=most)


async def finish(store: Store, operation: OperationRow, *, window: int = 5000, most: int = 500) -> OperationRow:
    """Step until it has ended."""
    for _ in range(1000):
        operation = await step(store, operation, window=window, most=most)
        if operation.state != "running":
            return operation
    raise AssertionError("it does not end")
