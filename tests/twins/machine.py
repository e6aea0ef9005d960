"""Every verb of a store in any order, with odd values among them, on both databases: nothing may differ."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from sendonce.domain.breakers import Answers
from sendonce.domain.deliveries import ReasonClass
from sendonce.domain.events import new_event
from sendonce.store.bulk import CANCEL, REPLAY, REQUEUE, NewOperation
from sendonce.store.filters import Filter
from sendonce.store.upkeep import REST, Person, Stage, Turn
from tests.twins.values import (
    HOLD,
    PATTERNS,
    PAUSES,
    TENANTS,
    URLS,
    S,
    few,
    filters,
    ids,
    maybe,
    persons,
    places,
    spans,
    texts,
    who,
    who_perhaps,
)
from tests.twins.working import Working


class Twins(Working):
    """And people, who look at everything too."""

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

    @rule(after=ids, limit=st.integers(0, 9), wait=spans, by=who, is_exact=st.booleans())
    def doubt(self, after: int, limit: int, wait: timedelta, by: dict[str, Any], is_exact: bool) -> None:
        self.call("doubt", after, limit, wait=wait, is_exact=is_exact)
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
            secrets=lambda _: {kind: b"plain:" + kind.encode() for kind in given["kinds"]},
        )  # fmt: skip

    @rule(
        place=places, state=st.sampled_from(["active", "active", "paused", "disabled", "removed"]),
        rate=st.sampled_from([None, 0.1, 3.0]),
        policy=st.sampled_from([None, '{"max_attempts": 2}', '{"doubt_wait": "2h"}']),
        ask=st.sampled_from([None, "https://hooks.example/{token}"]),
        types=st.lists(st.sampled_from(PATTERNS), max_size=2, unique=True), by=who_perhaps, overlap=spans, what=places,
    )  # fmt: skip
    def change_subscription(self, **given: Any) -> None:
        chosen, by = self.one_of("select id from sendonce_subscriptions", given["place"]), given["by"]
        match given["what"] % 9:
            case 0:
                self.call("set_subscription_rate", chosen, given["rate"], **by)
            case 1:
                self.call("set_subscription_policy", chosen, given["policy"], **by)
            case 8:
                self.call("set_subscription_ask", chosen, given["ask"], **by)
            case 2:
                self.call("set_subscription_types", chosen, given["types"], **by)
            case 3:
                self.call("rotate_secret", chosen, b"plain:new", overlap=given["overlap"], **by)
            case 4:
                self.call("disable_subscription", chosen, reason=str(by["reason"]))
            case 5:
                event = new_event("sendonce.test", {}, key=f"t-{given['overlap']}", to=None)
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
        wanted = Filter(
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

    @rule(stage=st.sampled_from(Stage), last_id=ids)
    def pass_by(self, stage: Stage, last_id: int) -> None:
        self.call("pass_by", stage, last_id)
        self.call("retention_reached")

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
        self.call("requests", Filter(tenant=tenant, limit=limit))
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
