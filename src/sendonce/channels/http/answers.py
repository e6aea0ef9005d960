"""What an HTTP answer, or the lack of one, means for a delivery."""

import math
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import assert_never

from sendonce.channels.http.client import Answered, Forbidden, HttpAnswer, Lost, NotSent, Ours
from sendonce.domain.answers import FORBIDDEN, LOST, NOT_DIALLED, NOT_SENT, http_answer
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Outcome, Refused, Unknown

_LONGEST_WAIT = 86_400.0
_HIDDEN = "•••"
_SHORTEST_SECRET = 4


def outcome_of(answered: Answered | Deferred) -> Outcome:
    """Return what the answer to a POST means."""
    match answered:
        case Deferred():
            return answered
        case HttpAnswer(status, headers, text):
            return outcome_of_status(status, retry_after_of(headers.get("Retry-After")), text or None)
        case NotSent(code, message):
            return replace(NOT_SENT, code=code, message=message)
        case Lost(code, message):
            return replace(LOST, code=code, message=message)
        case Forbidden(message, is_name):
            # As where there is no such name: who enters URLs must not learn which names there are inside.
            return (
                replace(NOT_SENT, code="dns_error", message=message) if is_name else replace(FORBIDDEN, message=message)
            )
        case Ours(code, message, again_in):
            return replace(NOT_DIALLED, code=code, message=message, again_in=again_in)
        case _:
            assert_never(answered)


def outcome_of_status(status: int, retry_after: timedelta | None, text: str | None) -> Outcome:
    """What an HTTP status means for a message that was posted."""
    code = f"http_{status}"
    match http_answer(status, asks_to_wait=retry_after is not None):
        case Delivered() | Accepted():
            return Delivered(response=text)
        case Deferred() as put_off:
            return replace(put_off, code=code, again_in=retry_after, response=text)
        case Failed() as failed:
            return replace(failed, code=code, retry_after=retry_after, response=text)
        case Unknown() | Refused() as answered:
            return replace(answered, code=code, response=text)
        case other:
            assert_never(other)


def retry_after_of(value: str | None) -> timedelta | None:
    """Return how long a Retry-After header says to wait, in seconds or until a date; a day at most."""
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
