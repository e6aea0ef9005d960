"""What a claim leaves because it is held back: told by destinations where nothing is, else row by row, alike."""

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.databases import PostgresDatabase

ADDRESSES = (
    "null:a",
    "null:b",
    "mailto:a@example.com",
    "https://a.example/hook",
    "https://a.example/other",
    "https://b.example/",
)
ROOMS = (None, "rate:2", "destination:https://a.example/hook", "place:a.example", "channel:https")
CALL = """
select sendonce_held_back(
  array(select n from generate_series(1, cardinality(%(destinations)s::text[])) as n),
  array_fill(1::bigint, array[cardinality(%(destinations)s::text[])]),
  %(subscriptions)s::bigint[], %(destinations)s::text[], %(rooms)s::text[], %(each)s, %(each_place)s, %(known)s::text[],
  %(lefts)s::int[], %(places)s::text[], %(place_lefts)s::int[], %(served)s::text[], %(beginnings)s::text[],
  %(proven)s::bigint[])
"""
# Somebody else's stop: it holds none of these back, but while there is one, every row is looked at.
STOP = "insert into sendonce_stops (scope, value, operator) values ('tenant', 'of nobody', 'ada')"

rows = st.lists(
    st.one_of(
        st.tuples(st.none(), st.sampled_from(ADDRESSES), st.sampled_from(ROOMS)),
        st.tuples(st.integers(1, 4), st.none(), st.sampled_from(ROOMS)),
    ),
    min_size=1,
    max_size=20,
)
lefts = st.integers(0, 6)


@st.composite
def candidates(draw: st.DrawFn) -> dict[str, object]:
    """Candidates of a claim with the limits of who claims."""
    drawn = draw(rows)
    of_destinations = draw(st.dictionaries(st.sampled_from([*ADDRESSES, "subscription:1"]), lefts, max_size=2))
    of_places = draw(st.dictionaries(st.sampled_from(["a.example", "mailto"]), lefts, max_size=1))
    return {
        "subscriptions": [subscription for subscription, _, _ in drawn],
        "destinations": [address or f"subscription:{subscription}" for subscription, address, _ in drawn],
        "rooms": [room for _, _, room in drawn],
        "each": draw(st.sampled_from([2, 5, 100])),
        "each_place": draw(st.sampled_from([2, 5, 100])),
        "known": list(of_destinations),
        "lefts": list(of_destinations.values()),
        "places": list(of_places),
        "place_lefts": list(of_places.values()),
        "served": draw(st.sampled_from([None, ["null", "mailto", "https"], ["https"], ["https://a.example/"]])),
        "beginnings": draw(
            st.sampled_from([None, ["https://a.example/"], ["https://a.example/", "subscription:https://a.example/"]])
        ),
        "proven": draw(st.lists(st.integers(1, 20), max_size=3)),
    }


def test_claim_is_told_by_destinations_what_is_held_back_as_it_is_row_by_row(database: PostgresDatabase) -> None:
    database.execute(
        "insert into sendonce_subscriptions (destination, state, rate) values"
        " ('https://a.example/hook', 'active', null), ('https://a.example/hook', 'active', 1),"
        " ('https://a.example/hook', 'paused', null), ('https://c.example/', 'active', null)"
    )
    seen = {"nothing": 0, "something": 0}

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(candidates(), st.sets(st.sampled_from([*ROOMS[1:4], "destination:subscription:1"]), max_size=1))
    def compare(called: dict[str, object], breakers: set[str]) -> None:
        with psycopg.connect(database.url) as connection:  # rolled back, so that each call finds the same database
            for room in breakers:
                connection.execute(
                    "insert into sendonce_breakers (room, probe_at, pause) values (%s, now(), 1)", (room,)
                )
            [[quickly]] = connection.execute(CALL, called)
            connection.execute(STOP)
            [[by_row]] = connection.execute(CALL, called)
            connection.rollback()
        assert quickly == by_row
        seen["something" if quickly else "nothing"] += 1

    compare()
    assert min(seen.values()) > 20, f"both kinds were met: {seen}"
