"""A delivery's story in plain words: every attempt, why it is where it is, and what happens next. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from sendonce.admin.advice import START_WORKER, Advice
from sendonce.admin.explain.snapshot import Snapshot
from sendonce.admin.status import waits_for
from sendonce.admin.stops import spelled
from sendonce.admin.text import ago, counted, dated, one_line, ordinal, until
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.destinations import place_of
from sendonce.domain.durations import format_duration
from sendonce.domain.outcomes import FOUND
from sendonce.store.records import ATTESTED, AttemptRow, CorrectionRow, DeadLetterRow, EvidenceRow, FindingRow

BY_A_PERSON = ": a person put all that was open in doubt"
IN_LOST_TIME = ": this database has lost commits, and somebody may have requeued it in that time"
NO_WORKER = "no worker is alive"
LETTER = "dead letter"


def whereabouts(known: Snapshot) -> list[str]:
    """The sentences for this delivery: where it is and why, then what happens next."""
    match known.delivery.status:
        case DeliveryState.PENDING | DeliveryState.PENDING_RETRY:
            return [*_why_open(known), *_next_when_open(known)]
        case DeliveryState.IN_PROGRESS:
            return [*_doubt(known), _being_sent(known)]
        case DeliveryState.COMPLETED:
            return [_completed(known)]
        case DeliveryState.DEAD_LETTERED:
            return _given_up(known)
        case state:
            assert_never(state)


def error_text(attempt: AttemptRow | DeadLetterRow) -> str:
    """code: message, as far as there are any."""
    parts = [attempt.error_code or "", one_line(attempt.error_message or "")]
    return ": ".join(part for part in parts if part) or "no error was recorded"


def _why_open(known: Snapshot) -> list[str]:
    sentences = _doubt(known)
    if known.delivery.proven_at is not None:
        sentences.append(f"a late answer has shown {ago(known.delivery.proven_at, known.now)} that it was delivered")
    elif known.last_error is not None and not sentences:
        sentences.append(f"the last attempt did not succeed ({error_text(known.last_error)})")
    elif not known.attempts:
        sentences.append("it has not been tried yet")
    return sentences


def _doubt(known: Snapshot) -> list[str]:
    if not known.delivery.in_doubt:
        return []
    attempt = known.doubtful
    if attempt is None:
        by_a_person = known.for_operators(BY_A_PERSON)
        return [f"it may have been sent{' by an earlier generation' if known.delivery.generation else by_a_person}"]
    if attempt.outcome == "Accepted":
        return [f"attempt {attempt.attempt} was accepted by the other side but is not confirmed"]
    return [f"it may have been sent: attempt {attempt.attempt} ended without an answer ({error_text(attempt)})"]


def _next_when_open(known: Snapshot) -> list[str]:
    delivery, now = known.delivery, known.now
    if held := _held(known):
        return [held]
    if known.subscription is not None and known.subscription.state == "removed":
        return [f"subscription {known.subscription.id} was removed: the next attempt gives it up without sending"]
    due = delivery.next_attempt_at
    if due is None:
        return [_waiting(known)]
    number = ordinal(delivery.attempt_count + 1)
    moment = f"is due {until(due, now)}" if due > now else f"has been due for {format_duration(now - due)}"
    sentences = [f"{_action(known, number)} {moment}"]
    if due <= now and not known.has_workers:
        sentences.append(NO_WORKER)
    if delivery.expires_at is not None:
        sentences.append(f"it is given up if it does not succeed by {dated(delivery.expires_at, now)}")
    return sentences


def _waiting(known: Snapshot) -> str:
    if known.room is None:
        return "it waits for its turn" + known.for_operators(f" ({one_line(known.delivery.parked_on or '')})")
    others = f" with {counted(known.room.waiting - 1, 'other')}" if known.room.waiting > 1 else ""
    if known.is_for_tenant and known.room.name.startswith("channel:"):
        return "it waits for its turn; no attempt is spent on that"
    return f"it waits{others} {waits_for(known.room, known.now)}; no attempt is spent on that"


def _action(known: Snapshot, number: str) -> str:
    if known.delivery.proven_at is not None:
        return f"the {number} attempt, which completes it without sending,"
    if known.delivery.in_doubt and known.subscription is not None and known.subscription.ask is not None:
        place = one_line(place_of(known.subscription.ask))
        return f"the {number} attempt, which asks {place} about it and sends it again only where that does not have it,"
    if known.delivery.in_doubt:
        return f"the {number} attempt, which asks about it or else sends it again with the same token,"
    return f"the {number} attempt"


def _held(known: Snapshot) -> str | None:
    subscription, stop = known.subscription, known.stop
    if stop is not None and known.is_for_tenant:
        return "it is held back for now, and sent later"
    if stop is not None:
        why = f" ({one_line(stop.reason)})" if stop.reason else ""
        named = spelled(stop.scope, stop.value)
        since = f"since {dated(stop.created_at, known.now)} by {one_line(stop.operator)}{why}"
        return f"held back by stop {named} {since}"
    if subscription is not None and subscription.state in ("paused", "disabled"):
        why = f" ({one_line(subscription.state_reason)})" if subscription.state_reason else ""
        return f"waits: subscription {subscription.id} is {subscription.state}{why}"
    return None


def _being_sent(known: Snapshot) -> str:
    lease, now = known.lease, known.now
    if lease is None:
        return "its attempt has just ended and is being settled; look again"
    if known.is_for_tenant:
        cut_off = "was being sent, and the sending has stopped; it is taken over soon"
        return "is being sent" if lease.expires_at > now else cut_off
    worker = f"worker {lease.worker_name}" if lease.worker_name else f"worker {lease.worker_id}"
    if lease.expires_at <= now:
        taken = "the next worker takes it over" if known.has_workers else NO_WORKER
        return f"was being sent by {worker}, whose lease {lease.id} ran out {ago(lease.expires_at, now)}; {taken}"
    return (
        f"is being sent by {worker} under lease {lease.id} until {dated(lease.expires_at, now)}; "
        "if that worker is dead it is taken over after that"
    )


def _completed(known: Snapshot) -> str:
    delivery = known.delivery
    named = f", where its id is {one_line(delivery.notification_id)}" if delivery.notification_id else ""
    moment = dated(delivery.notified_at or delivery.updated_at, known.now)
    if known.attestation is not None:
        return f"completed {moment}, as attested by {one_line(known.attestation, 2000)}{named}; nothing more happens"
    if not known.attempts:
        return f"delivered {moment}{named}, by an attempt that is no longer kept; nothing more happens"
    last = known.attempts[-1]
    if last.response == FOUND:
        return f"delivered {moment}, as attempt {last.attempt} has found by asking{named}; nothing more happens"
    return f"delivered {moment} by attempt {last.attempt}{named}; nothing more happens"


def _given_up(known: Snapshot) -> list[str]:
    letter = known.dead_letter
    if letter is None:
        return [f"given up {dated(known.delivery.updated_at, known.now)}; its dead letter is no longer kept"]
    sentences = [f"given up ({letter.reason}) {dated(letter.created_at, known.now)}{_last_error(letter)}"]
    if known.delivery.in_doubt:
        sentences += _doubt(known)
    if known.newer is not None:
        return sentences
    if letter.in_doubt and not known.delivery.in_doubt:
        sentences.append(f"it may have been sent since then{known.for_operators(IN_LOST_TIME)}")
    if letter.closed_at is not None:
        by = f" by {one_line(letter.closed_by)}" if letter.closed_by else ""
        return [
            *sentences,
            f"its dead letter {letter.id} was {letter.closed_as}{by} {dated(letter.closed_at, known.now)}",
        ]
    return [*sentences, f"its dead letter {letter.id} waits for somebody to decide"]


def _advice(known: Snapshot) -> Iterator[Advice]:
    """What a person can do about this delivery, or look at."""
    delivery = known.delivery
    if delivery.status.is_final:
        yield from _decisions(known)
    else:
        yield from _go_on(known)
    yield from (
        Advice(verb="explain", id=other.id, of="delivery", why=f"see generation {other.generation} with")
        for other in known.generations
        if other.generation > delivery.generation
    )
    yield from (
        Advice(verb="explain", id=each.delivery_id, of="delivery", why="see what goes instead with")
        for each in known.corrections
        if each.delivery_id != delivery.id
    )


def _go_on(known: Snapshot) -> Iterator[Advice]:
    delivery, subscription, stop, lease = known.delivery, known.subscription, known.stop, known.lease
    is_sent = delivery.status is DeliveryState.IN_PROGRESS
    if stop is not None and not is_sent:
        yield Advice(verb="resume", why="resume with", given={"scope": stop.scope, "value": stop.value})
    elif subscription is not None and subscription.state in ("paused", "disabled") and not is_sent:
        if known.is_for_tenant and subscription.tenant != delivery.tenant:
            return
        yield Advice(verb="resume_subscription", why="resume it with", id=subscription.id, of="subscription")
    elif not known.has_workers:
        taken_at = lease.expires_at if is_sent and lease is not None else delivery.next_attempt_at
        if taken_at is not None and taken_at <= known.now:
            yield START_WORKER


def _decisions(known: Snapshot) -> Iterator[Advice]:
    """What a person can decide about an open dead letter."""
    letter = known.dead_letter
    if letter is None or letter.closed_at is not None or known.newer is not None:
        return
    if letter.reason is ReasonClass.REFUSED:
        yield Advice(
            verb="correct",
            why="if its address is wrong, correct it with",
            id=letter.id,
            of=LETTER,
            needs=("to", "reason"),
        )
    if not letter.in_doubt:
        yield Advice(verb="requeue", why="requeue with", id=letter.id, of=LETTER, needs=("reason",))
        return
    yield Advice(verb="attest", why="if you know that it arrived", id=letter.id, of=LETTER, needs=("reason",))
    yield Advice(
        verb="requeue",
        why="if it did not, or may arrive twice, requeue with",
        id=letter.id,
        of=LETTER,
        given={"even_if_sent": True},
        needs=("reason",),
    )


def _last_error(letter: DeadLetterRow) -> str:
    if letter.reason is ReasonClass.CANCELLED:
        return f": {one_line(letter.error_message)}" if letter.error_message else ""
    return f": last error {error_text(letter)}" if letter.error_code or letter.error_message else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One delivery told: sentences beside what they were made of. Holds no payload."""

    goes_to: str
    attempts: tuple[str, ...]
    whereabouts: tuple[str, ...]
    generations: tuple[str, ...]
    findings: tuple[str, ...]
    evidence: tuple[str, ...]
    advice: tuple[Advice, ...]
    known: Snapshot


def tell(known: Snapshot) -> Story:
    return Story(
        goes_to=_goes_to(known),
        attempts=tuple(_attempt(known, each) for each in known.attempts),
        whereabouts=tuple(whereabouts(known)),
        generations=(*_generations(known), *(_correction(known, each) for each in known.corrections)),
        findings=tuple(_finding(known, each) for each in known.findings if each.kind != ATTESTED),
        evidence=tuple(_evidence(known, each) for each in known.evidence),
        advice=tuple(_advice(known)),
        known=known,
    )


def _goes_to(known: Snapshot) -> str:
    delivery = known.delivery
    if delivery.subscription_id is None:
        return f"to {one_line(delivery.destination, 2000)}"
    if known.subscription is None:
        return f"to subscription {delivery.subscription_id}, which is no longer kept"
    return f"to {one_line(known.address, 2000)}, for subscription {delivery.subscription_id}"


def _attempt(known: Snapshot, attempt: AttemptRow) -> str:
    begun = f"attempt {attempt.attempt}, {ago(attempt.created_at, known.now)}"
    if attempt.finished_at is None or attempt.outcome is None:
        return f"{begun}: has not ended" + known.for_operators(f", under lease {attempt.lease_id}")
    told = f"{begun}, took {format_duration(attempt.finished_at - attempt.created_at)}: {attempt.outcome}"
    if attempt.error_code or attempt.error_message:
        told += f" ({error_text(attempt)})"
    if attempt.notification_id:
        told += f", the other side's id is {one_line(attempt.notification_id)}"
    if attempt.response:
        told += f"; the answer: {one_line(attempt.response, 120)}"
    if attempt.outcome == "Unknown":
        told += "; it may have been sent"
    return told


def _generations(known: Snapshot) -> list[str]:
    told = []
    for other in known.generations:
        if other.generation < known.delivery.generation:
            told.append(f"generation {other.generation} before it is delivery {other.id}, {other.status}")
        elif other.generation > known.delivery.generation:
            told.append(f"generation {other.generation} after it is delivery {other.id}, {other.status}")
    return told


def _correction(known: Snapshot, correction: CorrectionRow) -> str:
    by = f" by {one_line(correction.operator)}" if correction.operator else ""
    why = f" ({one_line(correction.reason)})" if correction.reason else ""
    told = f"corrected {ago(correction.created_at, known.now)}{by}{why}"
    has_moved = correction.destination != correction.replaced_destination
    if correction.delivery_id == known.delivery.id:
        before = one_line(correction.replaced_destination or "", 2000) if has_moved else "with other content"
        return f"{told}: it goes instead of delivery {correction.replaces}{' to' if has_moved else ','} {before}"
    after = f"to {one_line(correction.destination, 2000)}" if has_moved else "with other content"
    return f"{told}: delivery {correction.delivery_id} goes instead, {after}"


_EFFECTS = {
    "settled": "that settled it",
    "known": "that was known",
    "contradicts": "that contradicts what was known, and changed nothing",
    "noted": "that is for whoever decides about it",
}


def _evidence(known: Snapshot, evidence: EvidenceRow) -> str:
    occurred = "" if evidence.occurred_at is None else f", as of {dated(evidence.occurred_at, known.now)}"
    about = f" ({one_line(evidence.details)})" if evidence.details else ""
    said = f"{one_line(evidence.source)} said {evidence.outcome}{about}{occurred}"
    return f"{ago(evidence.created_at, known.now)} {said}; {_EFFECTS.get(evidence.effect, evidence.effect)}"


def _finding(known: Snapshot, finding: FindingRow) -> str:
    about = f" about attempt {finding.attempt}" if finding.attempt is not None else ""
    parts = [finding.outcome, finding.error_code, finding.notification_id, finding.details]
    said = ", ".join(one_line(part) for part in parts if part)
    return f"{finding.kind}{about}, {ago(finding.created_at, known.now)}" + (f": {said}" if said else "")
