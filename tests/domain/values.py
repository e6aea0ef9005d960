"""Strategies for the domain's values: every outcome, all sorts of policies, deliveries in every situation."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from sendonce.domain.answers import TABLE
from sendonce.domain.attempts import Claim
from sendonce.domain.deliveries import Delivery, DeliveryId
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Fault, Outcome, Refused, Unknown
from sendonce.domain.policies import IfUnsure, Policy

NOTHING = timedelta(0)
spreads = st.floats(0, 1, exclude_max=True)
waits = st.timedeltas(timedelta(days=-1), timedelta(days=2))


def outcomes() -> st.SearchStrategy[Outcome]:
    return st.one_of(
        st.builds(Delivered, st.none() | st.text(max_size=5)),
        st.builds(Accepted, st.text(max_size=5)),
        st.builds(Refused, st.just("E1")),
        st.builds(Failed, st.just("E2"), retry_after=st.none() | waits),
        st.builds(Unknown, st.just("E3")),
        st.builds(Deferred, st.just("E4"), again_in=st.none() | waits, fault=st.none() | st.sampled_from(Fault)),
        st.sampled_from([row.outcome for rows in TABLE.values() for row in rows]),
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    first = draw(st.timedeltas(timedelta(milliseconds=1), timedelta(hours=2)))
    return Policy(
        max_attempts=draw(st.integers(1, 60)),
        first_delay=first,
        longest_delay=first + draw(st.timedeltas(NOTHING, timedelta(days=2))),
        jitter=draw(st.floats(0, 1)),
        doubt_wait=draw(st.timedeltas(NOTHING, timedelta(hours=1))),
        retry_after_cap=draw(st.timedeltas(NOTHING, timedelta(hours=3))),
        if_unsure=draw(st.sampled_from(IfUnsure)),
    )


@st.composite
def deliveries(draw: st.DrawFn) -> Delivery:
    attempts = draw(st.integers(0, 80))
    return Delivery(
        id=DeliveryId(draw(st.integers(1, 2**63 - 1))),
        attempt_count=attempts,
        deferred_count=draw(st.integers(0, attempts)),
        in_doubt=draw(st.booleans()),
        can_look_up=draw(st.sampled_from([True, False, None])),
        time_left=draw(st.none() | waits),
        if_unsure=draw(st.none() | st.sampled_from(IfUnsure)),
        put_off_for=draw(st.timedeltas(NOTHING, timedelta(days=90))),
    )


def a_delivery(
    *,
    attempt_count: int = 0,
    deferred_count: int = 0,
    in_doubt: bool = False,
    can_look_up: bool | None = False,
    time_left: timedelta | None = None,
    if_unsure: IfUnsure | None = None,
    put_off_for: timedelta = NOTHING,
) -> Delivery:
    return Delivery(
        id=DeliveryId(1),
        attempt_count=attempt_count,
        deferred_count=deferred_count,
        in_doubt=in_doubt,
        can_look_up=can_look_up,
        time_left=time_left,
        if_unsure=if_unsure,
        put_off_for=put_off_for,
    )


def a_claim(**changes: object) -> Claim:
    """A claim of a first attempt, with `changes`."""
    plain = Claim(
        delivery_id=7,
        attempt=1,
        event_id=3,
        tenant="",
        type="memo.created",
        key="memo-1",
        destination="null:a",
        address="null:a",
        payload="{}",
        content=None,
        headers=None,
        subject=None,
        version=None,
        recorded_at=datetime(2030, 1, 1, tzinfo=UTC),
        subscription_id=None,
        subscription_state=None,
        policy=None,
        if_unsure=None,
        attempt_count=0,
        deferred_count=0,
        corrections=0,
        generation=0,
        in_doubt=False,
        is_proven=False,
        notification_id=None,
        seconds_left=None,
    )
    return plain._replace(**changes)  # type: ignore[arg-type]
