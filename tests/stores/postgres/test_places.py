"""The place of an address is the same in the database and in the program."""

import pytest

from sendonce.domain.destinations import place_of
from tests.stores.databases import PostgresDatabase


@pytest.mark.parametrize(
    "address",
    ["https://a.example/x", "http://a.example:8080/", "mailto:ada@example.com", "null:a", "sms:+1555", "sms:a://b/c",
     "https://[::1]:80/x", "x:", "amqp://broker/queue"],
)  # fmt: skip
def test_both_databases_know_the_same_places(database: PostgresDatabase, address: str) -> None:
    assert database.one("select sendonce_place(?)", address) == place_of(address)
