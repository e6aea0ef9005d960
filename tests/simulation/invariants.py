"""What must be true after every run, whatever happened in it. One function per rule; its first line is the rule."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeAlias

from sendonce.domain.deliveries import ALLOWED, DeliveryState
from sendonce.domain.destinations import scheme_of
from sendonce.domain.policies import next_delay
from sendonce.store.records import ATTESTED
from tests.simulation.history import History, Row
from tests.simulation.nodes import POLICY
from tests.simulation.repeats import causes_of, repeats
from tests.simulation.scene import Scene
from tests.simulation.world import HOOK

Rule: TypeAlias = Callable[[History], Iterator[str]]
FINAL = ("Completed", "DeadLettered")
DOUBTFUL = ("Unknown", "Accepted")


def nobody_fell_over(history: History) -> Iterator[str]:
    """No worker, keeper or reconciliation ends with an error of its own, whatever the database and the world do."""
    yield from history.scene.broken
    yield from (error for error in history.scene.loop.errors if not error.startswith("Future exception"))


def what_was_recorded_is_there(history: History) -> Iterator[str]:
    """Every event whose commit was acknowledged has a delivery for each of its destinations and subscriptions."""
    there = {(row["key"], row["destination"]) for row in history.deliveries.values() if row["generation"] == 0}
    application = history.scene.application
    for key, destinations in application.recorded.items():
        hooks = [f"subscription:{id}" for id in history.scene.subscriptions] if key in application.subscribed else []
        for destination in (*destinations, *hooks):
            if (key, destination) not in there:
                yield f"event {key} has no delivery to {destination}"


def events_have_what_they_were_routed_to(history: History) -> Iterator[str]:
    """An event is there with all its deliveries or not at all, acknowledged or not."""
    for row in history.events:
        if row["routed"] != row["deliveries"]:
            yield f"event {row['key']} was routed to {row['routed']}, and has {row['deliveries']} deliveries"


def everything_comes_to_an_end(history: History) -> Iterator[str]:
    """When all is well again, every delivery is completed or given up within a bounded time."""
    for id, row in history.deliveries.items():
        if row["status"] not in FINAL:
            yield f"delivery {id} is {row['status']}, parked on {row['parked_on']}"


def completed_means_received(history: History) -> Iterator[str]:
    """What is marked sent has really arrived before, or a person has attested it."""
    attested = {row["delivery_id"] for row in history.findings if row["kind"] == ATTESTED}
    for id, row in history.deliveries.items():
        if row["status"] == "Completed" and id not in attested:
            done = history.changes[id][-1]["tick"]
            sends = history.by_intent.get(history.intent_of(id), ())
            if not any(effect < done for send in sends for effect in send.effects):
                yield f"delivery {id} is completed, and nothing had arrived"


def given_up_without_doubt_means_not_received(history: History) -> Iterator[str]:
    """What was given up and is not in doubt did not arrive, unless a look-up was wrong about it."""
    for id, row in history.deliveries.items():
        if row["status"] != "DeadLettered" or row["in_doubt"]:
            continue
        for send in history.sends:
            if send.delivery_id == id and send.effects:
                asked = list(history.asked([id], send.tick, history.changes[id][-1]["tick"]))
                if not any(each.forgotten or each.tick < max(send.effects) for each in asked):
                    yield f"delivery {id} was given up without doubt, and attempt {send.attempt} has arrived"


def one_token_per_intent(history: History) -> Iterator[str]:
    """All requests for one intent carry the same token, over all attempts and generations; no two intents share one."""
    intents: dict[str, str] = {}
    for intent, sends in history.by_intent.items():
        tokens = {send.token for send in sends}
        if len(tokens) > 1:
            yield f"{intent} was sent with {len(tokens)} tokens"
        for token in tokens:
            if intents.setdefault(token, intent) != intent:
                yield f"{intent} and {intents[token]} share a token"


def sent_under_a_committed_lease(history: History) -> Iterator[str]:
    """Nothing is written to the wire but under a committed lease, and not over unless a clock has jumped ahead."""
    for send in history.sends:
        claimed = history.claims.get((send.delivery_id, send.attempt))
        if send.lease_state is None or claimed is None:
            yield f"delivery {send.delivery_id}/{send.attempt} was sent before its lease was committed"
        elif send.lease_state == "ended" and not any(
            claimed[0] < jump < send.tick for jump in history.scene.jumps_ahead
        ):
            yield f"delivery {send.delivery_id}/{send.attempt} was sent when its lease was over"


def nothing_is_doubled(history: History) -> Iterator[str]:
    """Nothing has an effect twice that a token or a look-up can prevent."""
    for repeat in repeats(history):
        if repeat.cause is None:
            yield f"{repeat.intent} had an effect again by delivery {repeat.delivery_id}/{repeat.attempt}"


def hold_means_hold(history: History) -> Iterator[str]:
    """Where nobody can be asked and doubt is for a person, nothing in doubt is sent again.

    Whoever opens a generation has decided about what was sent before it, and about nothing that is sent by it.
    """
    for send in history.sends:
        if history.can_be_asked(send.delivery_id) or not history.holds(send.delivery_id):
            continue
        claimed = history.claims.get((send.delivery_id, send.attempt))
        before = [history.attempts.get((send.delivery_id, each), {}) for each in range(1, send.attempt)]
        is_decided = history.deliveries[send.delivery_id]["generation"] > 0
        is_doubtful = claimed is not None and claimed[1]["doubt"] and not is_decided
        if is_doubtful or any(each.get("outcome") in DOUBTFUL for each in before):
            yield f"delivery {send.delivery_id} was to be held, and was sent again (attempt {send.attempt})"


def asked_before_sent_again(history: History) -> Iterator[str]:
    """Where the receiver can be asked, it is asked about what may have been sent before that is sent again."""
    for send in history.sends:
        key = (send.delivery_id, send.attempt)
        if not history.can_be_asked(send.delivery_id) or key not in history.claims:
            continue
        tick, state = history.claims[key]
        if state["doubt"] and not any(history.asked([send.delivery_id], tick, send.tick)):
            yield f"delivery {key[0]} was in doubt, and attempt {key[1]} sent it without asking"
        for before in history.sends:
            if before.delivery_id == send.delivery_id and before.attempt < send.attempt:
                attempt = history.attempts.get((before.delivery_id, before.attempt), {})
                asked = any(history.asked([send.delivery_id], before.tick, send.tick))
                if attempt.get("outcome") in DOUBTFUL and not asked:
                    yield f"delivery {key[0]}: attempt {before.attempt} may have arrived, and {key[1]} did not ask"


def doubt_is_sticky(history: History) -> Iterator[str]:
    """An unknown outcome puts in doubt, and only a proof or an answered look-up clears that, in any generation."""
    ended: dict[int, str] = {}
    for row in history.log:
        if row["what"] == "attempt" and row["detail"]:
            ended[row["id"]] = row["detail"]
        if row["what"] != "delivery":
            continue
        if row["was"] is None:
            yield from _inherited(history, row)
        elif row["was"] == "InProgress" and ended.get(row["id"]) in DOUBTFUL and not row["doubt"]:
            yield f"delivery {row['id']} is not in doubt after an unknown outcome"
        elif row["was_doubt"] and not row["doubt"] and row["became"] != "Completed":
            claimed = history.claims.get((row["id"], row["attempt"]), (0, {}))[0]
            answers = history.askings.get(row["id"], ())
            if not any(claimed < each.tick < row["tick"] and each.answer == "NotThere" for each in answers):
                yield f"delivery {row['id']} was in doubt, and nobody has said that it did not arrive"


def _inherited(history: History, new: Row) -> Iterator[str]:
    """A correction is another intent, and what a person attests is born completed."""
    id, born = new["id"], new["became"]
    before = [history.deliveries[each] for each in history.family(id) if each < id][-1:]
    is_same_intent = bool(before) and before[0]["corrections"] == history.deliveries[id]["corrections"]
    if is_same_intent and before[0]["in_doubt"] and not new["doubt"] and born == "Pending":
        yield f"delivery {id} is a new generation of one in doubt, and is not in doubt"


def attempts_are_one_at_a_time(history: History) -> Iterator[str]:
    """A delivery has one active attempt at most, and as many ended ones as it counts."""
    active: set[int] = set()
    for row in history.log:
        if row["what"] == "attempt":
            if row["became"] == "Leased":
                if row["id"] in active:
                    yield f"delivery {row['id']} had two active attempts"
                active.add(row["id"])
            else:
                active.discard(row["id"])
    counts = Counter(key[0] for key, row in history.attempts.items() if row["outcome"])
    for id, row in history.deliveries.items():
        if counts[id] != row["attempt_count"]:
            yield f"delivery {id} counts {row['attempt_count']} attempts, and has {counts[id]}"


def states_move_as_drawn(history: History) -> Iterator[str]:
    """States follow the diagram, and what has ended never changes."""
    for row in history.log:
        if row["what"] == "delivery" and row["was"] is not None:
            was, became = DeliveryState(row["was"]), DeliveryState(row["became"])
            if was.is_final or (became is not was and became not in ALLOWED[was]):
                yield f"delivery {row['id']} went from {was} to {became}"


def dead_letters_match(history: History) -> Iterator[str]:
    """There is one dead letter, with a reason, for each delivery that was given up, and for no other."""
    letters = Counter(row["delivery_id"] for row in history.letters)
    given_up = Counter(id for id, row in history.deliveries.items() if row["status"] == "DeadLettered")
    if letters != given_up:
        yield f"dead letters {sorted((letters - given_up) + (given_up - letters))} do not match"


def late_results_are_kept(history: History) -> Iterator[str]:
    """A result that came after its lease was lost is kept as a finding, and nothing else is called late."""
    found = {
        (row["delivery_id"], row["attempt"], row["outcome"])
        for row in history.findings
        if row["kind"] in ("late_result", "late_proof")
    }
    late = {(each.delivery_id, each.attempt, each.outcome) for each in history.scene.late}
    for each in sorted(late ^ found):
        yield f"delivery {each[0]}/{each[1]} was {each[2]}, too late, and that is {'not ' * (each in late)}kept"


def applied_is_what_is_written(history: History) -> Iterator[str]:
    """A result that is called applied has ended its own attempt, under its own lease."""
    for told in history.scene.applied:
        row = history.attempts[told.delivery_id, told.attempt]
        if (row["lease_id"], row["outcome"]) != (told.lease_id, told.outcome):
            yield f"delivery {told.delivery_id}/{told.attempt} ended as {row['outcome']}, not as {told.outcome}"


def late_is_what_lost_its_lease(history: History) -> Iterator[str]:
    """Only a result whose attempt was ended by somebody else is late; the same one again is not."""
    for each in history.scene.late:
        attempt = history.attempts.get((each.delivery_id, each.attempt))
        if attempt is not None and attempt["error_code"] != "lease_expired":
            yield f"delivery {each.delivery_id}/{each.attempt} was applied, and called late when it was told again"


def proven_is_not_sent(history: History) -> Iterator[str]:
    """What a late answer has proven is completed without being sent again."""
    for send in history.sends:
        claimed = history.claims.get((send.delivery_id, send.attempt))
        if claimed and claimed[1]["proven"]:
            yield f"delivery {send.delivery_id}/{send.attempt} was sent, and had been proven before"


def held_back_is_not_claimed(history: History) -> Iterator[str]:
    """Nothing is claimed that is stopped or whose subscription is paused or disabled at that moment."""
    stops: set[str] = set()
    states: dict[int, str] = {}
    for row in history.log:
        if row["what"] == "stop":
            (stops.add if row["became"] else stops.discard)(row["detail"])
        elif row["what"] == "subscription":
            states[row["id"]] = row["became"]
        elif row["what"] == "attempt" and row["was"] is None:
            delivery = history.deliveries[row["id"]]
            held = stops & {"all:", f"channel:{scheme_of(delivery['address'])}", f"tenant:{delivery['tenant']}"}
            if held or states.get(delivery["subscription_id"]) in ("paused", "disabled"):
                yield f"delivery {row['id']} was claimed, and was held back"


def claims_are_served(history: History) -> Iterator[str]:
    """No attempt is spent on what its worker has no channel for."""
    for row in history.attempts.values():
        if row["error_code"] == "no_channel":
            yield f"delivery {row['delivery_id']} was claimed by a worker that has no channel for it"


def no_lease_is_left(history: History) -> Iterator[str]:
    """When all is done and everybody has left, there is no lease."""
    for row in history.leases:
        yield f"lease {row['id']} is left"


def attempts_keep_their_lease(history: History) -> Iterator[str]:
    """A lease is there for as long as an attempt is open under it: whoever dies in between leaves none without one."""
    for row in history.log:
        if row["what"] == "lease":
            yield f"lease {row['lease']} was deleted while an attempt was open under it"


def counters_count(history: History) -> Iterator[str]:
    """The counters say what the rows say."""
    counted = {row["name"]: row["amount"] for row in history.counters}
    moves = Counter(
        row["became"] for row in history.log if row["what"] == "delivery" and row["was"] not in (None, row["became"])
    )
    for name, state in (("completed", "Completed"), ("retried", "PendingRetry"), ("dead_lettered", "DeadLettered")):
        if counted.get(name, 0) != moves[state]:
            yield f"{moves[state]} became {state}, and {counted.get(name, 0)} were counted"


def nobody_hurries_us(history: History) -> Iterator[str]:
    """What a receiver puts off is not sent again sooner than by the backoff, however soon it asks for it."""
    for (id, attempt), row in history.attempts.items():
        again = history.attempts.get((id, attempt + 1))
        if again is None or row["error_code"] != "busy" or history.deliveries[id]["proven_at"]:
            continue
        deferred = [history.attempts[id, each]["outcome"] for each in range(1, attempt + 1)].count("Deferred")
        shortest = next_delay(POLICY, deferred, 1.0) / timedelta(microseconds=1)
        pause = again["created_at"] - row["finished_at"]
        if not history.claims[id, attempt + 1][1]["doubt"] and pause < shortest:
            yield f"delivery {id} was put off, and came again after {pause / 1e6} s (attempt {attempt + 1})"


def nobody_asks_too_early(history: History) -> Iterator[str]:
    """What may have been sent is left alone, in every generation, until its receiver must know whether it has it."""
    wait = POLICY.doubt_wait / timedelta(microseconds=1)
    for (id, attempt), row in history.attempts.items():
        if row["outcome"] not in ("Unknown", "Accepted") or not history.can_be_asked(id):
            continue
        for later, again in history.attempts.items():
            is_after = later[0] in history.family(id) and (later > (id, attempt))
            if not is_after or history.deliveries[later[0]]["corrections"] != history.deliveries[id]["corrections"]:
                continue
            pause = again["created_at"] - row["finished_at"]
            if pause < wait and not history.claims[later][1]["proven"]:
                yield f"delivery {later[0]}/{later[1]} began {pause / 1e6} s after delivery {id}/{attempt} was in doubt"


def subscriptions_are_signed(history: History) -> Iterator[str]:
    """What goes to a subscription is signed with its secret."""
    for send in history.sends:
        if send.kind == HOOK and not send.is_signed:
            yield f"delivery {send.delivery_id}/{send.attempt} was sent without a signature"


def breakers_wait_no_longer_than_they_may(history: History) -> Iterator[str]:
    """A breaker's pause grows by a failed probe alone, and is the first one or at most half of the outage so far."""
    first = history.scene.config.breaker_pause.total_seconds()
    for row in history.log:
        if row["what"] != "breaker":
            continue
        now = json.loads(row["detail"])
        if float(row["became"]) > float(row["was"]) and not row["was_doubt"]:
            yield f"{now['room']} is left alone for {row['became']} s after {row['was']} s, and nobody had probed"
        if not now["allowance"] and not row["doubt"] and now["wait"] > max(first, now["outage"] / 2) + 1e-3:
            yield f"{now['room']} is left alone for {now['wait']} s after an outage of {now['outage']} s"


RULES: tuple[Rule, ...] = (
    nobody_fell_over, what_was_recorded_is_there, events_have_what_they_were_routed_to, everything_comes_to_an_end,
    completed_means_received,
    given_up_without_doubt_means_not_received, one_token_per_intent, sent_under_a_committed_lease, nothing_is_doubled,
    hold_means_hold, asked_before_sent_again, doubt_is_sticky, attempts_are_one_at_a_time, states_move_as_drawn,
    dead_letters_match, late_results_are_kept, applied_is_what_is_written, late_is_what_lost_its_lease,
    claims_are_served,
    proven_is_not_sent, held_back_is_not_claimed, no_lease_is_left, attempts_keep_their_lease, counters_count,
    subscriptions_are_signed,
    nobody_hurries_us, nobody_asks_too_early,
    breakers_wait_no_longer_than_they_may,
)  # fmt: skip
LOST = (
    "what_was_recorded_is_there",
    "events_have_what_they_were_routed_to",
    "everything_comes_to_an_end",
    "completed_means_received",
)
DOUBLED = ("nothing_is_doubled", "hold_means_hold")


def check(scene: Scene) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Every broken rule with what broke it; and what the run came to."""
    history = History(scene)
    broken = [(rule.__name__, message) for rule in RULES for message in rule(history)]
    names = Counter(name for name, _ in broken)
    states = Counter(row["status"] for row in history.deliveries.values())
    return broken, {
        "events": len(scene.application.recorded),
        "deliveries": len(history.deliveries),
        "attempts": len(history.attempts),
        "sends": len(history.sends),
        "completed": states["Completed"],
        "dead_lettered": states["DeadLettered"],
        "held": sum(row["reason"] == "in_doubt" for row in history.letters),
        "late_results": len(scene.late),
        "database_faults": scene.trouble.failures,
        "lost": sum(names[name] for name in LOST),
        "doubled": sum(names[name] for name in DOUBLED),
        **{f"repeated_{cause}": amount for cause, amount in causes_of(history).items()},
    }
