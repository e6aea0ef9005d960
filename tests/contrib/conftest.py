"""The stores' own databases."""

from tests.stores.conftest import database, postgres_template, sqlite_template

__all__ = ["database", "postgres_template", "sqlite_template"]
