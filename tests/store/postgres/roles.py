"""The printed roles on a database of the tests, and stores and connections under each of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import psycopg
from psycopg import sql

from sendonce.store.postgres import grants
from tests.servers.postgres import Server
from tests.store.databases import PostgresDatabase

# Expiry closes attempts and decides them: the login of a worker's process is a member of both.
KEEPER = "keeper"
# What comes in later moves a delivery, and closes dead letters: its login is a member of both.
WITNESS = "witness"
_BOTH = {KEEPER: ("worker", "orchestrator"), WITNESS: ("operator", "orchestrator")}


@dataclass(frozen=True, slots=True)
class Roles:
    """Roles are shared by all databases of a server, so every run of the tests has its own prefix."""

    server: Server
    prefix: str
    template: str

    def grant(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(grants.sql(self.prefix).encode())

    def name(self, role: str) -> str:
        return f"{self.prefix}{role}"

    def under(self, url: str, role: str) -> PostgresDatabase:
        """The same database, seen by connections of this role."""
        return PostgresDatabase(f"{url}{'&' if '?' in url else '?'}options=-c%20role%3D{self.name(role)}")

    @contextmanager
    def database(self) -> Iterator[PostgresDatabase]:
        """A new database with the rights granted, seen by its owner."""
        name = self.server.create_database(template=self.template)
        try:
            yield PostgresDatabase(self.server.dsn(name))
        finally:
            self.server.drop_database(name)


@contextmanager
def granted_roles(server: Server, migrated: str) -> Iterator[Roles]:
    """The roles, and a database to copy that has their rights; all gone at the end."""
    roles = Roles(server, f"t{uuid4().hex[:12]}_", server.create_database(template=migrated))
    try:
        roles.grant(server.dsn(roles.template))
        for name, members in _BOTH.items():
            _administer(server, "create role {} nologin", roles.name(name))
            for role in members:
                _administer(server, "grant {} to {}", roles.name(role), roles.name(name))
        yield roles
    finally:
        server.drop_database(roles.template)
        for role in (*grants.ROLES, *_BOTH):
            _administer(server, "drop role if exists {}", roles.name(role))


def _administer(server: Server, statement: str, *names: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        text = statement.replace("{}", "%s") % tuple(sql.Identifier(name).as_string() for name in names)
        connection.execute(text.encode())


def subscribe(database: PostgresDatabase, pattern: str, state: str = "active") -> int:
    """A subscription, made past the store; its id."""
    [[number]] = database.execute(
        "insert into sendonce_subscriptions (destination, state) values ('null:hook', ?) returning id", state
    )
    database.execute(
        "insert into sendonce_subscription_types (tenant, pattern, subscription_id) values ('', ?, ?)", pattern, number
    )
    assert isinstance(number, int)
    return number
