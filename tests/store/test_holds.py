"""What holds a delivery back: both databases say what the pure rule says, whatever there is at once."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sendonce import UNIQUE, Outbox
from sendonce.domain.holds import Candidate, Holders, parked, sendable
from sendonce.domain.limits import Limits
from sendonce.domain.serving import Served
from sendonce.sql.steps import run_sync
from sendonce.store.callers import store_on
from sendonce.store.ports import Store
from tests.given import HOLD
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

ADDRESSES = ("https://a.test/x", "https://a.test/y", "https://b.test/x", "sms:1", "null:a")
TENANTS = ("", "acme")
STOPS = (("channel", "https"), ("channel", "sms"), ("destination", "https://a.test/x"), ("tenant", "acme"))
BREAKERS = ("destination:https://a.test/x", "destination:sms:1", "place:a.test", "place:sms", "destination:null:a")
ROOMS = (None, "destination:https://a.test/x", "place:a.test", "place:sms", "channel:sms", "rate:1", "subscription:1")


class Sub(NamedTuple):
    address: str
    state: str
    rate: float | None


class Scene(NamedTuple):
    """Deliveries are for an address, or for one of the subscriptions by its number."""

    subscriptions: tuple[Sub, ...]
    deliveries: tuple[tuple[str | int, str], ...]
    stops: frozenset[tuple[str, str]] = frozenset()
    breakers: frozenset[str] = frozenset()
    room: str | None = None
    names: frozenset[str] | None = None
    elsewhere: Mapping[str, bool] = {}
    spare: float = 0.0
    full: frozenset[str] = frozenset()

    @property
    def limits(self) -> Limits:
        served = None if self.names is None else Served(self.names, self.elsewhere, spare=self.spare)
        left = {name: 0 for name in self.full if "://" in name}
        return Limits(left=left, left_at_place={name: 0 for name in self.full if "://" not in name}, served=served)


NAMES = st.sampled_from(("https", "sms", "null", "https://a.test/"))
SUBS = st.builds(
    Sub,
    st.sampled_from(ADDRESSES),
    st.sampled_from(("active", "active", "paused", "disabled")),
    st.sampled_from((None, None, 5.0)),
)
SCENES = st.builds(
    Scene,
    st.lists(SUBS, min_size=2, max_size=2).map(tuple),
    st.lists(st.tuples(st.sampled_from((*ADDRESSES, 0, 1)), st.sampled_from(TENANTS)), min_size=1, max_size=5).map(
        tuple
    ),
    st.frozensets(st.sampled_from(STOPS), max_size=2),
    st.frozensets(st.sampled_from(BREAKERS), max_size=3),
    st.sampled_from(ROOMS),
    st.none() | st.frozensets(NAMES, min_size=1),
    st.dictionaries(NAMES, st.booleans(), max_size=2),
    st.sampled_from((0.0, 7200.0)),
    st.frozensets(st.sampled_from(("https://a.test/x", "a.test", "sms")), max_size=1),
)
TWO_BREAKERS = Scene(
    (),
    (("https://a.test/x", ""),),
    breakers=frozenset({"destination:https://a.test/x", "place:a.test"}),
    room="destination:https://a.test/x",
)


@contextmanager
def undone(database: Database) -> Iterator[Any]:
    """A connection all of whose work is undone."""
    connection: Any
    if isinstance(database, PostgresDatabase):
        connection = psycopg.connect(database.url)
    else:
        assert isinstance(database, SqliteDatabase)
        connection = sqlite3.connect(database.path)
    try:
        yield connection
    finally:
        connection.rollback()
        connection.close()


def stage(connection: Any, store: Store, scene: Scene) -> dict[int, Candidate]:
    """Bring it all about; what the rule is to look at, by delivery, the oldest first."""
    subs = {}
    for number, sub in enumerate(scene.subscriptions):
        for tenant in TENANTS:
            subs[number, tenant] = run_sync(
                store.add_subscription(
                    tenant=tenant,
                    types=[f"sub.n{number}"],
                    destination=sub.address,
                    policy=None,
                    description=None,
                    operator="ada",
                    rate=sub.rate,
                )
            )
    candidates: dict[int, Candidate] = {}
    outbox = Outbox()
    for to, tenant in scene.deliveries:
        if isinstance(to, int):
            sub, sub_id = scene.subscriptions[to], subs[to, tenant]
            event_id = outbox.publish(connection, f"sub.n{to}", {}, key=UNIQUE, tenant=tenant, to=None).event_id
        else:
            sub, sub_id = Sub(to, "", None), None
            event_id = outbox.publish(connection, "to.address", {}, key=UNIQUE, tenant=tenant, to=to).event_id
        [made] = run_sync(store.deliveries_of(event_id))
        candidates[made.id] = Candidate(
            made.id, made.destination, sub.address, tenant, sub_id, sub.state or None, False, sub.rate
        )
    if scene.room is not None:
        mark = "%s" if isinstance(connection, psycopg.Connection) else "?"
        connection.execute(f"update sendonce_deliveries set next_attempt_at = null, parked_on = {mark}", (scene.room,))
    for (number, _), sub_id in subs.items():
        if (state := scene.subscriptions[number].state) != "active":
            run_sync(store.set_subscription_state(sub_id, state, operator="ada", reason=None))
    for scope, value in sorted(scene.stops):
        run_sync(store.stop(scope, value, operator="ada", reason=None))
    for room in sorted(scene.breakers):
        run_sync(store.trip(room, pause=timedelta(hours=1), code=None))
    return candidates


def expected(scene: Scene, candidates: Mapping[int, Candidate]) -> dict[int, str]:
    """What is to become of each: claimed, or the room that it is in then."""
    holders = Holders(sorted(scene.stops), scene.breakers)
    each = list(candidates.values())
    claimed = {each[place].delivery_id for place in sendable(each, holders, scene.limits, scene.room)}
    ends = {}
    for candidate in each:
        hold = parked(candidate, holders, scene.limits, scene.room, is_old=scene.room is None and not scene.spare)
        ends[candidate.delivery_id] = (
            "claimed" if candidate.delivery_id in claimed else hold.room if hold else scene.room or "due"
        )
    return ends


@pytest.mark.timeout(1800)
def test_holding_rule_is_the_same_in_the_domain_and_in_the_database(database: Database) -> None:
    @example(scene=TWO_BREAKERS)
    @given(scene=SCENES)
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    def hold(scene: Scene) -> None:
        with undone(database) as connection:
            store = run_sync(store_on(connection))
            candidates = stage(connection, store, scene)

            worker_id = run_sync(store.register("host:1", "1", 10))
            if scene.room is None:
                started = run_sync(store.start(worker_id, 100, HOLD, scene.limits))
            else:
                started = run_sync(store.start_waiting(worker_id, {scene.room: 100}, HOLD, scene.limits))

            claimed = {claim.delivery_id for claim in started.lease.claims} if started.lease else set()
            found = {each: run_sync(store.delivery(each)) for each in candidates}
            ends = {
                each: "claimed" if each in claimed else (row and row.parked_on) or "due" for each, row in found.items()
            }
            assert ends == expected(scene, candidates)

    hold()
