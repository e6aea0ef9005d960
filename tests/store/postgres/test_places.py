"""Places are the same in the database and in the program, and every room in which something waits is listed."""

import pytest

from sendonce.domain.destinations import place_of
from sendonce.store.ports import Store
from tests.store.databases import PostgresDatabase


@pytest.mark.parametrize(
    "address",
    ["https://a.example/x", "http://a.example:8080/", "mailto:ada@example.com", "null:a", "sms:+1555", "sms:a://b/c",
     "https://[::1]:80/x", "x:", "amqp://broker/queue"],
)  # fmt: skip
def test_databases_know_the_same_hosts(database: PostgresDatabase, address: str) -> None:
    assert database.one("select sendonce_place(?)", address) == place_of(address)


async def test_parked_queues_are_all_seen_whatever_the_planner_knows(database: PostgresDatabase, store: Store) -> None:
    """Who goes on after the last name of a page relies on the order, which a join of another kind would lose."""
    database.execute(
        "insert into sendonce_deliveries (event_id, destination_hash, destination, next_attempt_at, parked_on)"
        " select n, left(encode(sha256(convert_to(length('sms:' || n) || ':sms:' || n, 'UTF8')), 'hex'), 32)::uuid,"
        " 'sms:' || n, null, 'destination:https://h' || n || '.example/'"
        " from generate_series(1, 300) n"
    )
    database.execute(
        "insert into sendonce_breakers (room, probe_at, pause)"
        " select 'destination:https://h' || n || '.example/', now(), 1 from generate_series(1, 50) n"
    )
    database.execute("analyze")

    seen: list[str] = []
    while page := await store.rooms(after=seen[-1] if seen else "", limit=100):
        seen += [room.name for room in page]
        assert len(seen) <= 300

    assert len(set(seen)) == 300
