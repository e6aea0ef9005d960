"""Arguments that several verbs share, and values as people write them, checked: times, ids, states, JSON."""

import argparse
import json
import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from sendonce.admin.explain.find import is_id
from sendonce.admin.stops import check_destination
from sendonce.cli.context import operator_of
from sendonce.cli.parser import Parser, WrongUse
from sendonce.cli.verbs import Arguments, argument
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.destinations import normalise
from sendonce.domain.durations import parse_duration, parse_rate
from sendonce.domain.events import LONGEST_TENANT, check_pattern, check_type
from sendonce.domain.requests import RequestStatus
from sendonce.domain.texts import MESSAGE_LENGTH
from sendonce.errors import BadEvent, SendonceError
from sendonce.store.bulk import STATES

if TYPE_CHECKING:
    from sendonce.admin.scoped import Wanted

Answer = TypeVar("Answer")
DEFAULT_LIMIT = 50
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


def rate(text: str) -> str:
    """10/s: so many sends a second; none: no limit."""
    if text.strip().lower() == "none":
        return "none"
    _checked(parse_rate, text)
    return text


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


def id_of(what: str) -> Arguments:
    return argument("id", type=row_id, metavar="ID", help=f"the {what}'s id")


TENANT = argument("--tenant", type=tenant, metavar="NAME", help="only of this tenant")
TYPE = argument("--type", type=event_type, metavar="TYPE", help="only of this event type")
DESTINATION = argument("--destination", type=destination, metavar="URI", help="only to this destination")
SINCE = argument(
    "--since", type=past, metavar="WHEN", help="only since 30m, 2h, 3d ago, or an ISO time (UTC if it says none)"
)
STATUS = argument(
    "--status",
    type=state,
    metavar="STATUS",
    help=f"only these: {', '.join(spelled_state(each) for each in DeliveryState)}",
)


def renamed(old: str, new: str) -> Arguments:
    """Refuse an option that has another name now, and say which."""

    class Renamed(argparse.Action):
        def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
            parser.error(f"there is no option {old}; it is called {new} now")

    return argument(old, dest=new.strip("-").replace("-", "_"), action=Renamed, help=argparse.SUPPRESS)


GIVEN_UP_AS = (
    argument("--given-up-as", type=reason_class, metavar="CLASS", help=f"only as: {', '.join(ReasonClass)}"),
    renamed("--reason", "--given-up-as"),
)
EVEN_IF_SENT = argument("--even-if-sent", action="store_true", help="also what was, or may have been, sent before")
OPERATOR = Arguments(
    lambda parser: parser.add_argument(
        "--operator",
        type=operator,
        metavar="NAME",
        help="who, for the operations log; else SENDONCE_OPERATOR, else user@host",
    ),
    {"operator": operator_of},
)
WHY = argument("--reason", type=reason, metavar="TEXT", help="why, for the operations log")
WHY_REQUIRED = argument(
    "--reason", type=reason, required=True, metavar="TEXT", help="why, for the operations log (required)"
)
LIMIT = argument(
    "--limit",
    type=limit,
    default=DEFAULT_LIMIT,
    metavar="N",
    help=f"at most so many, the newest first (default {DEFAULT_LIMIT})",
)
BEFORE = argument(
    "--before", type=row_id, metavar="ID", help="only older ones than this one, as the list before it ends with"
)
PAGE = (BEFORE, LIMIT)


def older_than(what: str) -> Arguments:
    """Declare --before for what is shown of one row: its newest attempts, say."""
    return argument("--before", type=row_id, metavar="N", help=f"only {what} before this one, as it said before")


def wanted_of(args: argparse.Namespace) -> "Wanted":
    """Return what a list is asked for."""
    names = ("status", "type", "destination", "tenant", "subject", "since", "before", "limit")
    wanted: Wanted = {name: getattr(args, name) for name in names if hasattr(args, name)}  # type: ignore[assignment]
    if hasattr(args, "given_up_as"):
        wanted["reason"] = args.given_up_as
    return {**wanted, "include_cancelled": getattr(args, "cancelled", False)}


def payload(without: str, *, default: object = None) -> Arguments:
    """Declare --payload and --payload-file; `without` says what holds when neither is given, which is `default`."""

    def add(parser: Parser) -> None:
        source = parser.add_mutually_exclusive_group()
        source.add_argument("--payload", metavar="JSON", help=f"the content; - reads standard input ({without})")
        source.add_argument("--payload-file", metavar="FILE", help="the content, from a file; - reads standard input")

    return Arguments(add, {"payload": lambda args: _payload_of(args) if has_payload(args) else default})


def has_payload(args: argparse.Namespace) -> bool:
    return args.payload is not None or args.payload_file is not None


def _payload_of(args: argparse.Namespace) -> object:
    given = args.payload_file if args.payload is None else args.payload
    is_text = args.payload not in (None, "-")
    source = "the payload" if is_text else "standard input" if given == "-" else given
    text = given if is_text else read_file(given)
    try:
        return json.loads(text)
    except RecursionError:
        raise WrongUse(f"{source} is nested too deeply to be JSON") from None
    except ValueError as error:
        # Only where it goes wrong: the text itself may be secret.
        position = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise WrongUse(f"{source} is not JSON{position}") from None


def read_file(source: str, most: int | None = None) -> str:
    """Return the text of a file, or of standard input for -; WrongUse when it cannot be read or is no text."""
    named = "standard input" if source == "-" else source
    try:
        if source == "-":
            content = sys.stdin.buffer.read() if most is None else sys.stdin.buffer.read(most + 1)
        else:
            with Path(source).open("rb") as file:
                content = file.read() if most is None else file.read(most + 1)
        if most is not None and len(content) > most:
            raise WrongUse(f"{named} is too long")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUse(f"{named} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise WrongUse(f"{named} cannot be read: {getattr(error, 'strerror', None) or error}") from None
