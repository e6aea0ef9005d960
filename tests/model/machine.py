"""The verbs of the system in any order, with crashes, lost answers and time; what must hold holds after each."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sendonce.domain.attempts import Lease, Report, Result, Verdict, resolve
from sendonce.domain.deliveries import ALLOWED, DeliveryState
from sendonce.domain.policies import Policy
from tests.given import HOLD, POLICY, WORKER
from tests.model.databases import ModelDatabase
from tests.model.world import ASKED, DEAF, Weather, World, can_look_up

Row = dict[str, Any]
S = timedelta(seconds=1)
TO = {0: [f"{ASKED}:a"], 1: [f"{ASKED}:a", f"{DEAF}:b"], 2: [f"{DEAF}:b"], 3: []}
STOPS = [("all", ""), ("channel", ASKED), ("channel", DEAF), ("destination", f"{DEAF}:b"), ("tenant", "")]
places = st.integers(0, 1000)
rounds = st.lists(st.sampled_from([*Weather, Weather.FINE, Weather.FINE, Weather.FINE]), min_size=4, max_size=4)


def decided(reports: Sequence[Report], policy: Policy = POLICY, *, knows: bool = True) -> list[Result]:
    """Each report with its decision; one who does not know the channel cannot say whether it can be asked."""
    return [resolve(one, policy, can_look_up=can_look_up(one.claim) if knows else None) for one in reports]


class Machine(RuleBasedStateMachine):
    def __init__(self, open_database: Callable[[], ModelDatabase]) -> None:
        super().__init__()
        self.database = open_database()
        self.world = World()
        self.expected: set[tuple[int, str]] = set()
        self.leases: list[tuple[Lease, datetime]] = []
        self.reports: list[Report] = []
        self.lost: list[Result] = []
        self.stops: set[tuple[str, str]] = set()
        self.seen: dict[int, Row] = {}
        self.subscription_id = self.run(
            self.store.add_subscription(
                tenant="", types=["memo.*"], destination=f"{ASKED}:hook", policy=None, description=None, operator="ada"
            )
        )

    @property
    def store(self) -> Any:
        return self.database.store

    def run(self, call: Any) -> Any:
        return self.database.run(call)

    @rule(key=st.integers(1, 12), subscribed=st.booleans(), hold=st.sampled_from([None, "hold"]))
    def publish(self, key: int, subscribed: bool, hold: str | None) -> None:
        kind = "memo.created" if subscribed else "order.created"
        event_id = self.database.publish(kind, {"n": key}, key=f"k-{key}", to=TO[key % 4] or None, if_unsure=hold)
        self.expected |= {(event_id, destination) for destination in TO[key % 4]}
        if subscribed:
            self.expected.add((event_id, f"subscription:{self.subscription_id}"))

    @rule(limit=st.integers(1, 4))
    def start(self, limit: int) -> None:
        until = self.database.now() + HOLD
        started = self.run(self.store.start(WORKER, limit, HOLD))
        if started.lease is not None:
            self.leases.append((started.lease, until))

    @precondition(lambda self: self.leases)
    @rule(place=places, weathers=rounds)
    def send(self, place: int, weathers: list[Weather]) -> None:
        """A worker sends all it has claimed, and nothing any more when its time is over."""
        lease, until = self.leases.pop(place % len(self.leases))
        if self.database.now() < until:
            for claim, weather in zip(lease.claims, weathers, strict=False):
                self.reports.append(self.world.work(lease, claim, weather))

    @rule(weathers=rounds)
    def work(self, weathers: list[Weather]) -> None:
        """An ordinary round of a worker, so that most deliveries get somewhere."""
        known = len(self.leases)
        self.start(4)
        self.what_must_hold_holds()
        if len(self.leases) > known:
            self.send(len(self.leases) - 1, weathers)
            self.settle(len(self.reports), answer_is_lost=False)

    @precondition(lambda self: self.leases)
    @rule(place=places)
    def crash(self, place: int) -> None:
        self.leases.pop(place % len(self.leases))

    @precondition(lambda self: self.reports)
    @rule(amount=st.integers(1, 6), answer_is_lost=st.booleans())
    def settle(self, amount: int, answer_is_lost: bool) -> None:
        batch = decided(self.reports[:amount])
        self.reports = self.reports[amount:]
        verdicts = self.run(self.store.settle(batch))
        assert len(verdicts) == len(batch)
        if answer_is_lost:
            self.lost += batch

    @precondition(lambda self: self.lost)
    @rule()
    def settle_again(self) -> None:
        batch, self.lost = self.lost, []
        before = self.database.rows("attempts")
        verdicts = self.run(self.store.settle(batch))
        assert Verdict.APPLIED not in verdicts
        assert self.database.rows("attempts") == before

    @precondition(lambda self: self.reports)
    @rule()
    def results_are_lost(self) -> None:
        self.reports.clear()

    @rule(by=st.sampled_from([S, 15 * S, 61 * S, 3600 * S]))
    def time_passes(self, by: timedelta) -> None:
        self.database.advance(by)

    @rule(knows=st.booleans())
    def expire(self, knows: bool) -> None:
        self.run(self.store.expire(3, lambda reports: decided(reports, knows=knows)))

    @rule(weathers=rounds, in_between=st.sampled_from(["nothing", "retry", "cancel"]))
    def stall(self, weathers: list[Weather], in_between: str) -> None:
        """A worker sends, and sleeps for so long that its results come late; meanwhile others go on."""
        known = len(self.leases)
        self.start(4)
        self.what_must_hold_holds()
        if len(self.leases) == known:
            return
        stalled = self.leases[-1][0]
        others = len(self.reports)
        self.send(known, weathers)
        self.reports, late = self.reports[:others], self.reports[others:]
        self.time_passes(61 * S)
        self.run(self.store.expire(100, decided))
        self.what_must_hold_holds()
        if in_between == "retry":
            self.time_passes(3600 * S)
            self.work(weathers)
        if in_between == "cancel":
            ids = [claim.delivery_id for claim in stalled.claims]
            self.run(self.store.cancel(ids, operator="ada", reason="wrong"))
        self.what_must_hold_holds()
        assert Verdict.APPLIED not in self.run(self.store.settle(decided(late)))

    @precondition(lambda self: self.leases)
    @rule(place=places)
    def renew(self, place: int) -> None:
        lease, until = self.leases.pop(place % len(self.leases))
        renewed = self.run(self.store.renew([lease.id], HOLD))
        assert renewed == ({lease.id} if self.database.now() < until else set())
        if renewed:
            self.leases.append((lease, self.database.now() + HOLD))

    @precondition(lambda self: any(row["status"] in ("Completed", "DeadLettered") for row in self.seen.values()))
    @rule(place=places)
    def requeue(self, place: int) -> None:
        newest: dict[tuple[int, str], Row] = {}
        for row in self.seen.values():
            newest[row["event_id"], row["destination"]] = row
        finished = [row["id"] for row in newest.values() if DeliveryState(row["status"]).is_final]
        if finished:
            chosen = finished[place % len(finished)]
            acted = self.run(self.store.open_generations([chosen], kind="replay", operator="ada", reason="again"))
            assert len(acted.ids) == 1

    @precondition(lambda self: self.seen)
    @rule(place=places)
    def cancel(self, place: int) -> None:
        chosen = list(self.seen.values())[place % len(self.seen)]
        acted = self.run(self.store.cancel([chosen["id"]], operator="ada", reason="wrong"))
        assert bool(acted.ids) == (chosen["status"] in ("Pending", "PendingRetry"))

    @rule(state=st.sampled_from(["paused", "disabled", "active"]))
    def set_subscription(self, state: str) -> None:
        self.run(self.store.set_subscription_state(self.subscription_id, state, operator="ada", reason=None))

    @rule(stop=st.sampled_from(STOPS))
    def stop(self, stop: tuple[str, str]) -> None:
        self.run(self.store.stop(*stop, operator="ada", reason=None))
        self.stops.add(stop)

    @precondition(lambda self: self.stops)
    @rule()
    def let_go(self) -> None:
        for stop in sorted(self.stops):
            self.run(self.store.resume(*stop, operator="ada"))
        self.stops.clear()
        self.set_subscription("active")

    @invariant()
    def what_must_hold_holds(self) -> None:
        rows = {row["id"]: row for row in self.database.rows("deliveries")}
        self.check_nothing_is_lost(rows)
        self.check_moves(rows)
        self.check_attempts(rows)
        self.check_whereabouts(rows)
        self.check_endings(rows)
        self.seen = rows

    def check_nothing_is_lost(self, rows: dict[int, Row]) -> None:
        there = [(row["event_id"], row["destination"]) for row in rows.values() if row["generation"] == 0]
        assert sorted(there) == sorted(self.expected)
        assert self.seen.keys() <= rows.keys()

    def check_moves(self, rows: dict[int, Row]) -> None:
        for delivery_id, old in self.seen.items():
            new, state = rows[delivery_id], DeliveryState(old["status"])
            if state.is_final:
                assert new == old
            assert new["status"] == state or DeliveryState(new["status"]) in ALLOWED[state]

    def check_attempts(self, rows: dict[int, Row]) -> None:
        active: dict[int, int] = {}
        ended: dict[int, int] = {}
        for attempt in self.database.rows("attempts"):
            counts = active if attempt["outcome"] is None else ended
            counts[attempt["delivery_id"]] = counts.get(attempt["delivery_id"], 0) + 1
        for delivery_id, row in rows.items():
            assert active.get(delivery_id, 0) == (row["status"] == "InProgress")
            assert ended.get(delivery_id, 0) == row["attempt_count"]

    def check_whereabouts(self, rows: dict[int, Row]) -> None:
        leases = {lease["id"] for lease in self.database.rows("leases")}
        leased = {
            attempt["delivery_id"]
            for attempt in self.database.rows("attempts")
            if attempt["outcome"] is None and attempt["lease_id"] in leases
        }
        holders = {f"stop:{stop['scope']}:{stop['value']}" for stop in self.database.rows("stops")}
        for subscription in self.database.rows("subscriptions"):
            if subscription["state"] in ("paused", "disabled"):
                holders.add(f"subscription:{subscription['id']}")
        for delivery_id, row in rows.items():
            match row["status"]:
                case "Pending" | "PendingRetry":
                    assert row["next_attempt_at"] is not None or row["parked_on"] in holders
                case "InProgress":
                    assert delivery_id in leased

    def check_endings(self, rows: dict[int, Row]) -> None:
        dead = {letter["delivery_id"] for letter in self.database.rows("dead_letters")}
        for delivery_id, row in rows.items():
            assert (delivery_id in dead) == (row["status"] == "DeadLettered")
            if row["status"] == "Completed":
                assert self.world.has(row["event_id"], row["destination"])
                assert not row["in_doubt"]
            if not row["destination"].startswith(DEAF):
                assert self.world.sends[delivery_id] <= 1

    def teardown(self) -> None:
        try:
            self.everything_ends()
        finally:
            self.database.close()

    def everything_ends(self) -> None:
        """When all is let go and the weather is fine, nothing is left over."""
        self.let_go()
        for _ in range(12):
            if all(DeliveryState(row["status"]).is_final for row in self.seen.values()):
                break
            self.database.advance(3600 * S)
            self.run(self.store.expire(100, decided))
            self.what_must_hold_holds()
            lease = self.run(self.store.start(WORKER, 100, HOLD)).lease
            self.what_must_hold_holds()
            if lease is not None:
                fine = [self.world.work(lease, claim, Weather.FINE) for claim in lease.claims]
                self.run(self.store.settle(decided(fine)))
                self.run(self.store.release([lease.id]))
            self.what_must_hold_holds()
        assert all(DeliveryState(row["status"]).is_final for row in self.seen.values())
        assert self.run(self.store.is_idle())
