"""What the database itself refuses of requests, whoever asks: raw SQL past the outbox."""

import psycopg
import pytest
from psycopg.errors import SerializationFailure

from tests.outbox.databases import Address
from tests.outbox.requesting import request
from tests.store.databases import REFUSED

COPY = (
    "insert into sendonce_requests (event_id, version, created_at, content_digest, run, tenant, type, subject)"
    " select ?, ?, created_at, content_digest, ?, tenant, type, subject from sendonce_requests where id = 1"
)


def test_R2_key_is_unique_in_the_database(address: Address) -> None:
    request(address)

    with pytest.raises(REFUSED):
        address.change(
            "insert into sendonce_request_keys (request_id, created_at, tenant, type, key)"
            " select 99, created_at, tenant, type, key from sendonce_request_keys"
        )


@pytest.mark.parametrize(
    ("event_id", "version", "run"),
    [(1, 9, 1), (99, 3, 1), (99, 9, 0), (99, 2, 1), (99, 9, 2), (99, -1, 1)],
    ids=["event", "version", "run", "lower version", "no run before it", "negative"],
)
def test_R5_version_and_its_place_are_held_by_the_database(
    address: Address, event_id: int, version: int, run: int
) -> None:
    request(address)

    with pytest.raises((*REFUSED, SerializationFailure)):  # without the run before it, it may succeed next time
        address.change(COPY, event_id, version, run)
    address.change(COPY, 99, 9, 1)


def test_R7_recipient_is_there_once(address: Address) -> None:
    request(address)

    with pytest.raises(REFUSED):
        address.change(
            "insert into sendonce_recipients (request_id, destination_hash, is_required, destination)"
            " select request_id, destination_hash, is_required, 'null:other' from sendonce_recipients"
        )


@pytest.mark.parametrize("table", ["requests", "request_keys"])
def test_requests_and_their_keys_are_immutable(address: Address, table: str) -> None:
    request(address)
    before = address.look(f"select * from sendonce_{table}")
    columns = "tenant, type, subject, version, run, event_id, created_at" if table == "requests" else "key, request_id"

    for column in columns.split(", "):
        with pytest.raises((*REFUSED, psycopg.errors.GeneratedAlways), match="are_immutable"):
            address.change(f"update sendonce_{table} set {column} = {column}")

    assert address.look(f"select * from sendonce_{table}") == before


def test_recipient_may_change_its_hash_alone(address: Address) -> None:
    request(address)
    other = "x'00112233445566778899aabbccddeeff'" if address.dialect == "sqlite" else "gen_random_uuid()"

    for change in ("destination = 'null:other'", "request_id = 99", "is_required = not is_required"):
        with pytest.raises(REFUSED, match="recipients_keep_their_identity"):
            address.change(f"update sendonce_recipients set {change} where destination = 'null:ada'")
    address.change(f"update sendonce_recipients set destination_hash = {other} where destination = 'null:ada'")
