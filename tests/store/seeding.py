"""Many subscriptions at once, past the store."""

from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

_SEED = {
    SqliteDatabase: "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)"
    " insert into sendonce_subscriptions (tenant, destination, created_at, updated_at) select ?, ? || i, 0, 0 from n",
    PostgresDatabase: "with n(i) as (select generate_series(1, ?))"
    " insert into sendonce_subscriptions (tenant, destination) select ?, ? || i from n",
}


def seed_subscriptions(database: Database, amount: int) -> None:
    """Subscriptions of acme to order.*, each with a destination of its own."""
    with database.connection() as connection:
        connection.execute(database.spell(_SEED[type(database)]), (amount, "acme", "null:hook-"))
        connection.execute(
            "insert into sendonce_subscription_types (tenant, pattern, subscription_id)"
            " select tenant, 'order.*', id from sendonce_subscriptions"
        )
