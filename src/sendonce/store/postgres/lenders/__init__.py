"""Whose connection it is that a lane is to work on: one way to run a statement for each driver, and for no driver two.

Values are written and rows are read by psycopg 3 on all of them, so that the store meets the same types everywhere.
"""

from typing import Any

from sendonce.outbox.drivers import names_of
from sendonce.store.postgres.lenders.port import Lender


def lender_of(connection: Any) -> Lender | None:
    """What runs statements on this connection; None when it is none that leads to PostgreSQL."""
    names = set(names_of(connection))
    if ("psycopg", "Connection") in names:
        from sendonce.store.postgres.lenders.psycopg3 import Psycopg

        return Psycopg(connection)
    if ("psycopg", "AsyncConnection") in names:
        from sendonce.store.postgres.lenders.psycopg3 import AsyncPsycopg

        return AsyncPsycopg(connection)
    if ("psycopg2", "connection") in names:
        from sendonce.store.postgres.lenders.psycopg2 import Psycopg2

        return Psycopg2(connection)
    if names & {("asyncpg", "Connection"), ("asyncpg", "PoolConnectionProxy")}:
        from sendonce.store.postgres.lenders.asyncpg import Asyncpg

        return Asyncpg(connection)
    return None
