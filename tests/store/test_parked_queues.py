"""Rooms, breakers, limits and rates: what cannot be sent now is not leased, and nothing of it is forgotten."""

from datetime import timedelta

import pytest

from sendonce.domain.attempts import Claim
from sendonce.domain.breakers import Answers, Pauses
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.limits import Limits
from sendonce.domain.outcomes import Delivered, Failed
from sendonce.domain.texts import CODE_LENGTH
from sendonce.store.ports import Started, Store
from sendonce.store.records import Room
from tests.given import (
    HOLD,
    WORKER,
    given_due_deliveries,
    given_due_delivery,
    given_event,
    given_lease,
    settle_with,
)
from tests.store.databases import Database

S = timedelta(seconds=1)
PAUSES = Pauses(first=10 * S, longest=60 * S)
SLOW = "https://slow.example/hook"
QUICK = "https://quick.example/hook"


def claims_of(started: Started) -> tuple[Claim, ...]:
    return started.lease.claims if started.lease else ()


def ids_of(started: Started) -> list[int]:
    return [claim.delivery_id for claim in claims_of(started)]


async def rooms(store: Store) -> dict[str, int]:
    return {room.name: room.waiting for room in await store.rooms(after="", limit=100)}


async def the_room(store: Store, name: str = f"destination:{SLOW}") -> Room:
    return next(room for room in await store.rooms(after="", limit=100) if room.name == name)


async def a_subscription(store: Store, destination: str = SLOW, *, rate: float | None = None) -> int:
    return await store.add_subscription(
        tenant="", types=["*"], destination=destination, policy=None, description=None, operator="ada", rate=rate
    )


async def test_claim_takes_what_each_destination_has_left_and_parks_the_rest(database: Database, store: Store) -> None:
    slow = given_due_deliveries(database, 5, to=SLOW)
    quick = given_due_deliveries(database, 2, to=QUICK)

    started = await store.start(WORKER, 10, HOLD, Limits(each=3))

    assert ids_of(started) == slow[:3] + quick
    assert started.parked == 2
    assert await rooms(store) == {f"destination:{SLOW}": 2}
    row = await store.delivery(slow[4])
    assert row is not None
    assert (row.parked_on, row.attempt_count, row.status) == (f"destination:{SLOW}", 0, DeliveryState.PENDING)


async def test_slots_count_what_is_in_flight(database: Database, store: Store) -> None:
    slow = given_due_deliveries(database, 3, to=SLOW)

    started = await store.start(WORKER, 10, HOLD, Limits(each=3, left={SLOW: 1}))

    assert ids_of(started) == slow[:1]
    assert (await store.start(WORKER, 10, HOLD, Limits(each=3, left={SLOW: 0}))).lease is None


async def test_host_is_limited_over_all_its_destinations(database: Database, store: Store) -> None:
    ids = [given_due_delivery(database, to=f"https://slow.example:8443/{number}") for number in range(4)]
    other = given_due_delivery(database, to="https://slow.example/9")

    started = await store.start(WORKER, 10, HOLD, Limits(each_place=2))

    assert ids_of(started) == [*ids[:2], other]
    assert await rooms(store) == {"place:slow.example:8443": 2}


@pytest.mark.parametrize(
    ("place", "spellings"),
    [
        ("[2001:db8::1]", ["[2001:db8::1]", "[2001:DB8:0:0:0:0:0:1]", "[2001:db8::0.0.0.1]:443", "[2001:db8:0::0:1]"]),
        ("10.1.2.3", ["10.1.2.3", "[::ffff:10.1.2.3]", "[::FFFF:a01:203]:443", "[0:0:0:0:0:ffff:a01:203]"]),
        ("slow.example", ["slow.example", "SLOW.example.", "slow.example:443", "Slow.Example.:443"]),
    ],
)
async def test_host_is_one_in_every_spelling(
    database: Database, store: Store, place: str, spellings: list[str]
) -> None:
    ids = [given_due_delivery(database, to=f"https://{host}/{at}") for at, host in enumerate(spellings)]

    started = await store.start(WORKER, 10, HOLD, Limits(each_place=1))

    assert ids_of(started) == ids[:1]
    assert await rooms(store) == {f"place:{place}": len(spellings) - 1}


async def test_parked_queues_of_one_host_share_what_it_has_left(database: Database, store: Store) -> None:
    one, other = "https://slow.example/a", "https://slow.example/b"
    given_due_deliveries(database, 2, to=one)
    given_due_deliveries(database, 2, to=other)
    await store.start(WORKER, 10, HOLD, Limits(each=1))
    waiting = {f"destination:{one}": 1, f"destination:{other}": 1}
    assert await rooms(store) == waiting

    started = await store.start_waiting(WORKER, waiting, HOLD, Limits(each_place=1))

    assert len(ids_of(started)) == 1


async def test_scheme_without_hosts_is_one_place_and_null_is_none(database: Database, store: Store) -> None:
    mails = [given_due_delivery(database, to=f"mailto:{name}@example.com") for name in ("ada", "bob", "cy")]
    nothing = given_due_deliveries(database, 3, to="null:a")

    started = await store.start(WORKER, 10, HOLD, Limits(each=1, each_place=2))

    assert ids_of(started) == mails[:2] + nothing
    assert await rooms(store) == {"place:mailto": 1}


async def test_subscription_is_limited_by_itself_and_its_host_by_its_address(database: Database, store: Store) -> None:
    first, second = await a_subscription(store), await a_subscription(store)
    for _ in range(2):
        given_event(database)

    started = await store.start(WORKER, 10, HOLD, Limits(each=1, each_place=10))

    assert sorted(claim.subscription_id or 0 for claim in claims_of(started)) == [first, second]
    assert await rooms(store) == {f"destination:subscription:{first}": 1, f"destination:subscription:{second}": 1}
    assert (await store.start(WORKER, 10, HOLD, Limits(left_at_place={"slow.example": 0}))).lease is None


async def test_parked_deliveries_are_claimed_oldest_first(database: Database, store: Store) -> None:
    slow = given_due_deliveries(database, 5, to=SLOW)
    await store.start(WORKER, 10, HOLD, Limits(each=1))

    started = await store.start_waiting(WORKER, {f"destination:{SLOW}": 2}, HOLD)

    assert ids_of(started) == slow[1:3]
    assert await settle_with(store, started.lease, Delivered()) == ["applied"] * 2  # type: ignore[arg-type]
    assert await rooms(store) == {f"destination:{SLOW}": 2}
    row = await store.delivery(slow[1])
    assert row is not None
    assert (row.status, row.parked_on, row.attempt_count) == (DeliveryState.COMPLETED, None, 1)


async def test_probe_is_made_with_the_least_tried_at_the_front(database: Database, store: Store) -> None:
    """One that always fails would otherwise keep a breaker open for everybody behind it."""
    poison = given_due_delivery(database, to=SLOW)
    name = f"destination:{SLOW}"
    await settle_with(store, await given_lease(store), Failed("http_500"))
    other = given_due_delivery(database, to=SLOW)
    database.advance(60 * S)
    await store.trip(name, pause=S, code=None)
    await store.start(WORKER, 10, HOLD)
    assert await rooms(store) == {name: 2}

    assert ids_of(await store.start_waiting(WORKER, {name: 1}, HOLD)) == [other]
    assert ids_of(await store.start_waiting(WORKER, {name: 1}, HOLD)) == [poison]


async def test_delivery_leaves_its_parked_queue_for_what_holds_it_longer(database: Database, store: Store) -> None:
    """A subscription that is paused while its deliveries wait elsewhere: they wait for it then, and go on with it."""
    paused, other = await a_subscription(store), await a_subscription(store)
    given_event(database)
    await store.start(WORKER, 10, HOLD, Limits(left_at_place={"slow.example": 0}))
    assert await rooms(store) == {"place:slow.example": 2}
    await store.set_subscription_state(paused, "paused", operator="ada", reason=None)

    started = await store.start_waiting(WORKER, {"place:slow.example": 2}, HOLD)

    assert [claim.subscription_id for claim in claims_of(started)] == [other]
    assert await rooms(store) == {}
    await store.set_subscription_state(paused, "active", operator="ada", reason=None)
    assert [claim.subscription_id for claim in claims_of(await store.start(WORKER, 10, HOLD))] == [paused]


async def test_parked_deliveries_stay_while_all_is_stopped(database: Database, store: Store) -> None:
    given_due_deliveries(database, 2, to=SLOW)
    await store.start(WORKER, 10, HOLD, Limits(left={SLOW: 0}))
    await store.stop("all", "", operator="ada", reason=None)

    assert (await store.start_waiting(WORKER, {f"destination:{SLOW}": 2}, HOLD)).lease is None


async def test_breaker_that_is_open_stops_claims_and_spends_no_attempt(database: Database, store: Store) -> None:
    slow, quick = given_due_delivery(database, to=SLOW), given_due_delivery(database, to=QUICK)
    assert await store.trip(f"destination:{SLOW}", pause=10 * S, code="http_503")

    started = await store.start(WORKER, 10, HOLD)

    assert ids_of(started) == [quick]
    row = await store.delivery(slow)
    assert row is not None
    assert (row.parked_on, row.attempt_count) == (f"destination:{SLOW}", 0)
    room = await the_room(store)
    assert room.breaker is not None
    assert (room.breaker.error_code, room.breaker.allowance, room.is_probe_due) == ("http_503", 0, False)
    assert room in (await store.status()).rooms


async def test_probe_that_is_due_goes_to_one_caller(database: Database, store: Store) -> None:
    given_due_deliveries(database, 2, to=SLOW)
    name = f"destination:{SLOW}"
    await store.trip(name, pause=10 * S, code=None)
    await store.start(WORKER, 10, HOLD)
    assert (await store.let_out(name, 5, HOLD)).amount == 0
    assert not (await the_room(store)).is_probe_due
    database.advance(11 * S)

    assert (await the_room(store)).is_probe_due
    assert [(await store.let_out(name, 5, HOLD)).amount for _ in range(3)] == [1, 0, 0]
    assert len(claims_of(await store.start_waiting(WORKER, {name: 1}, HOLD))) == 1
    database.advance(HOLD + S)
    assert (await store.let_out(name, 5, HOLD)).amount == 1, "the prober has died: another one tries"


async def probe(database: Database, store: Store, name: str, answers: Answers) -> bool:
    """A probe goes out when it is due; whether what it came to has opened the breaker again."""
    database.advance(61 * S)
    out = await store.let_out(name, 1, HOLD)
    assert out.amount == 1
    return await store.learn(name, out.turn, answers, PAUSES)


async def test_failed_probe_waits_longer_and_longer_up_to_the_longest(database: Database, store: Store) -> None:
    given_due_deliveries(database, 1, to=SLOW)
    name = f"destination:{SLOW}"
    await store.trip(name, pause=10 * S, code=None)
    await store.start(WORKER, 10, HOLD)
    waits = []
    for _ in range(5):
        assert not await store.trip(name, pause=10 * S, code=None), "a late failure changes nothing"
        assert await probe(database, store, name, Answers(failed=1, code="http_503"))
        breaker = (await the_room(store)).breaker
        assert breaker is not None
        waits.append(round((breaker.probe_at - (await store.status()).now).total_seconds()))

    assert waits == [20, 40, 60, 60, 60]


async def test_breaker_eases_step_by_step_with_what_gets_through(database: Database, store: Store) -> None:
    given_due_deliveries(database, 1, to=SLOW)
    name = f"destination:{SLOW}"
    await store.trip(name, pause=S, code=None)
    await store.start(WORKER, 10, HOLD)
    assert not await probe(database, store, name, Answers(through=1))
    seen = []
    while (breaker := (await the_room(store)).breaker) is not None:
        seen.append(breaker.allowance)
        out = await store.let_out(name, 100, HOLD)
        assert out.amount == breaker.allowance
        await store.learn(name, out.turn, Answers(through=out.amount), PAUSES)

    assert seen == [2, 4, 8, 16, 32]
    assert (await store.let_out(name, 1, HOLD)).amount == 0
    assert not await store.learn(name, 1, Answers(failed=1), PAUSES)


async def test_breaker_is_read_as_it_was_written(database: Database, store: Store) -> None:
    given_due_deliveries(database, 1, to=SLOW)
    name = f"destination:{SLOW}"
    await store.trip(name, pause=2.5 * S, code="E" * 500)
    await store.start(WORKER, 10, HOLD)
    assert not await probe(database, store, name, Answers(through=1))
    out = await store.let_out(name, 2, HOLD)
    await store.learn(name, out.turn, Answers(failed=1), PAUSES)
    breaker = (await the_room(store)).breaker

    assert breaker is not None
    assert (breaker.turn, breaker.allowance, breaker.on_way, breaker.through, breaker.failed) == (out.turn, 2, 1, 0, 1)
    assert (breaker.is_probing, breaker.pause, len(breaker.error_code or "")) == (False, PAUSES.first, CODE_LENGTH)
    assert breaker.opened_at < (await store.status()).now < breaker.probe_at


async def test_breaker_of_the_version_before_is_probed_and_closed(database: Database, store: Store) -> None:
    """It has written neither a turn nor a count."""
    given_due_deliveries(database, 1, to=SLOW)
    name = f"destination:{SLOW}"
    await store.trip(name, pause=S, code=None)
    database.execute("update sendonce_breakers set turn = null, on_way = null, through = null, failed = null")
    await store.start(WORKER, 10, HOLD)

    assert not await probe(database, store, name, Answers(through=1))
    assert (await store.let_out(name, 5, HOLD)).amount == 2


async def test_breaker_ignores_what_was_let_out_in_another_turn(database: Database, store: Store) -> None:
    given_due_deliveries(database, 1, to=SLOW)
    name = f"destination:{SLOW}"
    await store.trip(name, pause=S, code=None)
    await store.start(WORKER, 10, HOLD)
    database.advance(2 * S)
    late = await store.let_out(name, 1, HOLD)
    await probe(database, store, name, Answers(untold=1))
    before = await the_room(store)

    for answers in (Answers(through=9), Answers(failed=9)):
        assert not await store.learn(name, late.turn, answers, PAUSES)
    await store.give_back(name, late.turn, 1)

    assert await the_room(store) == before


async def test_probe_that_was_not_sent_is_anybodys(database: Database, store: Store) -> None:
    name = f"destination:{SLOW}"
    await store.trip(name, pause=S, code=None)
    database.advance(2 * S)
    out = await store.let_out(name, 1, HOLD)

    await store.give_back(name, out.turn, 1)

    assert (await store.let_out(name, 1, HOLD)).amount == 1


async def test_probes_are_made_all_over_a_room(database: Database, store: Store) -> None:
    """The oldest are one tenant's, and all of them would fail: another one's are tried as well, before them."""
    mine = [given_due_delivery(database, to=f"sms:{n}", tenant="a") for n in range(45)]
    yours = [given_due_delivery(database, to=f"sms:{n}", tenant="b") for n in range(45, 60)]
    await store.trip("place:sms", pause=S, code=None)
    await store.start(WORKER, 100, HOLD)
    spreads = [0.0, 0.5, 0.99]

    found = [
        ids_of(await store.start_waiting(WORKER, {"place:sms": 1}, HOLD, probes={"place:sms": spread}))[0]
        for spread in spreads
    ]

    assert found == [mine[0], mine[30], yours[13]]
    assert len(await rooms(store)) == 1


async def test_probe_prefers_what_was_never_tried(database: Database, store: Store) -> None:
    tried = [given_due_delivery(database, to=f"sms:{n}") for n in range(30)]
    await settle_with(store, await given_lease(store, limit=100), Failed("busy"))
    database.advance(60 * S)
    fresh = given_due_delivery(database, to="sms:fresh")
    last = given_due_delivery(database, to="sms:last")
    await store.trip("place:sms", pause=S, code=None)
    await store.start(WORKER, 100, HOLD)

    first = await store.start_waiting(WORKER, {"place:sms": 1}, HOLD, probes={"place:sms": 0.5})
    second = await store.start_waiting(WORKER, {"place:sms": 1}, HOLD, probes={"place:sms": 0.97})
    third = await store.start_waiting(WORKER, {"place:sms": 1}, HOLD, probes={"place:sms": 0.5})

    assert ids_of(first) + ids_of(second) == [fresh, last]
    assert ids_of(third)[0] in tried


async def test_breaker_that_nothing_waits_behind_is_forgotten(database: Database, store: Store) -> None:
    given_due_delivery(database, to=SLOW)
    for name in (f"destination:{SLOW}", f"destination:{QUICK}"):
        await store.trip(name, pause=S, code=None)
    await store.start(WORKER, 10, HOLD)
    assert await store.forget_breakers(timedelta(minutes=5)) == 0
    database.advance(timedelta(minutes=6))

    assert await store.forget_breakers(timedelta(minutes=5)) == 1
    assert (await the_room(store)).breaker is not None


async def test_breaker_whose_probe_is_still_to_come_is_not_forgotten(database: Database, store: Store) -> None:
    await store.trip(f"destination:{SLOW}", pause=timedelta(hours=1), code=None)
    database.advance(timedelta(minutes=59))
    assert await store.forget_breakers(timedelta(minutes=5)) == 0
    database.advance(timedelta(minutes=2))

    assert await store.forget_breakers(timedelta(minutes=5)) == 1


async def test_subscription_with_a_rate_waits_for_its_tokens(database: Database, store: Store) -> None:
    id = await a_subscription(store, rate=2.0)
    given_event(database)
    assert (await store.start(WORKER, 10, HOLD)).lease is None
    assert await rooms(store) == {f"rate:{id}": 1}

    assert await store.take_tokens(id, 5) == 1
    assert await store.take_tokens(id, 5) == 0
    assert len(claims_of(await store.start_waiting(WORKER, {f"rate:{id}": 1}, HOLD))) == 1
    database.advance(S)
    assert await store.take_tokens(id, 5) == 2
    database.advance(60 * S)
    assert await store.take_tokens(id, 5) == 2, "no more than a second's worth is saved up"
    database.advance(S)
    assert await store.take_tokens(id, 1) == 1
    assert await store.take_tokens(id, 1) == 1


async def test_rate_below_one_a_second_saves_up_for_one(database: Database, store: Store) -> None:
    id = await a_subscription(store, rate=0.1)
    assert await store.take_tokens(id, 1) == 1
    database.advance(5 * S)
    assert await store.take_tokens(id, 1) == 0
    database.advance(6 * S)
    assert await store.take_tokens(id, 1) == 1


async def test_tokens_that_were_not_used_are_there_again(database: Database, store: Store) -> None:
    id = await a_subscription(store, rate=4.0)
    await store.take_tokens(id, 1)
    database.advance(60 * S)
    assert await store.take_tokens(id, 4) == 4

    await store.give_back_tokens(id, 3)

    assert await store.take_tokens(id, 1) == 1
    await store.give_back_tokens(id, 100)
    assert await store.take_tokens(id, 100) == 4, "no more than a second's worth is saved up"


async def test_parked_queue_of_a_subscription_says_where_it_leads_to(database: Database, store: Store) -> None:
    rated, other = await a_subscription(store, rate=1.0), await a_subscription(store)
    given_event(database)
    await store.start(WORKER, 10, HOLD, Limits(left={f"subscription:{other}": 0}))

    found = {room.name: room.address for room in await store.rooms(after="", limit=100)}

    assert found == {f"rate:{rated}": SLOW, f"destination:subscription:{other}": SLOW}


async def test_delivery_waiting_for_its_rate_stays_while_its_host_is_busy(database: Database, store: Store) -> None:
    """It would go from the one room to the other for ever, and be at neither when its turn comes."""
    id = await a_subscription(store, rate=1.0)
    given_event(database)
    await store.start(WORKER, 10, HOLD)

    started = await store.start_waiting(WORKER, {f"rate:{id}": 1}, HOLD, Limits(left_at_place={"slow.example": 0}))

    assert started.lease is None
    assert await rooms(store) == {f"rate:{id}": 1}


async def test_delivery_without_a_rate_does_not_wait(store: Store) -> None:
    id = await a_subscription(store)

    assert await store.take_tokens(id, 7) == 7


async def test_parked_queues_are_listed_in_steps_and_none_is_missed(database: Database, store: Store) -> None:
    hosts = [f"https://h{number}.example/" for number in range(7)]
    for host in hosts:
        given_due_delivery(database, to=host)
    held = await a_subscription(store)
    await store.set_subscription_state(held, "paused", operator="ada", reason=None)
    given_event(database)
    await store.start(WORKER, 100, HOLD, Limits(left=dict.fromkeys(hosts, 0)))

    seen: list[str] = []
    while page := await store.rooms(after=seen[-1] if seen else "", limit=3):
        seen += [room.name for room in page]

    assert seen == [f"destination:{host}" for host in hosts]
