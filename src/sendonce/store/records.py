"""What the stores hand out to people: rows of events, deliveries, attempts and the rest, as plain values."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from sendonce.domain.breakers import Breaker
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.requests import RequestStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    id: int
    tenant: str
    type: str
    key: str
    subject: str | None
    version: int | None
    headers: str | None
    created_at: datetime
    content_gone_at: datetime | None = None
    history_gone_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """A request, and how far it is: of its required recipients so many are notified, open or given up."""

    id: int
    tenant: str
    type: str
    subject: str
    version: int
    event_id: int
    created_at: datetime
    status: RequestStatus
    required: int
    notified: int
    open: int
    given_up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    id: int
    event_id: int
    tenant: str
    type: str
    key: str
    destination: str
    subscription_id: int | None
    generation: int
    corrections: int
    status: DeliveryState
    attempt_count: int
    deferred_count: int
    in_doubt: bool
    next_attempt_at: datetime | None
    not_before: datetime | None
    parked_on: str | None
    proven_at: datetime | None
    final_error_code: str | None
    notification_id: str | None
    notified_at: datetime | None
    expires_at: datetime | None
    if_unsure: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    delivery_id: int
    attempt: int
    status: str
    lease_id: int
    outcome: str | None
    error_code: str | None
    error_message: str | None
    notification_id: str | None
    response: str | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRow:
    """A delivery given up, with what a person needs to decide about it. `in_doubt`: it may have been sent, before or,
    where commits were lost after it was given up, in the time that is lost."""

    id: int
    delivery_id: int
    event_id: int
    tenant: str
    type: str
    key: str
    destination: str
    generation: int
    in_doubt: bool
    reason: ReasonClass
    error_code: str | None
    error_message: str | None
    created_at: datetime
    closed_at: datetime | None
    closed_as: str | None
    closed_by: str | None


class GivenUp(NamedTuple):
    """So many open dead letters with the same reason, error code, type and destination."""

    reason: ReasonClass
    error_code: str | None
    type: str
    address: str
    amount: int
    oldest_at: datetime
    newest_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterGroup:
    """So many open dead letters of one type with the same reason and error code, at one host. `host` is the scheme of
    what has none."""

    reason: ReasonClass
    error_code: str | None
    type: str
    host: str
    count: int
    oldest_at: datetime
    newest_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    id: int
    delivery_id: int
    attempt: int | None
    kind: str
    outcome: str | None
    error_code: str | None
    notification_id: str | None
    details: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """What came in later about a delivery, from where, and what it did (see `domain.evidence.Effect`)."""

    id: int
    delivery_id: int
    attempt: int | None
    source: str
    outcome: str
    effect: str
    notification_id: str | None
    reference: str | None
    occurred_at: datetime | None
    created_at: datetime
    details: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionRow:
    """A delivery that goes instead of one that was given up (`replaces`), and who has corrected it, and why."""

    delivery_id: int
    replaces: int
    destination: str
    replaced_destination: str | None
    operator: str | None
    reason: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    id: int
    tenant: str
    types: tuple[str, ...]
    destination: str
    state: str
    state_reason: str | None
    policy: str | None
    rate: float | None
    description: str | None
    created_at: datetime
    ask: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SecretRow:
    """A subscription's secret as it is stored: `kind` is signing, bearer, headers or certificate."""

    subscription_id: int
    id: int
    kind: str
    secret: bytes
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SubscriptionSecrets:
    """What one subscription has, newest first. `is_signed`: it had a signing secret, so nothing goes out without."""

    subscription_id: int
    is_signed: bool
    secrets: tuple[SecretRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSecret:
    """That a subscription has a secret, since when, and until when; never the secret."""

    id: int
    kind: str
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Where deliveries wait that cannot be sent now: `destination:…`, `place:…`, `rate:…`, or `channel:…` for one that
    not every worker serves. A count stops at a cap. `address`: where a subscription's own leads to. `is_served`: some
    live worker takes out of a channel's.
    """

    name: str
    waiting: int
    address: str | None = None
    breaker: Breaker | None = None
    is_probe_due: bool = False
    is_served: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    name: str
    message: str
    is_raised: bool
    seen: int
    raised_at: datetime
    told_at: datetime
    met_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow:
    """What is open of one channel: since when its oldest delivery is on its way, its breakers that are open, and since
    when the first of them is. What a person holds back (a stop, a pause) is left out.

    A delivery is on its way since it was tried first; before that, since it is due or had to wait.
    """

    scheme: str
    oldest_open_at: datetime | None
    breakers: int
    breaker_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRow:
    """Sends held back: `scope` is all, channel, destination or tenant."""

    scope: str
    value: str
    operator: str
    reason: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    id: int
    name: str
    version: str
    concurrency: int
    started_at: datetime
    seen_at: datetime
    progressed_at: datetime | None
    stopped_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """The lease under which an attempt is being sent."""

    id: int
    worker_id: int
    worker_name: str | None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRow:
    """This database has lost commits, and a worker noticed. `doubted` deliveries with ids up to `upto_id` were put in
    doubt for that; those above `marked_id` are still to be looked at."""

    id: int
    noticed_at: datetime
    noticed_by: str
    ended_at: datetime | None
    ended_by: str | None
    upto_id: int
    marked_id: int
    doubted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxCounts:
    """The inbox at a glance. `oldest_due_at`: since when the first message is due that nobody handles, at
    `late_consumer`."""

    waiting: int = 0
    dead: int = 0
    oldest_due_at: datetime | None = None
    duplicates: int = 0
    late_consumer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The whole at a glance. Counts stop at `COUNT_CAP`. `parked_by`: what is parked, by its cause."""

    now: datetime
    schema_version: int
    due: int
    oldest_due_at: datetime | None
    scheduled: int
    retrying: int
    in_flight: int
    in_doubt: int
    parked: int
    dead_letters: int
    completed: int
    workers: tuple[WorkerRow, ...] = field(default=())
    stops: tuple[StopRow, ...] = field(default=())
    rooms: tuple[Room, ...] = field(default=())
    alerts: tuple[AlertRow, ...] = field(default=())
    instance: str | None = None
    loss: LossRow | None = None
    parked_by: tuple[tuple[str, int], ...] = field(default=())
    inbox: InboxCounts = field(default=InboxCounts())


@dataclass(frozen=True, slots=True, kw_only=True)
class UnservedRow:
    """So many deliveries wait for a channel that no live worker serves, the first of them since then."""

    name: str
    waiting: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What alerts are decided by. Counts stop at `READING_CAP`; `is_stopped`: everything is held back by a person."""

    now: datetime
    dead_letters: int
    oldest_due_at: datetime | None
    in_doubt: int
    findings: int
    losses: int
    is_stopped: bool
    channels: tuple[ChannelRow, ...] = ()
    unserved: tuple[UnservedRow, ...] = ()
    inbox: InboxCounts = field(default=InboxCounts())


COUNT_CAP = 100_000
# Looked at by every worker twice a minute, so it is less.
READING_CAP = 10_000
# Of what is due, of what waits for a retry, and of the rooms, no more than this is looked at for the oldest.
FRONT_CAP = 2_000
# What was told is told again when it is so many times as much.
GROWTH = 10
# The kind of finding that says who has attested a delivery as sent, and why.
ATTESTED = "attested"
# Of each room no more than this is counted, and at a glance no more rooms than this are shown.
ROOM_CAP = 10_000
ROOMS_SHOWN = 100
# A list of subscriptions has no more than this, unless less is wanted.
# Who is named in the operations log for what no person did.
ENGINE = "sendonce worker"
# A worker says every two seconds that it is there.
ALIVE = timedelta(seconds=15)
# What a worker served counts so long after it was seen: while it is replaced nobody sends without its profile.
LATELY = timedelta(hours=1)


# What the operations log says of whoever brings a subscription to a state.
VERBS = {"active": "resume", "paused": "pause", "disabled": "disable", "removed": "remove"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """What an operator's action did: the ids it touched, and its row in the operations log."""

    ids: tuple[int, ...]
    operation_id: int
