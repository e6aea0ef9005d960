"""Databases with our tables in them, and a look inside from a connection of its own."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg

from sendonce.store.postgres import migrate as postgres_migrate
from sendonce.store.sqlite import migrate as sqlite_migrate

OWN_TABLE = "create table memos (id integer primary key, body text);"


@dataclass(frozen=True)
class Address:
    """Where a migrated database is; `memos` is the caller's own table in it."""

    url: str
    dialect: Literal["sqlite", "postgresql"]

    def look(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query, as another connection sees them."""
        if self.dialect == "sqlite":
            with closing(sqlite_connection(self)) as connection:
                return connection.execute(question, values).fetchall()
        with psycopg.connect(self.url) as other:
            return other.execute(question.replace("?", "%s").encode(), values).fetchall()

    def change(self, statement: str, *values: object) -> None:
        """Do something from another connection, and commit it."""
        if self.dialect == "sqlite":
            with closing(sqlite_connection(self)) as connection, connection:
                connection.execute(statement, values)
            return
        with psycopg.connect(self.url) as other:
            other.execute(statement.replace("?", "%s").encode(), values)

    def count(self, table: str) -> int:
        ((count,),) = self.look(f"select count(*) from {table}")
        return int(count)

    def counts(self) -> dict[str, int]:
        """How much of everything that publish writes is there."""
        tables = ("sendonce_events", "sendonce_deliveries", "sendonce_contents")
        return {table.removeprefix("sendonce_"): self.count(table) for table in tables}

    def subscribe(self, *patterns: str, tenant: str = "", state: str = "active") -> int:
        """A subscription to these types; its id."""
        now = "0" if self.dialect == "sqlite" else "now()"
        self.change(
            "insert into sendonce_subscriptions (tenant, destination, state, created_at, updated_at)"
            f" values (?, 'https://listener.example/', ?, {now}, {now})",
            tenant,
            state,
        )
        ((subscription_id,),) = self.look("select max(id) from sendonce_subscriptions")
        for pattern in patterns:
            self.change(
                "insert into sendonce_subscription_types (tenant, pattern, subscription_id) values (?, ?, ?)",
                tenant,
                pattern,
                subscription_id,
            )
        return int(subscription_id)


NOTHING = {"events": 0, "deliveries": 0, "contents": 0}


def sqlite_connection(address: Address, **settings: Any) -> sqlite3.Connection:
    connection: sqlite3.Connection = sqlite3.connect(address.url.removeprefix("sqlite:///"), **settings)
    return connection


def new_sqlite(folder: Path) -> Address:
    address = Address(f"sqlite:///{folder / 'caller.sqlite'}", "sqlite")
    with closing(sqlite_connection(address)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("begin")
        sqlite_migrate.apply_missing(connection)
        connection.execute(OWN_TABLE)
        connection.commit()
    return address


def fill_postgres(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(postgres_migrate.sql().encode())
        connection.execute(OWN_TABLE.encode())


def empty_postgres(address: Address) -> None:
    """Take out everything that a test before has written; whoever is still connected is cut off."""
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        spoilt = "select 1 where to_regclass('sendonce_events') is null or exists ("
        spoilt += "select 1 from pg_constraint where conname = 'trouble')"
        if connection.execute(spoilt.encode()).fetchone():
            connection.execute("drop schema public cascade; create schema public")
            fill_postgres(address.url)
        tables = "events, contents, deliveries, subscriptions, subscription_types, subscription_secrets"
        tables += ", requests, request_keys, recipients, receipts, messages, tries, evidence, counters"
        tables += ", dead_letters, operations, stops"
        named = ", ".join(f"sendonce_{table}" for table in tables.split(", "))
        connection.execute(f"truncate {named}, memos restart identity".encode())


@contextmanager
def recording(address: Address, **settings: Any) -> Iterator[Any]:
    """A caller's plain connection, sqlite3 or psycopg, that is committed at the end."""
    if address.dialect == "sqlite":
        with closing(sqlite_connection(address, **settings)) as connection:
            yield connection
            connection.commit()
    else:
        with psycopg.connect(address.url, **settings) as other:
            yield other
