"""Options as people write them, checked: statuses, times, ids, JSON. What is wrong becomes argparse's sentence."""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from sendonce.admin.explain.find import is_id
from sendonce.admin.stops import check_destination
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.destinations import normalise
from sendonce.domain.durations import parse_duration
from sendonce.domain.events import LONGEST_TENANT, check_pattern, check_type
from sendonce.domain.rates import parse_rate
from sendonce.domain.requests import RequestStatus
from sendonce.domain.texts import MESSAGE_LENGTH
from sendonce.errors import BadEvent, SendonceError
from sendonce.store.bulk import STATES

Answer = TypeVar("Answer")
LARGEST_LIMIT = 10_000
_DURATION = re.compile(r"\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|w)", re.ASCII)
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def spelled_state(state: DeliveryState) -> str:
    """pending-retry: a state as it is typed."""
    return _WORDS.sub("-", state.value).lower()


def state(text: str) -> DeliveryState:
    for each in DeliveryState:
        if each.value.lower() == re.sub(r"[-_ ]", "", text).lower():
            return each
    raise ArgumentTypeError(f"{text!r} is none of {', '.join(spelled_state(each) for each in DeliveryState)}")


def reason_class(text: str) -> ReasonClass:
    try:
        return ReasonClass(text.lower().replace("-", "_"))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(ReasonClass)}") from None


def request_status(text: str) -> RequestStatus:
    try:
        return RequestStatus(text.lower().replace("-", "_"))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(RequestStatus)}") from None


def operation_state(text: str) -> str:
    if text.lower() not in STATES:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(STATES)}")
    return text.lower()


def past(text: str) -> datetime:
    """2h: two hours ago; or an ISO time."""
    return _moment(text, -1)


def future(text: str) -> datetime:
    """2h: in two hours; or an ISO time."""
    return _moment(text, 1)


def limit(text: str) -> int:
    if not is_id(text) or int(text) > LARGEST_LIMIT:
        raise ArgumentTypeError(f"{text!r} is not a whole number between 1 and {LARGEST_LIMIT}")
    return int(text)


def duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def rate(text: str) -> float | None:
    """10/s: so many sends a second; none: no limit."""
    return None if text.strip().lower() == "none" else _checked(parse_rate, text)


def some_rate(text: str) -> float:
    """10/s: so many a second."""
    return _checked(parse_rate, text)


def row_id(text: str) -> int:
    if not is_id(text):
        raise ArgumentTypeError(f"{text!r} is not an id; ids are whole numbers from 1")
    return int(text)


def version(text: str) -> int:
    if text != "0" and not is_id(text):
        raise ArgumentTypeError(f"{text!r} is not a version; versions are whole numbers, zero or above")
    return int(text)


def reason(text: str) -> str:
    plain = text.strip()
    if not plain or len(plain) > MESSAGE_LENGTH:
        raise ArgumentTypeError(f"say why, in 1 to {MESSAGE_LENGTH} characters")
    return plain


def operator(text: str) -> str:
    plain = text.strip()
    if not plain or len(plain) > LONGEST_TENANT:
        raise ArgumentTypeError(f"say who is acting, in 1 to {LONGEST_TENANT} characters")
    return plain


def tenant(text: str) -> str:
    if len(text.encode()) > LONGEST_TENANT:
        raise ArgumentTypeError(f"a tenant's name is at most {LONGEST_TENANT} bytes long")
    return text


def event_type(text: str) -> str:
    return _checked(check_type, text)


def type_pattern(text: str) -> str:
    """A type, or a family like order.*"""
    try:
        return check_pattern(text)
    except BadEvent:
        raise ArgumentTypeError(f"{text!r} is neither an event type nor a family like order.* or *") from None


def destination(text: str) -> str:
    return _checked(check_destination, text)


def named_destination(text: str) -> str:
    """Where an event is to go: a URI, never a subscription."""
    return _checked(normalise, text)


def _checked(check: Callable[[str], Answer], text: str) -> Answer:
    try:
        return check(text)
    except SendonceError as error:
        raise ArgumentTypeError(str(error)) from None


def _moment(text: str, direction: int) -> datetime:
    try:
        if _DURATION.fullmatch(text.strip()):
            return datetime.now(UTC) + direction * parse_duration(text)
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ArgumentTypeError(
            f"{text!r} is not a time; write 30m, 2h or 3d, or an ISO time like 2026-01-31T12:00:00Z"
        ) from None
