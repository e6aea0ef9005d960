"""sendonce subscriptions: standing orders, their limits, and the secrets that what is sent there is signed with."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sendonce.admin import subscriptions
from sendonce.admin.subscriptions import Standing, check_headers, check_signing
from sendonce.admin.text import counted, dated
from sendonce.cli import options
from sendonce.cli.context import CONFIG, configured, sealer_for
from sendonce.cli.options import OPERATOR, PAGE, TENANT, WHY, id_of, read_file
from sendonce.cli.output import Line, fields_of
from sendonce.cli.parser import Parser, WrongUse
from sendonce.cli.tables import Cell, Table, address, field_lines, listed, now, when
from sendonce.cli.verbs import Arguments, argument, verb
from sendonce.domain.durations import format_duration, format_rate
from sendonce.errors import SendonceError
from sendonce.store.filters import Page
from sendonce.store.records import ROOM_CAP, DeliveryRow, KeptSecret, SubscriptionRow

if TYPE_CHECKING:
    from sendonce.admin.api import Admin

LONGEST = 100_000
_FILES = ("secret_file", "bearer_file", "header_file", "client_certificate")
_WAITING = {"resume": "until it is resumed", "rate": "for its rate", "destination": "for room at its destination"}
_ID = id_of("subscription")
# The keys are looked at before a database is opened.
_KEYS = Arguments(CONFIG.add, {"keys": sealer_for})
_SECRET_FILE = argument(
    "--secret-file", metavar="FILE", help="sign with this secret (whsec_…) instead of a new one; - reads it"
)


@dataclass(frozen=True, slots=True)
class _Signed:
    """A subscription with what was done to it, and a secret that was made for it: the one time that it is shown."""

    row: SubscriptionRow
    sentence: str
    secret: str | None = field(repr=False)


def _signed_document(signed: _Signed) -> dict[str, object]:
    return fields_of(signed.row) | ({} if signed.secret is None else {"secret": signed.secret})


def _signed_lines(signed: _Signed) -> Iterator[str]:
    yield signed.sentence
    if signed.secret is not None:
        yield f"it is signed with this secret, which is not shown again: {signed.secret}"


def _add_secrets(parser: Parser) -> None:
    _SECRET_FILE.add(parser)
    parser.add_argument("--no-secret", action="store_true", help="do not sign what is sent to it")
    parser.add_argument("--bearer-file", metavar="FILE", help="send this bearer token; - reads standard input")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="send this header too; may be repeated; a secret one belongs into --header-file",
    )
    parser.add_argument("--header-file", metavar="FILE", help="send these headers too, one a line; - reads them")
    parser.add_argument(
        "--client-certificate", metavar="FILE", help="present this certificate: PEM, with its key; - reads it"
    )


def _new_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the new subscription is to be, checked."""
    named = {name: getattr(args, name) for name in ("to", "tenant", "rate", "description", "ask")}
    try:
        subscriptions.new_subscription(types=args.type, policy=args.policy, **named)
    except SendonceError as error:
        raise WrongUse(str(error)) from None
    return {**named, "types": args.type, "policy": json.loads(args.policy) if args.policy else None}


def _secrets_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return what its requests are to be signed and sent with, checked."""
    if [getattr(args, name) for name in _FILES].count("-") > 1:
        raise WrongUse("only one of the files can be standard input")
    if args.no_secret and args.secret_file is not None:
        raise WrongUse("--no-secret and --secret-file exclude each other")
    lines = [*args.header, *(_text_of(args.header_file) or "").splitlines()]
    headers = configured(lambda: check_headers(line for line in lines if line.strip()))
    if args.bearer_file is not None and "authorization" in {name.lower() for name in headers}:
        raise WrongUse("a bearer token and an Authorization header exclude each other")
    given: dict[str, Any] = {
        "secret": _signing_of(args),
        "is_signed": False if args.no_secret else None,
        "bearer": _text_of(args.bearer_file),
        "headers": headers,
        "certificate": _text_of(args.client_certificate),
    }
    configured(lambda: subscriptions.new_secrets(_new_of(args)["to"], **given))
    return given


def _signing_of(args: argparse.Namespace) -> str | None:
    """Return the signing secret that somebody brings, checked."""
    text = _text_of(args.secret_file)
    return None if text is None else configured(lambda: check_signing(text))


def _text_of(source: str | None) -> str | None:
    return None if source is None else read_file(source, LONGEST)


@verb(
    "subscriptions add",
    "add a subscription: matching events recorded from now on go to it",
    argument(
        "--type",
        action="append",
        required=True,
        metavar="TYPE",
        help="an event type, a family like order.* or * for all; may be repeated",
    ),
    argument("--to", required=True, metavar="URI", help="where its deliveries go"),
    argument("--tenant", type=options.tenant, default="", metavar="NAME", help="whose events (default: none)"),
    argument("--policy", metavar="JSON", help='its own limits, like {"max_attempts": 5, "longest_delay": "10m"}'),
    argument("--rate", metavar="RATE", help="at most so many sends, like 10/s or 100/m"),
    argument("--description", metavar="TEXT", help="what it is for"),
    argument("--ask", metavar="URL", help="where its receiver can be asked about a message: a URL with {token} in it"),
    Arguments(_add_secrets, {"wanted": _new_of, "secrets": _secrets_of}),
    _KEYS,
    OPERATOR,
)
async def add(admin: "Admin", wanted: dict[str, Any], secrets: dict[str, Any], secret_file: str | None) -> _Signed:
    added = await admin.aadd_subscription(**wanted, **secrets)
    row = added.subscription
    said = f"subscription {row.id}: {', '.join(row.types)} goes to {row.destination}"
    return _Signed(row, said, added.secret if secret_file is None else None)


@verb("subscriptions list", "list the subscriptions, the newest first", TENANT, *PAGE)
async def list_subscriptions(
    admin: "Admin", tenant: str | None, before: int | None, limit: int
) -> Page[SubscriptionRow]:
    return await admin.asubscriptions(tenant=tenant, before=before, limit=limit)


@list_subscriptions.text
def _(page: Page[SubscriptionRow], limit: int) -> Iterator[Line]:
    return listed(page, _table, "subscriptions", limit)


def _table(rows: Page[SubscriptionRow]) -> Table:
    at = now()
    cells = [
        [
            Cell(str(each.id)),
            Cell(each.state, "green" if each.state == subscriptions.ACTIVE else "yellow"),
            Cell(", ".join(each.types)),
            address(each.destination),
            Cell("" if each.rate is None else format_rate(each.rate)),
            Cell(each.tenant),
            Cell(each.description or ""),
            when(each.created_at, at),
        ]
        for each in rows
    ]
    return Table(["ID", "STATE", "TYPES", "DESTINATION", "RATE", "TENANT", "DESCRIPTION", "ADDED"], cells)


@verb("subscriptions show", "show one subscription: everything but its secrets", _ID)
async def show(admin: "Admin", id: int) -> Standing:
    return await admin.asubscription_details(id)


@show.json
def _(found: Standing) -> object:
    return fields_of(found.subscription) | {"secrets": found.secrets, "waiting": found.waiting}


@show.text
def _(found: Standing) -> Iterator[str]:
    row, at = found.subscription, now()
    names = ["id", "tenant", "destination", "ask", "state", "state_reason", "policy", "description", "created_at"]
    shown = [(name, getattr(row, name)) for name in names]
    shown.insert(2, ("types", ", ".join(row.types)))
    shown.insert(8, ("rate", None if row.rate is None else format_rate(row.rate)))
    yield from field_lines(shown, at)
    yield from (_secret_line(secret, at) for secret in found.secrets)
    for reason, amount in found.waiting.items():
        more = "or more " if amount >= ROOM_CAP else ""
        yield f"{counted(amount, 'delivery', 'deliveries')} {more}wait{'s' if amount == 1 else ''} {_WAITING[reason]}"


def _secret_line(secret: KeptSecret, at: datetime) -> str:
    until = f", until {dated(secret.expires_at, at)}" if secret.expires_at else ""
    return f"secret {secret.id}: {secret.kind}, since {dated(secret.created_at, at)}{until}"


@verb("subscriptions pause", "hold back a subscription's deliveries until it is resumed", _ID, WHY, OPERATOR)
async def pause(admin: "Admin", id: int, reason: str | None) -> SubscriptionRow:
    return await admin.apause_subscription(id, reason=reason)


@verb("subscriptions resume", "let a paused or disabled subscription's deliveries go on", _ID, WHY, OPERATOR)
async def resume(admin: "Admin", id: int, reason: str | None) -> SubscriptionRow:
    return await admin.aresume_subscription(id, reason=reason)


@verb("subscriptions remove", "end a subscription, for good", _ID, WHY, OPERATOR)
async def remove(admin: "Admin", id: int, reason: str | None) -> SubscriptionRow:
    return await admin.aremove_subscription(id, reason=reason)


pause.text(lambda row: (f"subscription {row.id} is paused",))
resume.text(lambda row: (f"subscription {row.id} is active",))
remove.text(lambda row: (f"subscription {row.id} is removed",))


@verb(
    "subscriptions rate",
    "limit how much a subscription is sent",
    _ID,
    argument("rate", type=options.rate, metavar="RATE", help="like 10/s or 100/m; none: as much as there is"),
    WHY,
    OPERATOR,
)
async def set_rate(admin: "Admin", id: int, rate: str, reason: str | None) -> SubscriptionRow:
    return await admin.achange_subscription(id, rate=rate, reason=reason)


@set_rate.text
def _(row: SubscriptionRow) -> Iterator[str]:
    limit = "as much as there is" if row.rate is None else f"at most {format_rate(row.rate)}"
    yield f"subscription {row.id} is sent {limit}"


def _policy_of(args: argparse.Namespace) -> dict[str, object]:
    """Return a subscription's own limits; an empty one for those of its channel."""
    if args.policy == "none":
        return {}
    try:
        policy: dict[str, object] = json.loads(subscriptions.check_policy(args.policy))
    except SendonceError as error:
        raise WrongUse(str(error)) from None
    return policy


@verb(
    "subscriptions policy",
    "give a subscription other limits",
    _ID,
    Arguments(
        lambda parser: parser.add_argument(
            "policy", metavar="JSON", help='its own limits, like {"max_attempts": 5}; none: those of its channel'
        ),
        {"policy": _policy_of},
    ),
    WHY,
    OPERATOR,
)
async def set_policy(admin: "Admin", id: int, policy: dict[str, object], reason: str | None) -> SubscriptionRow:
    return await admin.achange_subscription(id, policy=policy, reason=reason)


@set_policy.text
def _(row: SubscriptionRow) -> Iterator[str]:
    kept = "no policy of its own" if row.policy is None else f"the policy {row.policy}"
    yield f"subscription {row.id} has {kept}"


@verb(
    "subscriptions ask",
    "say where a subscription's receiver can be asked about what may have been sent",
    _ID,
    argument("ask", metavar="URL", help="a URL with {token} in it; none: it cannot be asked"),
    WHY,
    OPERATOR,
)
async def set_ask(admin: "Admin", id: int, ask: str, reason: str | None) -> SubscriptionRow:
    return await admin.achange_subscription(id, ask=ask, reason=reason)


@set_ask.text
def _(row: SubscriptionRow) -> Iterator[str]:
    if row.ask is None:
        yield f"the receiver of subscription {row.id} cannot be asked"
    else:
        yield f"the receiver of subscription {row.id} is asked at {row.ask} before anything is sent to it again"


def _types_of(args: argparse.Namespace) -> Sequence[str]:
    try:
        return subscriptions.check_types(args.type)
    except SendonceError as error:
        raise WrongUse(str(error)) from None


@verb(
    "subscriptions types",
    "let a subscription get other types of event",
    _ID,
    Arguments(
        lambda parser: parser.add_argument(
            "type", nargs="+", metavar="TYPE", help="an event type, a family like order.* or * for all"
        ),
        {"types": _types_of},
    ),
    WHY,
    OPERATOR,
)
async def set_types(admin: "Admin", id: int, types: Sequence[str], reason: str | None) -> SubscriptionRow:
    return await admin.achange_subscription(id, types=types, reason=reason)


set_types.text(lambda row: (f"subscription {row.id} gets {', '.join(row.types)} from now on",))


@verb("subscriptions test", "send a test event to a subscription, and to no other", _ID, OPERATOR)
async def test(admin: "Admin", id: int) -> DeliveryRow:
    return await admin.atest_subscription(id)


@test.text
def _(row: DeliveryRow, id: int) -> Iterator[str]:
    yield f"delivery {row.id} of a test event goes to subscription {id}"
    yield f"see what comes of it with: sendonce explain {row.id}"


@verb(
    "subscriptions rotate-secret",
    "replace a subscription's signing secret, with an overlap",
    _ID,
    argument(
        "--overlap",
        type=options.duration,
        default=timedelta(days=1),
        metavar="TIME",
        help="how long the old secret signs too (default 24h); 0s ends it at once",
    ),
    Arguments(_SECRET_FILE.add, {"brought": _signing_of}),
    _KEYS,
    WHY,
    OPERATOR,
)
async def rotate(admin: "Admin", id: int, overlap: timedelta, brought: str | None, reason: str | None) -> _Signed:
    rotated = await admin.arotate_secret(id, overlap=overlap, secret=brought, reason=reason)
    old = "there was none before it"
    if rotated.is_replacement:
        old = f"the one before it {f'signs too for {format_duration(overlap)}' if overlap else 'is gone'}"
    sentence = f"subscription {id} has a new secret; {old}"
    return _Signed(rotated.subscription, sentence, rotated.secret if brought is None else None)


for each in (add, rotate):
    each.text(_signed_lines)
    each.json(_signed_document)


@verb("subscriptions reseal", "encrypt all stored secrets with the first of the keys", _KEYS, OPERATOR)
async def reseal(admin: "Admin") -> int:
    return await admin.areencrypt_secrets()


reseal.json(lambda amount: {"resealed": amount})


@reseal.text
def _(amount: int) -> Iterator[str]:
    yield f"{counted(amount, 'secret')} {'is' if amount == 1 else 'are'} encrypted with the first key"
