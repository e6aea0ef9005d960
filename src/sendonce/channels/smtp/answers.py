"""What a mail server's answer means: whose fault it is, and whether it will ever be different. Reads nothing."""

import re
from enum import IntEnum

from sendonce.domain.outcomes import Deferred, Failed, Fault, Outcome, Refused
from sendonce.domain.texts import RESPONSE_LENGTH, clean

ACCOUNT = "our_account"
CREDENTIALS = "our_credentials"
SERVER = "our_server"
_ENHANCED = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})\b")
_RELAYING = re.compile(r"\brelay", re.IGNORECASE)
_LOG_IN = {530, 534, 535, 538}
_PROTOCOL = {500, 502, 503}
_TOO_LARGE = {552}
_CLOSING = 421
_OURS = {
    "5.7.8": (CREDENTIALS, "the mail server does not accept our user and password"),
    "5.7.9": (CREDENTIALS, "the mail server wants another way to log in"),
    "5.7.60": (ACCOUNT, "the mail server does not let us send as this sender"),
    "5.4.5": (ACCOUNT, "the mail server says that our sending limit is reached"),
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
        return Failed(f"smtp_{code}", "the mail server could not take it now", response=said, fault=_whose(step, code))
    ours = _our_fault(step, code, text)
    if ours is not None:
        # Whether it takes a sender or a recipient may differ from mail to mail; whether it knows us does not.
        return Deferred(*ours, response=said, fault=Fault.CHANNEL if code in _LOG_IN else Fault.OURS)
    return Refused(f"smtp_{code}", "the mail server refused it", response=said, fault=Fault.RECIPIENT)


def response(code: int, text: str) -> str:
    """The answer as it is kept for the operator."""
    return clean(f"{code} {text}", RESPONSE_LENGTH)


def _whose(step: Step, code: int) -> Fault:
    """Who is not ready: the server itself (421), this one recipient (greylisting, a full mailbox), or for this mail."""
    if code == _CLOSING:
        return Fault.CHANNEL
    return Fault.RECIPIENT if step is Step.RCPT else Fault.DESTINATION


def _our_fault(step: Step, code: int, text: str) -> tuple[str, str] | None:
    enhanced = _ENHANCED.match(text)
    if code in _LOG_IN:
        return CREDENTIALS, "the mail server wants us to log in, or does not accept our user and password"
    if code in _PROTOCOL:
        return SERVER, "the mail server does not understand us"
    if enhanced is not None and enhanced[1] in _OURS:
        return _OURS[enhanced[1]]
    if step is Step.RCPT and _RELAYING.search(text):
        return ACCOUNT, "the mail server does not relay mails for us"
    if step is Step.MAIL and code not in _TOO_LARGE:
        return ACCOUNT, "the mail server does not let us send as this sender"
    return None
