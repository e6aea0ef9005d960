"""What each reader needs from a database: small protocols, split so that nobody sees a verb they must not use.

Every call is one transaction unless it says otherwise. Calls raise StoreBusy when the database cannot answer now;
the same call may then be made again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from sendonce.domain.attempts import NO_FENCE, Fence, Lease, Refusal, Report, Result, Verdict, Witness
from sendonce.domain.breakers import Answers, LetOut, Pauses
from sendonce.domain.events import NewEvent
from sendonce.domain.evidence import Evidence
from sendonce.domain.limits import NO_LIMITS, Limits
from sendonce.domain.serving import Served
from sendonce.store.bulk import NewOperation, OperationRow, Window
from sendonce.store.filters import Filter, Page
from sendonce.store.inbox import InboxStore
from sendonce.store.late_evidence import Weighed
from sendonce.store.readers import ReadStore
from sendonce.store.records import (
    Acted,
    AlertRow,
    ChannelRow,
    LossRow,
    Readings,
    Room,
    SubscriptionSecrets,
)
from sendonce.store.secrets import Reseal
from sendonce.store.subscriptions import Sealing
from sendonce.store.tries import MessageStore
from sendonce.store.upkeep import AuditStore, ErasureStore, RetentionStore
from sendonce.store.verifying import VerifyStore


@dataclass(frozen=True, slots=True)
class Started:
    """What a claim brought. `parked`: rows were found that must not be sent now, so claim again at once.

    `refused`: why nothing may be claimed from this database now, whatever is due.
    """

    lease: Lease | None
    parked: int = 0
    refused: Refusal | None = None


class OrchestratorStore(Protocol):
    """What the orchestrator needs: the only calls that change a delivery's state."""

    async def start(
        self, worker_id: int, limit: int, hold: timedelta, limits: Limits = NO_LIMITS, fence: Fence = NO_FENCE
    ) -> Started:
        """Lease one attempt each for up to `limit` due deliveries, oldest first, where the fence lets it.

        A delivery is never claimed by two workers. The lease is durable when this returns. Nothing is claimed that
        is stopped, whose subscription is paused, disabled or has a rate, that a breaker holds back, that is beyond the
        limits or that the worker does not serve: such rows are parked instead, each on what holds it.
        """
        ...

    async def start_waiting(
        self,
        worker_id: int,
        quotas: Mapping[str, int],
        hold: timedelta,
        limits: Limits = NO_LIMITS,
        fence: Fence = NO_FENCE,
        *,
        probes: Mapping[str, float] | None = None,
    ) -> Started:
        """Lease up to so many deliveries out of each of these rooms: of those at its front the least tried.

        What else holds one of them is looked at as by `start`, but for the room itself. A probe is the least tried of
        those at the front and of those at this part of its room (0 to 1), so that it is not always somebody's own.
        """
        ...

    async def start_doubtful(
        self,
        worker_id: int,
        limit: int,
        hold: timedelta,
        *,
        after: int,
        served: Served | None = None,
        fence: Fence = NO_FENCE,
    ) -> Started:
        """Lease up to `limit` waiting deliveries that may have been sent, with ids above `after`, due or not, but none
        before its moment."""
        ...

    async def park_unserved(self, room: str, served: Served) -> int:
        """Of a room of some destination, place or rate: let what no live worker serves wait for one that does."""
        ...

    async def give_up_unserved(self, room: str, after: int, limit: int, *, message: str) -> tuple[int, int | None]:
        """Give up what has expired in a channel's room, among `limit` of it with ids above `after`: how many were, and
        the last id looked at; None when there are no more. No attempt is made and none is counted. What may have been
        sent stays; what needs that channel no longer is due again."""
        ...

    async def settle(self, results: Sequence[Result]) -> list[Verdict]:
        """Close the attempts and move the deliveries, all or nothing; one verdict for each result, in order.

        A late result is kept as evidence: a late Delivered for a delivery that waits to retry makes the next attempt
        complete it without sending, and in every other case it becomes a finding.
        """
        ...

    async def doubt(self, after: int, limit: int, *, wait: timedelta, is_exact: bool = False) -> tuple[int, int | None]:
        """Put up to `limit` open deliveries with ids above `after` in doubt, not due before `wait` is over, nor, unless
        it `is_exact`, before the longer wait of its subscription's own policy is: how many were changed, and the last
        id looked at; None when there are no more."""
        ...

    async def refusal(self, fence: Fence) -> Refusal | None:
        """Why a worker with this fence may claim nothing now."""
        ...

    async def notice_loss(self, witness: Witness, *, wait: timedelta, noticed_by: str) -> LossRow | None:
        """Write down that this database has lost commits: what is recorded now must be asked about before it is sent,
        and not before `wait` is over, as with `doubt`; or what was written down about that since the witness. None when
        the witness is not missing: retention has taken it."""
        ...

    async def mark_loss(self, limit: int) -> LossRow | None:
        """Put up to `limit` more of the deliveries of a loss in doubt; None when there are no more."""
        ...

    async def disprove_loss(self, *, operator: str, reason: str) -> LossRow | None:
        """Nothing was lost, a person says: the loss ends, with the doubt that it alone has raised."""
        ...

    async def name_instance(self, name: str | None, *, operator: str, reason: str | None) -> Acted:
        """Give the database a name, or take it away."""
        ...

    async def log_doubt(self, *, operator: str, reason: str, affected: int) -> int:
        """Write into the operations log that a person has put open deliveries in doubt; the row's id."""
        ...

    async def cancel(self, delivery_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        """Give up what is Pending or waiting to retry, as cancelled. Others are left as they are."""
        ...

    async def cancel_step(self, operation_id: int, *, window: int, most: int) -> OperationRow:
        """The next step of an operation that cancels what matches its filter; as BulkStore.step."""
        ...


class RoomStore(Protocol):
    """What holds work back and lets it out again: rooms, breakers and rates. Used beside the orchestrator."""

    async def rooms(self, *, after: str, limit: int) -> list[Room]:
        """Where deliveries wait for a destination, place, rate or channel, by name; nobody's list can miss one."""
        ...

    async def trip(self, room: str, *, pause: timedelta, code: str | None) -> bool:
        """Open a breaker; False when there is one, whatever its state: then nothing changes."""
        ...

    async def let_out(self, room: str, wanted: int, hold: timedelta) -> LetOut:
        """Take what a breaker lets out now, at most `wanted`: one probe when it is due, or a part of its round.

        Over all callers no more is given than the breaker allows. The caller has `hold` to say what became of them.
        """
        ...

    async def give_back(self, room: str, turn: int, amount: int) -> None:
        """So many of what was let out in this turn were not sent."""
        ...

    async def learn(self, room: str, turn: int, answers: Answers, pauses: Pauses) -> bool:
        """Tell a breaker what became of attempts that it let out in this turn; True when it has opened again.

        Nothing changes when the turn is over. A breaker that is closed is gone.
        """
        ...

    async def forget_breakers(self, age: timedelta) -> int:
        """Drop breakers that nothing waits behind and that nobody has touched for so long; how many were."""
        ...

    async def take_tokens(self, subscription_id: int, wanted: int) -> int:
        """How many of `wanted` a subscription's rate allows now. Those are taken."""
        ...

    async def give_back_tokens(self, subscription_id: int, amount: int) -> None:
        """So many were taken and nothing was sent for them."""
        ...


class SecretStore(Protocol):
    """What a sender reads to sign with."""

    async def secrets_of(self, subscription_ids: Sequence[int]) -> list[SubscriptionSecrets]:
        """Of each of these: what has not expired, newest first, as it is stored; and whether it is signed."""
        ...

    async def disable_subscription(self, subscription_id: int, *, reason: str) -> bool:
        """The receiver says that it is gone for good: disable it, with a row in the operations log; False when it was
        not active."""
        ...


class SealStore(Protocol):
    """What it takes to change the key under which secrets are stored. Needs the right to read them."""

    async def reseal(self, seal: Reseal, *, operator: str) -> Acted:
        """Store every secret as `seal` returns it, all or none; the ids of the secrets. From then on none can be stored
        that is sealed the old way, for any use."""
        ...


class AlertStore(Protocol):
    """What was told to people, and when, so that several workers tell it once."""

    async def raise_alert(
        self,
        name: str,
        message: str,
        *,
        seen: int,
        repeat: timedelta,
        size: int | None = None,
        met_at: str | None = None,
    ) -> bool:
        """True when it is to be told now: it is new, has cleared since, was told longer ago than `repeat`, or it is ten
        times the `size` that was told. `met_at`: where a fault on our side was met last.
        """
        ...

    async def clear_alert(self, name: str) -> bool:
        """True when it was raised, and that it is over is to be told now."""
        ...

    async def alerts(self) -> list[AlertRow]:
        """All of them by name, those that are over too."""
        ...

    async def readings(self, window: timedelta) -> Readings:
        """What alerts are decided by. Findings count when they were made within `window`."""
        ...

    async def open_channels(self) -> tuple[ChannelRow, ...]:
        """What is open, by channel; those that have nothing open are left out."""
        ...


class LeaseStore(Protocol):
    """What the lease keeper needs. It never chooses a state: expiry asks `decide`."""

    async def ready(self) -> None:
        """Have every connection open that claims, results and leases need: none is missing after the first claim."""
        ...

    async def register(
        self,
        name: str,
        version: str,
        concurrency: int,
        *,
        is_listening: bool = False,
        serves: Sequence[str] | None = None,
    ) -> int:
        """Enter a worker: what it serves (None: it does not say), and whether it shows metrics; its id."""
        ...

    async def served(self, worker_id: int) -> dict[str, bool]:
        """What other workers serve that were seen lately, each with whether one that is alive does."""
        ...

    async def beat(self, worker_id: int, *, progressed: bool, witness: Witness | None = None) -> Witness | None:
        """Say that this worker is alive, whether it has got something done since the last time, and which claim is the
        newest that it knows of; the newest of those that all workers have said, and that the database has."""
        ...

    async def leave(self, worker_id: int) -> None:
        """Say that this worker has stopped on purpose."""
        ...

    async def is_eldest(self, worker_id: int) -> bool:
        """True for the one worker that serves what describes the database: the eldest live one that is listening."""
        ...

    async def renew(self, lease_ids: Sequence[int], hold: timedelta) -> set[int]:
        """Prolong these leases; the ids of those that are still ours. An expired one is not prolonged."""
        ...

    async def release(self, lease_ids: Sequence[int]) -> None:
        """Drop leases all of whose attempts are settled."""
        ...

    async def expire(self, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]) -> list[Result]:
        """Close the attempts of up to `limit` expired leases as Unknown and decide them, in one transaction."""
        ...

    async def end_loss(self) -> LossRow | None:
        """End the loss whose deliveries all have been asked about, or sent after their wait; None when there is
        none."""
        ...

    async def server(self) -> tuple[str, str, str] | None:
        """See ReadStore."""
        ...

    async def adopt(
        self, after: int, limit: int, decide: Callable[[Sequence[Report]], Sequence[Result]]
    ) -> tuple[list[Result], int | None]:
        """Close as Unknown what is being sent under a lease that is not there, among `limit` deliveries with ids above
        `after`, and decide it; the last id looked at, None when there are no more."""
        ...

    async def is_idle(self) -> bool:
        """True when nothing is due now and nothing is in flight, leases of dead workers included."""
        ...

    async def roll_up_counters(self) -> bool:
        """Replace many counter rows by one sum per name, a bounded step of them; True when there are more."""
        ...


class OperatorStore(Protocol):
    """What a person may do. Every action is a row in the operations log, in the same transaction."""

    async def open_generations(self, delivery_ids: Sequence[int], *, kind: str, operator: str, reason: str) -> Acted:
        """Open the next generation of finished deliveries (requeue, replay); the new ids, in the order given.

        The old rows stay as they are; an open dead letter of one is closed as requeued. NotFound or NotAllowed, and
        nothing written, when one of them does not exist, is not finished, or has a newer generation.
        """
        ...

    async def correct(
        self,
        delivery_id: int,
        *,
        content: str | None,
        destination: str | None,
        operator: str,
        reason: str,
        even_if_sent: bool = False,
    ) -> Acted:
        """Send what was given up with other content, or to another destination, as a new intent; the new delivery's id.

        The dead letter is closed as corrected; a request follows to the new destination. NotFound or NotAllowed, and
        nothing written, when its dead letter is not open, the event goes to that destination already, or it may have
        been sent before and that is not allowed.
        """
        ...

    async def discard(self, dead_letter_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        """Close open dead letters as discarded. The deliveries stay as they are."""
        ...

    async def stop(self, scope: str, value: str, *, operator: str, reason: str | None) -> Acted:
        """Hold back all sends of a scope from now on."""
        ...

    async def resume(self, scope: str, value: str, *, operator: str) -> Acted:
        """Lift a stop and make what it parked due again."""
        ...

    async def add_subscription(
        self,
        *,
        tenant: str,
        types: Sequence[str],
        destination: str,
        policy: str | None,
        description: str | None,
        operator: str,
        rate: float | None = None,
        ask: str | None = None,
        secrets: Sealing | None = None,
    ) -> int:
        """Enter a subscription with its secrets by kind (as they are to be stored, told its id); its id."""
        ...

    async def rotate_secret(
        self, subscription_id: int, secret: bytes, *, overlap: timedelta, operator: str, reason: str | None
    ) -> Acted:
        """Enter a new signing secret; those before it end after `overlap`, and are gone when they have ended."""
        ...

    async def attest(
        self, dead_letter_ids: Sequence[int], *, operator: str, reason: str, notification_id: str | None = None
    ) -> Acted:
        """Open dead letters were delivered, a person says: the next generation of each, completed; the new ids.

        The dead letters are closed as attested. NotAllowed, and nothing written, when one is not open.
        """
        ...

    async def add_evidence(self, delivery_id: int, evidence: Evidence, *, operator: str) -> Weighed:
        """Write evidence about a delivery with what it does to its newest generation. The same evidence counts once."""
        ...

    async def add_finding(
        self, delivery_id: int, *, kind: str, details: str, notification_id: str | None = None
    ) -> bool:
        """Write what reconciliation found; False when the same was found of it before."""
        ...

    async def set_subscription_state(
        self, subscription_id: int, state: str, *, operator: str, reason: str | None
    ) -> Acted:
        """Pause, disable, resume (active: what was parked is due again) or remove. Removed is for good."""
        ...

    async def set_subscription_rate(
        self, subscription_id: int, rate: float | None, *, operator: str, reason: str | None
    ) -> Acted:
        """Send at most so many a second from now on; None: as many as there are, and what was parked is due again."""
        ...

    async def set_subscription_policy(
        self, subscription_id: int, policy: str | None, *, operator: str, reason: str | None
    ) -> Acted:
        """Its own limits from now on, for what waits too; None: those of the channel and the default."""
        ...

    async def set_subscription_ask(
        self, subscription_id: int, ask: str | None, *, operator: str, reason: str | None
    ) -> Acted:
        """Where its receiver is asked from now on about what may have been sent; None: it cannot be asked."""
        ...

    async def set_subscription_types(
        self, subscription_id: int, types: Sequence[str], *, operator: str, reason: str | None
    ) -> Acted:
        """The types of event that it gets from now on, in place of those before."""
        ...

    async def add_test(self, subscription_id: int, event: NewEvent, *, operator: str) -> Acted:
        """Record an event for this subscription alone, of its tenant; the delivery's id. Needs the right to record."""
        ...


class OperationsStore(Protocol):
    """What people have done."""

    async def operations(
        self, *, before: int | None = None, state: str | None = None, limit: int = 50
    ) -> Page[OperationRow]:
        """List them, the newest first, with ids below `before`."""
        ...

    async def operation(self, operation_id: int) -> OperationRow | None: ...


class BulkStore(OperationsStore, Protocol):
    """What is done to all that match a filter: an operation that is kept, and can be taken up again at any time."""

    async def match(self, kind: str, wanted: Filter, *, after: int, upper: int, window: int) -> Window:
        """Look at up to `window` dead letters (requeue, attest, discard) or deliveries (replay, cancel) above `after`,
        and no more."""
        ...

    async def bounds(self, kind: str) -> tuple[int, int]:
        """Return the range of ids that exist now: above the first, up to the second."""
        ...

    async def begin_operation(self, operation: NewOperation) -> OperationRow:
        """Enter an operation; it is running."""
        ...

    async def step(self, operation_id: int, *, window: int, most: int) -> OperationRow:
        """Look at up to `window` more, and requeue, replay, attest or discard up to `most` of those that match.

        What was done, and how far it has come, are one transaction under a lock on the operation: of two who step at
        once the second goes on where the first has come to. Nothing is done when it is not running.
        """
        ...

    async def set_operation_state(
        self, operation_id: int, state: str, *, operator: str, reason: str | None
    ) -> OperationRow:
        """Pause it, let it run, or cancel it, with a row of its own in the log; NotFound or NotAllowed when it is not
        there or has ended. To pause a paused one is nothing."""
        ...


class Store(
    OrchestratorStore,
    RoomStore,
    LeaseStore,
    SecretStore,
    SealStore,
    AlertStore,
    OperatorStore,
    BulkStore,
    RetentionStore,
    AuditStore,
    ErasureStore,
    ReadStore,
    InboxStore,
    VerifyStore,
    MessageStore,
    Protocol,
):
    """A whole database. Only the composition root and tests see it like this."""

    async def close(self) -> None: ...


class Notifier(Protocol):
    """Waits for new work to be announced, where the database can do that."""

    async def wait(self, timeout: timedelta) -> None:
        """Return when something was announced, or after `timeout`."""
        ...

    async def close(self) -> None: ...
