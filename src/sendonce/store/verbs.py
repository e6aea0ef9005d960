"""Every verb of a store, one line each: where it is carried out. What it does is said in the file of its noun."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from enum import Enum, auto
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from sendonce.domain.attempts import Result
from sendonce.errors import ConfigError
from sendonce.sql.steps import Steps
from sendonce.store import alerts as alert_verbs
from sendonce.store import bulk as bulk_verbs
from sendonce.store import corrections as correction_verbs
from sendonce.store import dead_letters as dead_letter_verbs
from sendonce.store import deliveries as delivery_verbs
from sendonce.store import erasure as erasure_verbs
from sendonce.store import events as event_verbs
from sendonce.store import inbox as inbox_verbs
from sendonce.store import late_evidence as evidence_verbs
from sendonce.store import leases as lease_verbs
from sendonce.store import losses as loss_verbs
from sendonce.store import operations_log, verifying
from sendonce.store import parking as parking_verbs
from sendonce.store import reconciliation as reconciliation_verbs
from sendonce.store import requests as request_verbs
from sendonce.store import retention as retention_verbs
from sendonce.store import secrets as secret_verbs
from sendonce.store import status as status_verbs
from sendonce.store import stops as stop_verbs
from sendonce.store import subscriptions as subscription_verbs
from sendonce.store import tries as try_verbs
from sendonce.store import workers as worker_verbs
from sendonce.store.leases import Decide, Settled
from sendonce.store.records import LossRow

T = TypeVar("T")
Given = ParamSpec("Given")
Verb: TypeAlias = Callable[Concatenate[Any, Given], Coroutine[Any, Any, T]]


class On(Enum):
    """Which connection: what is on different ones never waits for each other."""

    CLAIMS = auto()
    RESULTS = auto()
    LEASES = auto()
    PEOPLE = auto()
    READING = auto()
    UPKEEP = auto()


def acts(on: On, verb: Callable[Given, Steps[T]]) -> Verb[Given, T]:
    """All of a verb's queries or none of them."""
    return _bound(on, verb, is_atomic=True)


def asks(on: On, verb: Callable[Given, Steps[T]]) -> Verb[Given, T]:
    """A verb of one query, or of several that each may see a later moment."""
    return _bound(on, verb, is_atomic=False)


def reads(on: On, verb: Callable[Given, Steps[T]]) -> Verb[Given, T]:
    """The same, and it changes nothing: SQLite's one writer is not waited for."""
    return _bound(on, verb, is_atomic=False, only_reads=True)


def sees(on: On, verb: Callable[Given, Steps[T]]) -> Verb[Given, T]:
    """The same, and all of its queries see one moment."""
    return _bound(on, verb, is_atomic=True, only_reads=True)


def _bound(on: On, verb: Callable[Given, Steps[T]], *, is_atomic: bool, only_reads: bool = False) -> Verb[Given, T]:
    async def carried_out(store: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> T:
        if is_atomic and only_reads and store.is_callers:
            raise ConfigError("this check needs a connection of its own: open the database by its address")
        result: T = await store.carry_out(verb(*args, **kwargs), on, is_atomic=is_atomic, only_reads=only_reads)
        return result

    carried_out.__name__, carried_out.__doc__ = verb.__name__, verb.__doc__
    return carried_out


class Verbs(ABC):
    """What is the same on every database. `is_callers`: it all happens in a transaction that is the caller's."""

    is_callers = False

    # How this database settles, as steps of a verb in whose transaction it happens.
    settled: Settled

    @abstractmethod
    async def carry_out(self, steps: Steps[T], on: On, *, is_atomic: bool, only_reads: bool = False) -> T:
        """Carry out steps: all or none of them when they are atomic, which SQLite's always are."""

    status = reads(On.PEOPLE, status_verbs.status)
    instance = reads(On.PEOPLE, status_verbs.instance)
    server = reads(On.PEOPLE, status_verbs.server)
    backfills = reads(On.PEOPLE, status_verbs.backfills)
    retention_reached = reads(On.PEOPLE, status_verbs.retention_reached)
    waiting_in = reads(On.PEOPLE, status_verbs.waiting_in)

    events = reads(On.PEOPLE, event_verbs.events)
    event = reads(On.PEOPLE, event_verbs.event)
    events_by_key = reads(On.PEOPLE, event_verbs.events_by_key)
    payload = reads(On.PEOPLE, event_verbs.payload)

    requests = reads(On.PEOPLE, request_verbs.requests)
    requests_by_key = reads(On.PEOPLE, request_verbs.requests_by_key)
    request = reads(On.PEOPLE, request_verbs.request)

    deliveries = reads(On.PEOPLE, delivery_verbs.deliveries)
    undelivered = reads(On.PEOPLE, delivery_verbs.undelivered)
    delivery = reads(On.PEOPLE, delivery_verbs.delivery)
    delivery_by_token = reads(On.PEOPLE, delivery_verbs.delivery_by_token)
    deliveries_of = reads(On.PEOPLE, delivery_verbs.deliveries_of)
    generations_of = reads(On.PEOPLE, delivery_verbs.generations_of)
    attempts_of = reads(On.PEOPLE, delivery_verbs.attempts_of)
    lease_of = reads(On.PEOPLE, delivery_verbs.lease_of)
    findings_of = reads(On.PEOPLE, delivery_verbs.findings_of)
    namespace = reads(On.PEOPLE, delivery_verbs.namespace)
    seek_deliveries = reads(On.PEOPLE, evidence_verbs.seek_deliveries)
    preview_evidence = reads(On.PEOPLE, evidence_verbs.preview_evidence)
    evidence_of = reads(On.PEOPLE, evidence_verbs.evidence_of)
    cancel = acts(On.RESULTS, delivery_verbs.cancel)

    dead_letters = reads(On.PEOPLE, dead_letter_verbs.dead_letters)
    dead_letter_summary = reads(On.PEOPLE, dead_letter_verbs.dead_letter_summary)
    dead_letter = reads(On.PEOPLE, dead_letter_verbs.dead_letter)
    dead_letter_of = reads(On.PEOPLE, dead_letter_verbs.dead_letter_of)

    messages = reads(On.PEOPLE, inbox_verbs.messages)
    message = reads(On.PEOPLE, inbox_verbs.message)
    tries_of = reads(On.PEOPLE, inbox_verbs.tries_of)
    receipts_of = reads(On.PEOPLE, inbox_verbs.receipts_of)
    inbox_counts = reads(On.PEOPLE, inbox_verbs.inbox_counts)
    retry_messages = acts(On.PEOPLE, inbox_verbs.retry_messages)
    discard_messages = acts(On.PEOPLE, inbox_verbs.discard_messages)
    erase_message = acts(On.PEOPLE, inbox_verbs.erase_message)

    open_generations = acts(On.PEOPLE, dead_letter_verbs.open_generations)
    discard = acts(On.PEOPLE, dead_letter_verbs.discard)
    correct = acts(On.PEOPLE, correction_verbs.correct)
    corrections_of = reads(On.PEOPLE, correction_verbs.corrections_of)
    content = reads(On.PEOPLE, correction_verbs.content)

    operations = reads(On.PEOPLE, bulk_verbs.operations)
    operation = reads(On.PEOPLE, bulk_verbs.operation)
    match = reads(On.PEOPLE, bulk_verbs.match)
    bounds = reads(On.PEOPLE, bulk_verbs.bounds)
    begin_operation = asks(On.PEOPLE, bulk_verbs.begin_operation)
    step = acts(On.PEOPLE, bulk_verbs.step)
    cancel_step = acts(On.RESULTS, bulk_verbs.cancel_step)
    set_operation_state = acts(On.PEOPLE, bulk_verbs.set_operation_state)

    stop = acts(On.PEOPLE, stop_verbs.stop)
    resume = acts(On.PEOPLE, stop_verbs.resume)

    subscriptions = reads(On.PEOPLE, subscription_verbs.subscriptions)
    subscription = reads(On.PEOPLE, subscription_verbs.subscription)
    held_subscriptions = reads(On.PEOPLE, subscription_verbs.held_subscriptions)
    add_subscription = acts(On.PEOPLE, subscription_verbs.add_subscription)
    set_subscription_state = acts(On.PEOPLE, subscription_verbs.set_subscription_state)
    set_subscription_rate = acts(On.PEOPLE, subscription_verbs.set_subscription_rate)
    set_subscription_policy = acts(On.PEOPLE, subscription_verbs.set_subscription_policy)
    set_subscription_ask = acts(On.PEOPLE, subscription_verbs.set_subscription_ask)
    set_subscription_types = acts(On.PEOPLE, subscription_verbs.set_subscription_types)
    disable_subscription = acts(On.PEOPLE, subscription_verbs.disable_subscription)
    add_test = acts(On.PEOPLE, subscription_verbs.add_test)

    # On the connection of people: no claim, result or renewal waits for a secret that is being read.
    secrets_of = reads(On.PEOPLE, secret_verbs.secrets_of)
    kept_secrets = reads(On.PEOPLE, secret_verbs.kept_secrets)
    rotate_secret = acts(On.PEOPLE, secret_verbs.rotate_secret)
    reseal = acts(On.PEOPLE, secret_verbs.reseal)

    raise_alert = acts(On.PEOPLE, alert_verbs.raise_alert)
    clear_alert = asks(On.PEOPLE, alert_verbs.clear_alert)
    alerts = reads(On.PEOPLE, alert_verbs.alerts)
    readings = reads(On.PEOPLE, alert_verbs.readings)
    open_channels = reads(On.PEOPLE, alert_verbs.open_channels)

    rooms = reads(On.CLAIMS, parking_verbs.rooms)
    trip = acts(On.CLAIMS, parking_verbs.trip)
    let_out = acts(On.CLAIMS, parking_verbs.let_out)
    give_back = acts(On.CLAIMS, parking_verbs.give_back)
    learn = acts(On.CLAIMS, parking_verbs.learn)
    forget_breakers = asks(On.CLAIMS, parking_verbs.forget_breakers)
    give_up_unserved = acts(On.CLAIMS, parking_verbs.give_up_unserved)
    take_tokens = acts(On.CLAIMS, parking_verbs.take_tokens)
    give_back_tokens = asks(On.CLAIMS, parking_verbs.give_back_tokens)

    register = asks(On.LEASES, worker_verbs.register)
    served = reads(On.LEASES, worker_verbs.served)
    beat = asks(On.LEASES, worker_verbs.beat)
    leave = asks(On.LEASES, worker_verbs.leave)
    # On the connection of people: nobody waits for a lease meanwhile.
    is_eldest = reads(On.PEOPLE, worker_verbs.is_eldest)

    renew = asks(On.LEASES, lease_verbs.renew)
    release = asks(On.LEASES, lease_verbs.release)

    async def expire(self, limit: int, decide: Decide) -> list[Result]:
        """Close the attempts of up to `limit` expired leases as Unknown and decide them, in one transaction."""
        steps = lease_verbs.expire(self.settled, limit, decide)
        return await self.carry_out(steps, On.LEASES, is_atomic=True)

    async def adopt(self, after: int, limit: int, decide: Decide) -> tuple[list[Result], int | None]:
        """Close as Unknown what is being sent under a lease that is not there, in one transaction."""
        steps = lease_verbs.adopt(self.settled, after, limit, decide)
        return await self.carry_out(steps, On.LEASES, is_atomic=True)

    is_idle = reads(On.LEASES, lease_verbs.is_idle)
    roll_up_counters = asks(On.LEASES, lease_verbs.roll_up_counters)

    # On a connection of its own, which is closed between the passes.
    take_turn = asks(On.UPKEEP, retention_verbs.take_turn)
    end_turn = asks(On.UPKEEP, retention_verbs.end_turn)
    pass_by = asks(On.UPKEEP, retention_verbs.pass_by)
    retain = acts(On.UPKEEP, retention_verbs.retain)
    count_old = reads(On.UPKEEP, retention_verbs.count_old)
    drop_rest = acts(On.UPKEEP, retention_verbs.drop_rest)
    drop_inbox = acts(On.UPKEEP, inbox_verbs.drop_inbox)
    log_upkeep = asks(On.UPKEEP, operations_log.log_upkeep)
    take_audit = acts(On.PEOPLE, retention_verbs.take_audit)
    keep_audit = asks(On.PEOPLE, retention_verbs.keep_audit)
    end_audit = asks(On.PEOPLE, retention_verbs.end_audit)

    events_of = reads(On.UPKEEP, erasure_verbs.events_of)
    facts_of = reads(On.UPKEEP, erasure_verbs.facts_of)
    erase = acts(On.UPKEEP, erasure_verbs.erase)

    refusal = asks(On.CLAIMS, loss_verbs.refusal)
    notice_loss = asks(On.CLAIMS, loss_verbs.notice_loss)
    mark_loss = acts(On.CLAIMS, loss_verbs.mark_loss)
    end_loss = asks(On.LEASES, loss_verbs.end_loss)
    name_instance = acts(On.PEOPLE, loss_verbs.name_instance)
    _disprove_loss = acts(On.RESULTS, loss_verbs.disprove_loss)
    _undoubt = asks(On.RESULTS, loss_verbs.undoubt)

    async def disprove_loss(self, *, operator: str, reason: str) -> LossRow | None:
        """End the open loss because a person says that nothing was lost, with the doubt that it alone has raised."""
        loss = await self._disprove_loss(operator=operator, reason=reason)
        # In steps: what is interrupted stays in doubt, and is asked about.
        while loss is not None and await self._undoubt(loss.id):
            continue
        return loss

    doubt = acts(On.RESULTS, reconciliation_verbs.doubt)
    log_doubt = asks(On.RESULTS, reconciliation_verbs.log_doubt)
    attest = acts(On.PEOPLE, reconciliation_verbs.attest)
    add_evidence = acts(On.PEOPLE, evidence_verbs.add_evidence)
    add_finding = acts(On.PEOPLE, reconciliation_verbs.add_finding)
    left_alone = reads(On.PEOPLE, reconciliation_verbs.left_alone)
    first_delivery_since = reads(On.PEOPLE, reconciliation_verbs.first_delivery_since)
    completed_after = reads(On.PEOPLE, reconciliation_verbs.completed_after)

    begin_message = acts(On.CLAIMS, try_verbs.begin_message)
    due_messages = acts(On.CLAIMS, try_verbs.due_messages)
    fail_message = acts(On.RESULTS, try_verbs.fail_message)
    complete_message = acts(On.RESULTS, try_verbs.complete_message)
    hold_messages = asks(On.LEASES, try_verbs.hold_messages)
    return_messages = acts(On.RESULTS, try_verbs.return_messages)

    verify_facts = sees(On.PEOPLE, verifying.verify_facts)
    inspect = sees(On.PEOPLE, verifying.inspect)
    inspect_again = sees(On.PEOPLE, verifying.inspect_again)
