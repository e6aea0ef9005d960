"""Stops: what a stop covers, whether it holds back a delivery, and how it is set and lifted."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sendonce.admin.text import counted, one_line, stamp
from sendonce.domain.destinations import normalise, scheme_of
from sendonce.errors import BadDestination, ConfigError, NotFound
from sendonce.store.ports import Store
from sendonce.store.records import Acted, DeliveryRow, StopRow

SCOPES = ("all", "channel", "destination", "tenant")
_CHANNEL = re.compile(r"[a-z][a-z0-9+.-]{0,31}", re.ASCII)
_SUBSCRIPTION = re.compile(r"subscription:[1-9][0-9]{0,18}", re.ASCII)


def check_destination(text: str) -> str:
    """A destination as it is recorded: normalised, or subscription:42."""
    plain = text.strip()
    return plain if _SUBSCRIPTION.fullmatch(plain) else normalise(plain)


def check_scope(scope: str, value: str) -> tuple[str, str]:
    """A stop's scope and value in the one spelling they are kept in; ConfigError says what is wrong."""
    if scope not in SCOPES:
        raise ConfigError(f"a stop covers one of {', '.join(SCOPES)}; not {scope!r}")
    if scope == "all":
        return scope, ""
    if scope == "channel":
        channel = value.strip().lower().removesuffix(":")
        if not _CHANNEL.fullmatch(channel):
            raise ConfigError(f"a channel is the scheme of a destination, like mailto or https; not {value!r}")
        return scope, channel
    if scope == "destination":
        try:
            return scope, check_destination(value)
        except BadDestination as error:
            raise ConfigError(str(error)) from None
    return scope, value


def spelled(scope: str, value: str) -> str:
    """The options that name this scope on the command line."""
    return "--all" if scope == "all" else f"--{scope} {quoted(one_line(value, 2000))}"


def quoted(value: str) -> str:
    """The value as a shell wants it."""
    return value if re.fullmatch(r"[\w@%+=:,./-]+", value, re.ASCII) else "'" + value.replace("'", "'\"'\"'") + "'"


def holding(stops: Iterable[StopRow], delivery: DeliveryRow, address: str) -> StopRow | None:
    """The stop that holds back this delivery, whose destination resolves to `address`; the widest one first."""
    covered = {
        ("all", ""),
        ("channel", scheme_of(address)),
        ("destination", delivery.destination),
        ("destination", address),
        ("tenant", delivery.tenant),
    }
    found = [stop for stop in stops if (stop.scope, stop.value) in covered]
    return min(found, key=lambda stop: SCOPES.index(stop.scope), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A stop. `since` and `by` when it was there already; `in_flight`: so many were being sent when it was set."""

    scope: str
    value: str
    in_flight: int
    since: datetime | None = None
    by: str | None = None
    operation_id: int | None = None


async def stop(store: Store, scope: str, value: str, *, operator: str, reason: str | None) -> Stopped:
    """Hold back all sends of a scope until it is resumed."""
    scope, value = check_scope(scope, value)
    status = await store.status()
    for each in status.stops:
        if (each.scope, each.value) == (scope, value):
            return Stopped(
                scope=scope, value=value, in_flight=status.in_flight, since=each.created_at, by=each.operator
            )
    acted = await store.stop(scope, value, operator=operator, reason=reason)
    in_flight = (await store.status()).in_flight
    return Stopped(scope=scope, value=value, in_flight=in_flight, operation_id=acted.operation_id)


async def resume(store: Store, scope: str, value: str, *, operator: str) -> Acted:
    """Lift a stop; NotFound when there is none. What it held back is due again."""
    scope, value = check_scope(scope, value)
    stops = (await store.status()).stops
    if not any((each.scope, each.value) == (scope, value) for each in stops):
        others = ", ".join(spelled(each.scope, each.value) for each in stops)
        raise NotFound(f"{spelled(scope, value)} is not stopped; stopped are: {others or 'none'}")
    return await store.resume(scope, value, operator=operator)


def stop_sentence(stopped: Stopped) -> str:
    """stopped: nothing is claimed for --channel mailto from now on; 12 are being sent now and may still arrive."""
    named = spelled(stopped.scope, stopped.value)
    if stopped.since is not None:
        return f"{named} was stopped already, on {stamp(stopped.since)} by {one_line(stopped.by or '')}"
    if not stopped.in_flight:
        return f"stopped: nothing is sent for {named} from now on"
    sending = counted(stopped.in_flight, "delivery is", "deliveries are")
    which = "" if stopped.scope == "all" else f"; those of them for {named}"
    begun = f"stopped: no new send begins for {named}; {sending} being sent at this moment"
    return f"{begun}{which or ', which'} may still arrive"
