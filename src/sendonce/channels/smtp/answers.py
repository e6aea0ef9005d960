"""What a mail server's answer means: whose fault it is, and whether it will ever be different. Reads nothing."""

import re
from dataclasses import replace
from enum import IntEnum

from sendonce.domain.answers import (
    ACCOUNT,
    CLOSING,
    CREDENTIALS,
    MAIL_BUSY,
    MISUNDERSTOOD,
    RECIPIENT_BUSY,
    SMTP_REFUSED,
)
from sendonce.domain.outcomes import Deferred, Failed, Outcome
from sendonce.domain.texts import RESPONSE_LENGTH, clean

_ENHANCED = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})\b")
_RELAYING = re.compile(r"\brelay", re.IGNORECASE)
_LOG_IN = {530, 534, 535, 538}
_PROTOCOL = {500, 502, 503}
_TOO_LARGE = {552}
_CLOSING = 421
_NOT_LOGGED_IN = "the mail server wants us to log in, or does not accept our user and password"
_OURS = {
    "5.7.8": replace(CREDENTIALS, message="the mail server does not accept our user and password"),
    "5.7.9": replace(CREDENTIALS, message="the mail server wants another way to log in"),
    "5.7.60": replace(ACCOUNT, message="the mail server does not let us send as this sender"),
    "5.4.5": replace(ACCOUNT, message="the mail server says that our sending limit is reached"),
}


class Step(IntEnum):
    """How far a mail has come. From FINAL on it may have been accepted."""

    WAITING = 0
    CONNECTING = 1
    MAIL = 2
    RCPT = 3
    DATA = 4
    FINAL = 5


def meaning(step: Step, code: int, text: str) -> Outcome:
    """What a no (4xx or 5xx) to this step means."""
    said = response(code, text)
    if code < 500:
        return replace(_busy(step, code), code=f"smtp_{code}", response=said)
    ours = _our_fault(step, code, text)
    if ours is not None:
        return replace(ours, response=said)
    return replace(SMTP_REFUSED, code=f"smtp_{code}", response=said)


def response(code: int, text: str) -> str:
    """The answer as it is kept for the operator."""
    return clean(f"{code} {text}", RESPONSE_LENGTH)


def _busy(step: Step, code: int) -> Failed:
    """Who is not ready: the server itself, or it for this one recipient (greylisting, a full mailbox), or this mail."""
    if code == _CLOSING:
        return CLOSING
    return RECIPIENT_BUSY if step is Step.RCPT else MAIL_BUSY


def _our_fault(step: Step, code: int, text: str) -> Deferred | None:
    enhanced = _ENHANCED.match(text)
    if code in _LOG_IN:
        return replace(CREDENTIALS, message=_NOT_LOGGED_IN)
    if code in _PROTOCOL:
        return MISUNDERSTOOD
    if enhanced is not None and enhanced[1] in _OURS:
        return _OURS[enhanced[1]]
    if step is Step.RCPT and _RELAYING.search(text):
        return replace(ACCOUNT, message="the mail server does not relay mails for us")
    if step is Step.MAIL and code not in _TOO_LARGE:
        return _OURS["5.7.60"]
    return None
