"""Databases with our tables, and callers on each kind of connection, as the outbox's tests have them."""

from tests.outbox.conftest import address, caller, kind, migrated_postgres, postgres_address, sqlite_address

__all__ = ["address", "caller", "kind", "migrated_postgres", "postgres_address", "sqlite_address"]
