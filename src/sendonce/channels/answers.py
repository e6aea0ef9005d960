"""What an HTTP answer, or the lack of one, means for a delivery."""

import math
import time
from collections.abc import Iterable
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import assert_never

from sendonce.channels.client import Answer, Answered, Forbidden, Lost, NotSent, Ours
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Fault, Outcome, Refused, Unknown

ASKED_TO_WAIT = "the receiver asked to wait"
_LONGEST_WAIT = 86_400.0
_RETRY = {408, 425, 429}
_HIDDEN = "•••"
_SHORTEST_SECRET = 4


def outcome_of(answered: Answered | Deferred) -> Outcome:
    """What became of a POST."""
    match answered:
        case Deferred():
            return answered
        case Answer(status, headers, text):
            return outcome_of_status(status, retry_after_of(headers.get("Retry-After")), text or None)
        case NotSent(code, message):
            return Failed(code, message)
        case Lost(code, message):
            return Unknown(code, message)
        case Forbidden(message, is_name):
            # As where there is no such name: who enters URLs must not learn which names there are inside.
            return Failed("dns_error", message) if is_name else Refused("address_forbidden", message)
        case Ours(code, message, again_in):
            return Deferred(code, message, again_in, fault=Fault.OURS)
        case _:
            assert_never(answered)


def outcome_of_status(status: int, retry_after: timedelta | None, text: str | None) -> Outcome:
    """What an HTTP status means."""
    code = f"http_{status}"
    if 200 <= status < 300:
        return Delivered(response=text)
    if status in (429, 503) and retry_after is not None:
        return Deferred(code, ASKED_TO_WAIT, again_in=retry_after, response=text)
    if status in _RETRY or status >= 500:
        return Failed(code, "the receiver failed", retry_after=retry_after, response=text)
    if status == 410:
        return Refused(code, "the receiver is gone for good", response=text)
    if 300 <= status < 400:
        return Refused(code, "the receiver redirects; redirects are not followed", response=text)
    return Refused(code, "the receiver refused it", response=text)


def retry_after_of(value: str | None) -> timedelta | None:
    """How long a Retry-After header says to wait, in seconds or until a date; a day at most."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value)
    return timedelta(seconds=min(seconds, _LONGEST_WAIT)) if seconds >= 0 else None


def without(text: str, secrets: Iterable[str]) -> str:
    """The text of an answer without what we sent in confidence: some receivers repeat the headers they got."""
    for secret in secrets:
        if len(secret) < _SHORTEST_SECRET:
            continue
        for spelling in (secret, secret.replace("/", "\\/")):
            text = text.replace(spelling, _HIDDEN)
    return text


def _seconds_until(date: str) -> float:
    try:
        moment = parsedate_to_datetime(date)
        return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return math.nan
