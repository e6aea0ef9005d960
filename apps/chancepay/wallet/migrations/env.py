"""Alembic runs this; the versions are beside it."""

from apps.migrating import run

run()
