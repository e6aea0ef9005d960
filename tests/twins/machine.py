"""Every verb of a store in any order, with odd values among them, on both databases: nothing may differ."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from sendonce.domain.attempts import Lease, Report, Result, resolve
from sendonce.domain.breakers import Answers
from sendonce.domain.deliveries import ReasonClass
from sendonce.domain.events import new_event
from sendonce.domain.limits import Limits
from sendonce.domain.outcomes import Outcome
from sendonce.outbox.drafts import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.stores.bulk import CANCEL, REPLAY, REQUEUE, NewOperation
from sendonce.stores.records import Filter, RequestFilter
from sendonce.stores.selections import Selection
from sendonce.stores.upkeep import REST, Person, Stage, Turn
from tests.twins.follower import Follower
from tests.twins.pair import Pair
from tests.twins.values import (
    HOLD,
    MAIL,
    PATTERNS,
    PAUSES,
    POLICY,
    TENANTS,
    TYPES,
    URLS,
    S,
    few,
    filters,
    ids,
    maybe,
    outcomes,
    persons,
    places,
    spans,
    texts,
    who,
    who_perhaps,
)

OUTBOX = Outbox()


class Twins(RuleBasedStateMachine):
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

    # People

    @rule(chosen=st.lists(places, min_size=1, max_size=4), by=who)
    def cancel(self, chosen: list[int], by: dict[str, Any]) -> None:
        self.call("cancel", [self.delivery(each) for each in chosen], **by)

    @rule(chosen=st.lists(places, min_size=1, max_size=3), kind=st.sampled_from([REQUEUE, REPLAY]), by=who)
    def open_generations(self, chosen: list[int], kind: str, by: dict[str, Any]) -> None:
        self.call("open_generations", [self.delivery(each) for each in chosen], kind=kind, **by)

    @rule(chosen=st.lists(places, min_size=1, max_size=3), by=who, sent=st.booleans(), name=maybe)
    def close_letters(self, chosen: list[int], by: dict[str, Any], sent: bool, name: str | None) -> None:
        letters = [self.letter(each) for each in chosen]
        if sent:
            self.call("attest", letters, notification_id=name, **by)
        else:
            self.call("discard", letters, **by)

    @rule(place=places, content=st.sampled_from([None, '{"n":"new"}']), to=st.none() | st.sampled_from(URLS), by=who,
          even_if_sent=st.booleans())  # fmt: skip
    def correct(self, place: int, content: str | None, to: str | None, by: dict[str, Any], even_if_sent: bool) -> None:
        chosen = self.one_of("select delivery_id from sendonce_dead_letters", place)
        self.call("correct", chosen, content=content, destination=to, even_if_sent=even_if_sent, **by)

    @rule(place=places, kind=st.sampled_from(["attested", "repaired"]), details=texts, name=maybe)
    def add_finding(self, place: int, kind: str, details: str, name: str | None) -> None:
        self.call("add_finding", self.delivery(place), kind=kind, details=details, notification_id=name)

    @rule(scope=st.sampled_from([("all", ""), ("channel", "deaf"), ("channel", "https"), ("destination", URLS[3]),
                                 ("tenant", ""), ("tenant", "acme")]), by=who_perhaps, lifts=st.booleans())  # fmt: skip
    def stop(self, scope: tuple[str, str], by: dict[str, Any], lifts: bool) -> None:
        if lifts:
            self.call("resume", *scope, operator=by["operator"])
        else:
            self.call("stop", *scope, **by)

    @rule(after=ids, limit=st.integers(0, 9), wait=spans, by=who)
    def doubt(self, after: int, limit: int, wait: timedelta, by: dict[str, Any]) -> None:
        self.call("doubt", after, limit, wait=wait)
        self.call("log_doubt", affected=limit, **by)

    # Subscriptions

    @rule(
        tenant=st.sampled_from(TENANTS), types=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3, unique=True),
        to=st.sampled_from(URLS), rate=st.sampled_from([None, 0.5, 2.0, 1e6]), operator=texts,
        kinds=st.lists(st.sampled_from(["signing", "bearer", "headers", "certificate"]), unique=True),
    )  # fmt: skip
    def add_subscription(self, **given: Any) -> None:
        self.call(
            "add_subscription", tenant=given["tenant"], types=given["types"], destination=given["to"], policy=None,
            description=None, operator=given["operator"], rate=given["rate"],
            secrets={kind: b"plain:" + kind.encode() for kind in given["kinds"]},
        )  # fmt: skip

    @rule(
        place=places, state=st.sampled_from(["active", "active", "paused", "disabled", "removed"]),
        rate=st.sampled_from([None, 0.1, 3.0]), policy=st.sampled_from([None, '{"max_attempts": 2}']),
        types=st.lists(st.sampled_from(PATTERNS), max_size=2, unique=True), by=who_perhaps, overlap=spans, what=places,
    )  # fmt: skip
    def change_subscription(self, **given: Any) -> None:
        chosen, by = self.one_of("select id from sendonce_subscriptions", given["place"]), given["by"]
        match given["what"] % 8:
            case 0:
                self.call("set_subscription_rate", chosen, given["rate"], **by)
            case 1:
                self.call("set_subscription_policy", chosen, given["policy"], **by)
            case 2:
                self.call("set_subscription_types", chosen, given["types"], **by)
            case 3:
                self.call("rotate_secret", chosen, b"plain:new", overlap=given["overlap"], **by)
            case 4:
                self.call("disable_subscription", chosen, reason=str(by["reason"]))
            case 5:
                event = new_event("sendonce.test", {}, key=f"t-{given['overlap']}", to=())
                self.call("add_test", chosen, event, operator=by["operator"])
            case _:
                self.call("set_subscription_state", chosen, given["state"], **by)

    @rule(place=places, wanted=st.integers(0, 3), back=st.integers(0, 2))
    def take_tokens(self, place: int, wanted: int, back: int) -> None:
        chosen = self.one_of("select id from sendonce_subscriptions", place)
        self.call("take_tokens", chosen, wanted)
        self.call("give_back_tokens", chosen, back)

    @rule(
        what=places, pause=st.sampled_from([S, 30 * S]), code=maybe, wanted=st.integers(0, 4), age=spans,
        room=st.sampled_from(["place:deaf", "destination:https://one.example/in", "place:one.example"]),
        answers=st.builds(Answers, through=few, failed=few, untold=few, code=maybe),
    )  # fmt: skip
    def breakers(self, **given: Any) -> None:
        room = given["room"]
        turn = self.one_of(f"select turn from sendonce_breakers where room = '{room}'", 0)
        match given["what"] % 6:
            case 0 | 1:
                self.call("trip", room, pause=given["pause"], code=given["code"])
            case 2:
                self.call("let_out", room, given["wanted"], given["pause"])
            case 3:
                self.call("give_back", room, turn, given["wanted"])
            case 4:
                self.call("learn", room, turn, given["answers"], PAUSES)
            case _:
                self.call("forget_breakers", given["age"])
        self.call("rooms", after="", limit=10)

    @rule(room=st.sampled_from(["place:deaf", "place:one.example"]), fails=st.booleans())
    def probe(self, room: str, fails: bool) -> None:
        """As the worker does it: what is let out is claimed, and what became of it is told."""
        out = self.call("let_out", room, 4, HOLD)
        if out is not None and out.amount:
            probes = {} if out.spread is None else {room: out.spread}
            self.keep(self.call("start_waiting", 1, {room: out.amount}, HOLD, probes=probes))
            self.call("learn", room, out.turn, Answers(failed=1) if fails else Answers(through=1), PAUSES)

    @rule(name=texts, message=texts, seen=st.integers(0, 3), repeat=spans, clears=st.booleans())
    def alert(self, name: str, message: str, seen: int, repeat: timedelta, clears: bool) -> None:
        if clears:
            self.call("clear_alert", name)
        else:
            self.call("raise_alert", name, message, seen=seen, repeat=repeat)
        self.call("alerts")
        self.call("readings", repeat)

    # In bulk, and what goes in time

    @rule(
        kind=st.sampled_from([REQUEUE, REPLAY, CANCEL]), reason=st.none() | st.sampled_from(ReasonClass),
        type=st.sampled_from([None, "memo.*", "memo.created", "*"]), to=st.none() | st.sampled_from(URLS),
        tenant=st.none() | st.sampled_from(TENANTS), even_if_sent=st.booleans(), by=who, since=st.none() | spans,
        until=st.none() | spans,
    )  # fmt: skip
    def begin_operation(self, **given: Any) -> None:
        now = self.pair.now
        wanted = Selection(
            type=given["type"], destination=given["to"], tenant=given["tenant"], reason=given["reason"],
            even_if_sent=given["even_if_sent"], since=None if given["since"] is None else now - given["since"],
            until=None if given["until"] is None else now - given["until"],
        )  # fmt: skip
        first, upper = self.call("bounds", given["kind"])
        self.call("match", given["kind"], wanted, after=first, upper=upper, window=3)
        self.call("begin_operation", NewOperation(
            kind=given["kind"], **given["by"], subject="all", wanted=wanted, rate=5.0, first_id=first, upper_id=upper,
        ))  # fmt: skip

    @rule(place=places, window=st.integers(1, 4), most=st.integers(1, 3), by=who_perhaps,
          state=st.sampled_from([None, None, None, "running", "paused", "cancelled"]))  # fmt: skip
    def step(self, place: int, window: int, most: int, by: dict[str, Any], state: str | None) -> None:
        chosen = self.one_of("select id from sendonce_operations where filter is not null", place)
        if state is not None:
            self.call("set_operation_state", chosen, state, **by)
            return
        kind = self.pair.ids(f"select kind from sendonce_operations where id = {chosen}")
        self.call("cancel_step" if kind == [CANCEL] else "step", chosen, window=window, most=most)

    @rule(stage=st.sampled_from(Stage), after=ids, limit=st.integers(1, 5), age=spans, counts=st.booleans())
    def retain(self, stage: Stage, after: int, limit: int, age: timedelta, counts: bool) -> None:
        self.call("count_old" if counts else "retain", stage, after, limit=limit, age=age)

    @rule(part=st.sampled_from([*Stage, REST]), worker=st.integers(1, 2), hold=spans, wait=spans, ends=st.booleans())
    def turns(self, part: str, worker: int, hold: timedelta, wait: timedelta, ends: bool) -> None:
        if ends:
            self.call("end_turn", str(part), Turn(worker, hold), wait=wait)
        else:
            self.call("take_turn", str(part), Turn(worker, hold), whole=wait)

    @rule(workers=st.none() | spans, operations=st.none() | spans, limit=st.integers(1, 5), by=who)
    def drop_rest(self, workers: Any, operations: Any, limit: int, by: dict[str, Any]) -> None:
        self.call("drop_rest", limit=limit, workers=workers, operations=operations)
        self.call("log_upkeep", "prune", subject="all", affected=1, details="{}", **by)

    @rule(person=persons, after=ids, limit=st.integers(1, 9), shared=st.booleans(), operator=texts)
    def erase(self, person: Person, after: int, limit: int, shared: bool, operator: str) -> None:
        found, _ = self.call("events_of", person, after, limit=limit)
        self.call("facts_of", found, person)
        self.call("erase", found, person, shared=shared, operator=operator)

    # Looking

    @rule(
        wanted=filters,
        place=places,
        key=st.integers(1, 9),
        limit=st.integers(1, 5),
        tenant=st.none() | st.sampled_from(TENANTS),
    )
    def look(self, wanted: Filter, place: int, key: int, limit: int, tenant: str | None) -> None:
        delivery_id, now = self.delivery(place), self.pair.now
        event_id = self.one_of("select id from sendonce_events", place)
        for name in ("events", "deliveries", "dead_letters"):
            self.call(name, wanted)
        for name in (
            "delivery",
            "attempts_of",
            "lease_of",
            "corrections_of",
            "content",
            "findings_of",
            "dead_letter_of",
        ):
            self.call(name, delivery_id)
        for name in ("event", "payload", "deliveries_of"):
            self.call(name, event_id)
        self.call("events_by_key", f"k-{key:02}")
        self.call("requests", RequestFilter(tenant=tenant, limit=limit))
        self.call("requests_by_key", f"r-{key}")
        self.call("request", self.one_of("select id from sendonce_requests", place))
        self.call("dead_letter", self.letter(place))
        self.call("undelivered", tenant, limit=limit)
        self.call("completed_after", place, since=now - 60 * S, limit=limit)
        self.call("subscriptions", tenant, limit=limit)
        self.call("operations", before=2**62, state=None, limit=limit)

    @rule(place=places)
    def look_at_all(self, place: int) -> None:
        chosen = self.one_of("select id from sendonce_subscriptions", place)
        self.call("status")
        self.call("verify_facts")
        self.call("subscription", chosen)
        self.call("secrets_of", [chosen])
        self.call("kept_secrets", chosen)
        self.call("waiting_in", [f"rate:{chosen}", "place:deaf", f"subscription:{chosen}", "stop:tenant:"])

    def teardown(self) -> None:
        try:
            self.look_at_all(0)
            self.pair.compare()
        finally:
            self.pair.close()


def decided(reports: Sequence[Report], *, can_look_up: bool | None) -> list[Result]:
    return [resolve(report, POLICY, can_look_up=can_look_up) for report in reports]
