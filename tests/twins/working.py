"""What callers and workers ask of a store, in any order, on both databases."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from sendonce.domain.attempts import Fence, Lease, Report, Result, Witness, resolve
from sendonce.domain.limits import Limits
from sendonce.domain.outcomes import Outcome
from sendonce.domain.serving import Served
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from tests.twins.follower import Follower
from tests.twins.pair import Pair
from tests.twins.values import (
    HOLD,
    MAIL,
    POLICY,
    SCHEMES,
    TENANTS,
    TYPES,
    URLS,
    few,
    ids,
    names,
    outcomes,
    places,
    spans,
    texts,
    who,
    who_perhaps,
)

OUTBOX = Outbox()


class Working(RuleBasedStateMachine):
    """Those who record, and workers."""

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        self.pair = Pair(follower)
        self.leases: list[Lease] = []
        self.settled: list[Result] = []
        self.call = self.pair.call

    def one_of(self, sql: str, place: int) -> int:
        """An id that is there, or one that is not."""
        found = self.pair.ids(f"{sql} order by 1")
        return int(found[place % len(found)]) if found else place

    def delivery(self, place: int) -> int:
        return self.one_of("select id from sendonce_deliveries", place)

    def letter(self, place: int) -> int:
        return self.one_of("select id from sendonce_dead_letters", place)

    # Recording

    @rule(
        key=st.integers(1, 9), type=st.sampled_from(TYPES), to=st.lists(st.sampled_from(URLS), max_size=4, unique=True),
        mail=st.booleans(), tenant=st.sampled_from(TENANTS), if_unsure=st.sampled_from([None, "hold", "resend"]),
        due=st.none() | spans, ends=st.none() | spans, keep=st.sampled_from(["raise", "keep_first"]),
        subject=st.sampled_from([None, "s-1", "s-2"]), payload=texts,
    )  # fmt: skip
    def publish(self, **given: Any) -> None:
        to = [*given["to"], *([MAIL] if given["mail"] else [])]
        self.pair.record(
            OUTBOX.publish, given["type"], {"n": given["key"], "text": given["payload"]}, key=f"k-{given['key']:02}",
            to=to, tenant=given["tenant"], if_unsure=given["if_unsure"], subject=given["subject"],
            if_different=given["keep"], deliver_at=None if given["due"] is None else self.pair.now + given["due"],
            expires_at=None if given["ends"] is None else self.pair.now + given["ends"],
        )  # fmt: skip

    @rule(key=st.integers(5, 14), times=st.integers(2, 4), to=st.sampled_from(URLS))
    def publish_many(self, key: int, times: int, to: str) -> None:
        """The same again and again, and nobody subscribes: PostgreSQL writes a batch in an order of its own."""
        draft = Draft("memo.created", {"n": key}, key=f"k-{key:02}", to=to, tenant="many")
        self.pair.record(OUTBOX.publish_many, [draft] * times)

    @rule(
        key=st.integers(1, 4), subject=st.sampled_from(["s-1", "s-2"]), version=st.sampled_from([0, 1, 2, 2**62]),
        required=st.lists(st.sampled_from(URLS[:4]), max_size=2, unique=True),
        optional=st.sampled_from([(), ("asked:z",)]), rerun=st.booleans(),
        keep=st.sampled_from(["raise", "keep_first"]),
    )  # fmt: skip
    def request(self, **given: Any) -> None:
        self.pair.record(
            OUTBOX.request, "review.ready", {"v": given["version"]}, key=f"r-{given['key']}", subject=given["subject"],
            version=given["version"], required=given["required"], optional=given["optional"], rerun=given["rerun"],
            if_different=given["keep"],
        )  # fmt: skip

    # The work

    @rule(limit=st.integers(0, 6), each=st.integers(0, 3), each_place=st.integers(0, 4), full=st.sampled_from(URLS[3:]))
    def start(self, limit: int, each: int, each_place: int, full: str) -> None:
        limits = Limits(each=each, each_place=each_place, left={full: 0}, left_at_place={"deaf": 1})
        self.keep(self.call("start", 1, limit, HOLD, limits if each else Limits()))

    @rule(limit=st.integers(1, 8))
    def claim(self, limit: int) -> None:
        self.keep(self.call("start", 1, limit, HOLD))

    @rule(quota=st.integers(0, 3), rest=st.integers(0, 2))
    def start_waiting(self, quota: int, rest: int) -> None:
        rooms = self.pair.ids(
            "select distinct parked_on from sendonce_deliveries where parked_on is not null order by 1"
        )
        names = [name for name in rooms if name.partition(":")[0] in ("destination", "place", "rate")]
        self.keep(self.call("start_waiting", 1, dict.fromkeys(names[rest:], quota), HOLD))

    @rule(limit=st.integers(0, 4), after=ids)
    def start_doubtful(self, limit: int, after: int) -> None:
        self.keep(self.call("start_doubtful", 1, limit, HOLD, after=after))

    def keep(self, started: Any) -> None:
        if started is not None and started.lease is not None:
            self.leases.append(started.lease)

    @precondition(lambda self: self.leases)
    @rule(
        place=places, said=st.lists(outcomes, min_size=1, max_size=4), asked=st.sampled_from([True, False, None]),
        cleared=st.booleans(), twice=st.booleans(), leaves=st.booleans(),
    )  # fmt: skip
    def settle(self, **given: Any) -> None:
        lease = self.leases[given["place"] % len(self.leases)]
        reports = [
            Report(claim, lease.id, given["said"][place % len(given["said"])], given["cleared"])
            for place, claim in enumerate(lease.claims)
        ]
        results = decided(reports, can_look_up=given["asked"])
        self.settled += results
        self.call("settle", [*results, *results[:1]] if given["twice"] else results)
        if given["leaves"]:
            self.leases.remove(lease)

    @precondition(lambda self: self.settled)
    @rule(place=places, outcome=outcomes, stranger=st.booleans())
    def settle_late(self, place: int, outcome: Outcome, stranger: bool) -> None:
        result = self.settled[place % len(self.settled)]
        lease_id = result.report.lease_id + 1000 if stranger else result.report.lease_id
        self.call("settle", decided([result.report._replace(outcome=outcome, lease_id=lease_id)], can_look_up=False))

    @precondition(lambda self: self.leases)
    @rule(hold=spans, gone=st.booleans())
    def renew(self, hold: timedelta, gone: bool) -> None:
        known = [lease.id for lease in self.leases]
        self.call("renew", [*known, 10**9] if gone else known, hold)

    @rule(limit=st.integers(0, 3), asked=st.sampled_from([True, False, None]))
    def expire(self, limit: int, asked: bool | None) -> None:
        self.call("expire", limit, lambda reports: decided(reports, can_look_up=asked))

    @precondition(lambda self: self.leases)
    @rule()
    def release(self) -> None:
        """As the sender does it: what has settled all of its attempts."""
        open_ones = set(self.pair.ids("select lease_id from sendonce_attempts where status = 'Leased'"))
        over = [lease.id for lease in self.leases if lease.id not in open_ones]
        self.leases = [lease for lease in self.leases if lease.id in open_ones]
        self.call("release", over)

    @rule(limit=st.integers(1, 6), mine=names, elsewhere=st.dictionaries(st.sampled_from(SCHEMES), st.booleans()))
    def claim_what_is_served(self, limit: int, mine: list[str], elsewhere: dict[str, bool]) -> None:
        served = Served(mine, elsewhere)
        self.keep(self.call("start", 1, limit, HOLD, Limits(served=served)))
        for room in self.pair.ids("select distinct parked_on from sendonce_deliveries where parked_on like 'place:%'"):
            self.call("park_unserved", room, served)

    @rule(room=st.sampled_from(["channel:deaf", "channel:asked", "channel:https"]), after=few, limit=st.integers(1, 4))
    def give_up_unserved(self, room: str, after: int, limit: int) -> None:
        self.call("give_up_unserved", room, after, limit, message="nobody serves it")
        self.call("served", 1)

    @rule(after=ids, limit=st.integers(0, 5), asked=st.sampled_from([True, False, None]))
    def adopt(self, after: int, limit: int, asked: bool | None) -> None:
        self.call("adopt", after, limit, lambda reports: decided(reports, can_look_up=asked))

    @rule(place=places, what=places, wait=spans, limit=st.integers(1, 4), by=who)
    def lose_commits(self, place: int, what: int, wait: timedelta, limit: int, by: dict[str, Any]) -> None:
        """A worker remembers a claim that is there, or one that is not."""
        delivery_id = self.delivery(place)
        witness = Witness(delivery_id, 1 + what % 2, what, delivery_id, self.pair.now)
        match what % 5:
            case 0:
                self.call("notice_loss", witness, wait=wait, noticed_by=by["operator"])
            case 1:
                self.call("mark_loss", limit)
            case 2:
                self.call("end_loss")
            case 3:
                self.keep(self.call("start", 1, limit, HOLD, Limits(), Fence(None, witness)))
            case _:
                self.call("disprove_loss", **by)

    @rule(
        name=st.sampled_from([None, "production", "staging"]),
        by=who_perhaps,
        mine=st.sampled_from([None, "production"]),
    )
    def name_instance(self, name: str | None, by: dict[str, Any], mine: str | None) -> None:
        self.call("name_instance", name, **by)
        self.keep(self.call("start", 1, 1, HOLD, Limits(), Fence(mine)))
        self.call("name_instance", None, **by)

    @rule(by=spans)
    def time_passes(self, by: timedelta) -> None:
        self.pair.advance(by)

    @rule(name=texts, version=texts, listening=st.booleans(), place=places, progressed=st.booleans())
    def workers(self, name: str, version: str, listening: bool, place: int, progressed: bool) -> None:
        worker_id = self.one_of("select id from sendonce_workers", place)
        match place % 5:
            case 0:
                self.call("register", name, version, place, is_listening=listening)
            case 1:
                self.call("beat", worker_id, progressed=progressed)
            case 2:
                self.call("leave", worker_id)
            case 3:
                self.call("is_eldest", worker_id)
            case _:
                self.call("is_idle")
                self.call("roll_up_counters")


def decided(reports: Sequence[Report], *, can_look_up: bool | None) -> list[Result]:
    return [resolve(report, POLICY, can_look_up=can_look_up) for report in reports]
