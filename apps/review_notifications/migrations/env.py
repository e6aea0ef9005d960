"""Alembic's entry: brings the tables of the review notifications up to date."""

from apps.migrating import run

run()
