"""The stores' own databases."""

from tests.store.conftest import database, postgres_template, sqlite_template

__all__ = ["database", "postgres_template", "sqlite_template"]
