"""Mistakes that somebody could make, each planted into the real code: the simulation must find every one of them."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from sendonce.channels.http import answers as channel_answers
from sendonce.channels.protocol import NONE, Message
from sendonce.domain import answers, attempts, breakers, decide, holds
from sendonce.domain.answers import NOT_TAKEN
from sendonce.domain.attempts import Claim, Report, Result, Verdict
from sendonce.domain.breakers import Answers, Breaker, Pauses
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.holds import Candidate
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Outcome
from sendonce.engine import attempt, parking, send_pool
from sendonce.engine.attempt import AttemptRunner, LookedUp
from sendonce.engine.worker import Worker
from sendonce.errors import StoreBusy
from sendonce.sql.steps import rows
from sendonce.store import evidence, leases
from sendonce.store.evidence import evidence_of
from sendonce.store.sqlite import claims
from sendonce.store.sqlite import settle as settling
from sendonce.store.sqlite.connection import QUERIES, Transaction
from sendonce.store.sqlite.store import SqliteStore
from tests.simulation.scene import OUTAGES, SMALL, Profile

Patch = AbstractContextManager[Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """How it is planted, which rules may be the ones that it breaks, within how many seeds it must be found, and of
    which profile."""

    plant: Callable[[], Patch]
    rules: frozenset[str]
    within: int
    profile: Profile = SMALL


FAULTS: dict[str, Fault] = {}


def fault(*rules: str, within: int, profile: Profile = SMALL) -> Callable[[Callable[[], Patch]], Callable[[], Patch]]:
    def enter(plant: Callable[[], Patch]) -> Callable[[], Patch]:
        FAULTS[plant.__name__] = Fault(plant, frozenset(rules), within, profile)
        return plant

    return enter


@fault("nothing_is_doubled", "given_up_without_doubt_means_not_received", within=30)
def takes_a_500_for_surely_not_sent() -> Patch:
    """A receiver that failed after it had taken the message is said to have taken nothing."""
    real = answers.http_answer

    def answer(status: int, **said: bool) -> Outcome:
        return NOT_TAKEN if status >= 500 else real(status, **said)

    return patch.object(channel_answers, "http_answer", answer)


@fault("nobody_hurries_us", within=30)
def comes_again_as_soon_as_it_is_asked_to() -> Patch:
    """Retry-After: 0 is obeyed to the letter."""
    return patch.object(decide, "_may_come_at_once", lambda outcome: outcome.again_in is not None)


@fault("sent_under_a_committed_lease", within=10)
def sends_before_the_lease_is_committed() -> Patch:
    """The claim is handed out first, and committed a moment later."""
    real = SqliteStore.start

    class Undone(Exception):
        pass

    async def start(self: Any, *args: Any) -> Any:
        seen: list[Any] = []

        def peek(transaction: Transaction) -> None:
            seen.append(transaction.carry_out(claims.start(*args)))
            raise Undone

        async def commit() -> None:
            await asyncio.sleep(0.005)
            await real(self, *args)

        with suppress(Undone):
            await self._writer.run(peek)
        if seen[0].lease is None:
            return await real(self, *args)
        asyncio.create_task(commit())  # noqa: RUF006  nobody waits for it: that is the mistake
        return seen[0]

    return patch.object(SqliteStore, "start", start)


@fault("applied_is_what_is_written", within=1150)
def settles_without_a_fence() -> Patch:
    """A result closes whatever attempt its delivery has now."""

    def settle(transaction: Transaction, results: Sequence[Result]) -> list[Verdict]:
        open_ones = {
            row[0]: row[1:]
            for row in transaction.connection.execute(
                "select delivery_id, attempt, lease_id from sendonce_attempts where status = 'Leased'"
            )
        }
        moved = [_moved(each, *open_ones.get(_id(each), ())) for each in results]
        return transaction.carry_out(settling.settle(moved))

    async def settle_by_writer(self: Any, results: Sequence[Result]) -> list[Verdict]:
        verdicts: list[Verdict] = await self._writer.run(settle, results)
        return verdicts

    return patch.object(SqliteStore, "settle", settle_by_writer)


def _id(result: Result) -> int:
    return result.report.claim.delivery_id


def _moved(result: Result, attempt: int | None = None, lease_id: int | None = None) -> Result:
    if attempt is None or lease_id is None:
        return result
    report = result.report
    return result._replace(report=report._replace(claim=report.claim._replace(attempt=attempt), lease_id=lease_id))


@fault("completed_means_received", "given_up_without_doubt_means_not_received", within=10)
def marks_before_it_sends() -> Patch:
    """It is reported as delivered, and sent after that."""
    real = AttemptRunner.attempt

    async def attempt(self: AttemptRunner, claim: Claim, lease_id: int, *args: Any) -> Report:
        if claim.in_doubt or claim.is_proven:
            return await real(self, claim, lease_id, *args)
        asyncio.create_task(real(self, claim, lease_id, *args))  # noqa: RUF006
        return Report(claim, lease_id, Delivered("marked"))

    return patch.object(AttemptRunner, "attempt", attempt)


@fault("asked_before_sent_again", "nothing_is_doubled", within=10)
def skips_the_look_up() -> Patch:
    """What may have been sent is sent again without asking."""

    async def ask(*args: Any) -> LookedUp:
        return LookedUp()

    return patch.object(attempt, "_ask", ask)


@fault("doubt_is_sticky", within=190)
def forgets_doubt_after_a_failure() -> Patch:
    """An attempt that surely failed says nothing about the one before it, and is taken to."""
    real = decide.decide

    def forgetful(delivery: Any, outcome: Any, *args: Any, **kwargs: Any) -> Any:
        decision = real(delivery, outcome, *args, **kwargs)
        forgets = type(outcome) is Failed and decision.to is DeliveryState.PENDING_RETRY
        return replace(decision, in_doubt=False) if forgets else decision

    return patch.object(attempts, "decide", forgetful)


@fault("one_token_per_intent", within=10)
def requeues_with_a_new_token() -> Patch:
    """Each generation has a token of its own."""

    real = attempt.message_of

    def message(claim: Claim, namespace: str, *args: Any) -> Message:
        return real(claim, f"{namespace}/{claim.generation}", *args)

    return patch.object(attempt, "message_of", message)


@fault("attempts_keep_their_lease", within=10)
def expires_in_two_transactions() -> Patch:
    """The lease goes first, the attempts are closed after that."""

    def take(transaction: Transaction, limit: int) -> list[Report]:
        reports: list[Report] = []

        def notice(found: Sequence[Report]) -> list[Result]:
            reports.extend(found)
            return []

        transaction.carry_out(leases.expire(settling.settle, limit, notice))
        lease_ids = json.dumps([report.lease_id for report in reports])
        transaction.connection.execute(
            "delete from sendonce_leases where id in (select value from json_each(?))", (lease_ids,)
        )
        return reports

    async def expire(self: Any, limit: int, decide_all: Any) -> list[Result]:
        reports = await self._writer.run(take, limit)
        if not reports:
            return []
        await asyncio.sleep(0.005)
        results = list(decide_all(reports))
        await self._writer.run(Transaction.carry_out, settling.settle(results))
        return results

    return patch.object(SqliteStore, "expire", expire)


@fault("late_results_are_kept", within=10)
def drops_late_proof() -> Patch:
    """A result that came too late is thrown away."""

    return patch.object(evidence, "keep", lambda *args: iter(()))


@fault("everything_comes_to_an_end", within=30)
def resumes_a_subscription_in_two_transactions() -> Patch:
    """What was parked is let go first, and the subscription is active after that."""
    real = SqliteStore.set_subscription_state

    def unpark(transaction: Transaction, subscription_id: int) -> None:
        transaction.carry_out(rows("unpark", parked_on=f"subscription:{subscription_id}"))

    def activate(transaction: Transaction, subscription_id: int) -> None:
        transaction.carry_out(
            rows("set_subscription_state", subscription_id=subscription_id, state="active", reason="")
        )

    async def set_state(self: Any, subscription_id: int, state: str, **who: Any) -> Any:
        if state != "active":
            return await real(self, subscription_id, state, **who)
        await self._writer.run(unpark, subscription_id)
        await asyncio.sleep(0.02)
        await self._writer.run(activate, subscription_id)
        return None

    return patch.object(SqliteStore, "set_subscription_state", set_state)


@fault("held_back_is_not_claimed", within=10)
def sends_while_paused() -> Patch:
    """A claim does not look at the subscription."""
    return patch.object(holds, "SHUT_STATES", ())


@fault("claims_are_served", within=20)
def claims_what_it_does_not_serve() -> Patch:
    """A claim does not look at what its worker can send."""
    return patch.object(Candidate, "lacked_by", lambda *args: None)


@fault("everything_comes_to_an_end", within=20)
def forgets_what_waits_for_its_channel() -> Patch:
    """What is left to others is in a room that nobody takes it out of."""
    real = parking._address_of

    def address_of(room: Any, served: Any) -> Any:
        return "nobody" if room.name.startswith("channel:") else real(room, served)

    return patch.object(parking, "_address_of", address_of)


@fault("nobody_asks_too_early", within=20)
def asks_about_what_waits_before_its_moment() -> Patch:
    """What may have been sent is claimed whatever its moment is: when due, out of a room, and for a reconciliation."""
    early = {name: QUERIES[name].replace("d.not_before <= :now", "d.id") for name in ("claim_due", "claim_waiting")}
    asked = QUERIES["claim_doubtful"].replace("coalesce(d.not_before, d.next_attempt_at, 0) <= :now", "1")
    return patch.dict(QUERIES, {**early, "claim_doubtful": asked})


@fault("sent_under_a_committed_lease", within=80)
def sends_when_its_lease_is_over() -> Patch:
    """The sender does not look at its lease before it writes to the wire."""

    def seconds(self: Any, policy: Any) -> float:
        wanted: float = policy.timeout.total_seconds()
        self.deadline = time.monotonic() + wanted
        return wanted

    return patch.object(send_pool._Slot, "seconds", seconds)


@fault("everything_comes_to_an_end", "no_lease_is_left", within=90)
def gives_up_results_when_the_database_is_away() -> Patch:
    """One try to write results, and no second one."""

    async def settle(self: Any, batch: Any, seconds: Any) -> None:
        results = self._orchestrator.decide(batch)
        try:
            await self._orchestrator.settle(results)
        except StoreBusy:
            return
        self._book.settled([result.report.lease_id for result in results])

    return patch.object(Worker, "_settle", settle)


@fault("nothing_is_doubled", "given_up_without_doubt_means_not_received", "hold_means_hold", within=90)
def takes_a_timeout_for_a_failure() -> Patch:
    """No answer in time is read as: not sent."""
    return patch.object(send_pool, "TIMED_OUT", Failed("timeout"))


@fault("doubt_is_sticky", within=10)
def opens_generations_without_doubt() -> Patch:
    """What may have been sent begins its next generation as if it had not been."""
    sql = QUERIES["open_generations"].replace("else if_unsure end, doubtful,", "else if_unsure end, 0,")
    return patch.dict(QUERIES, {"open_generations": sql})


@fault("hold_means_hold", within=10)
def sends_what_is_to_be_held() -> Patch:
    """`if_unsure: hold` is not looked at."""

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(patch.object(decide, "_is_held", lambda *args: False))
            stack.enter_context(patch.object(attempt, "_unsure", lambda *args: LookedUp(cannot_be_asked=True)))
            yield

    return planted()


@fault("dead_letters_match", within=430)
def writes_dead_letters_in_another_transaction() -> Patch:
    """First the state, then the dead letter."""
    real = SqliteStore.settle

    def bury(transaction: Transaction, ids: list[int]) -> None:
        transaction.connection.execute(
            "insert into sendonce_dead_letters (delivery_id, created_at, reason) select id, ?, 'exhausted'"
            " from sendonce_deliveries where status = 'DeadLettered' and id in (select value from json_each(?))"
            " and id not in (select delivery_id from sendonce_dead_letters)",
            (transaction.now, json.dumps(ids)),
        )

    async def settle(self: Any, results: Sequence[Result]) -> list[Verdict]:
        with patch.dict(QUERIES, {"add_dead_letters": "select 1"}):
            verdicts = await real(self, results)
        if ids := [_id(each) for each in results if each.decision.to is DeliveryState.DEAD_LETTERED]:
            await asyncio.sleep(0.005)
            await self._writer.run(bury, ids)
        return verdicts

    return patch.object(SqliteStore, "settle", settle)


@fault("late_is_what_lost_its_lease", within=430)
def takes_the_same_result_for_a_late_one() -> Patch:
    """A result that is told again because its answer was lost is no longer recognised."""
    real = evidence_of

    def never_the_same(report: Report, seen: Any) -> Any:
        return real(report, seen)._replace(verdict=Verdict.LATE)

    return patch.object(evidence, "evidence_of", never_the_same)


@fault("doubt_is_sticky", within=680)
def loses_the_doubt_that_came_up_meanwhile() -> Patch:
    """A result says whether there is doubt, also of what a person has put in doubt since it was claimed."""
    return patch.object(Result, "doubt", property(lambda self: self.decision.in_doubt))


@fault("proven_is_not_sent", within=320)
def sends_what_is_proven() -> Patch:
    """A late proof is kept, and not looked at."""
    real = claims._open_lease

    def open_lease(worker_id: int, claimed: Sequence[Claim], hold: timedelta) -> Any:
        return real(worker_id, [claim._replace(is_proven=False) for claim in claimed], hold)

    return patch.object(claims, "_open_lease", open_lease)


@fault("breakers_wait_no_longer_than_they_may", within=10, profile=OUTAGES)
def opens_breakers_for_longer_without_a_probe() -> Patch:
    """Whatever gets through lets more out, and the next failure opens it for twice as long, whenever they were sent."""

    def learn(breaker: Breaker, turn: int, answers: Answers, now: datetime, pauses: Pauses) -> Breaker | None:
        if answers.failed and (breaker.is_probing or breaker.allowance):
            pause = min(2 * breaker.pause, pauses.longest)
            return replace(breaker, allowance=0, is_probing=False, on_way=0, pause=pause, probe_at=now + pause)
        if not answers.through:
            return breaker
        allowance = 2 * max(1, breaker.allowance)
        if allowance >= breakers.ENOUGH:
            return None
        return replace(breaker, allowance=allowance, is_probing=False, on_way=0)

    return patch.object(breakers, "learn", learn)


@fault("subscriptions_are_signed", within=50)
def sends_unsigned_when_the_secret_cannot_be_read() -> Patch:
    """Without its secret it goes out unsigned."""
    real = AttemptRunner._credentials_of

    async def credentials(self: AttemptRunner, claim: Claim) -> Any:
        found = await real(self, claim)
        return NONE if isinstance(found, Deferred) else found

    return patch.object(AttemptRunner, "_credentials_of", credentials)
