"""Stops: what a stop covers, whether it holds back a delivery, and how it is set and lifted."""

import re
from collections.abc import Iterable

from sendonce.admin.desk import Desk
from sendonce.admin.text import dated, one_line
from sendonce.domain.destinations import normalise, scheme_of
from sendonce.errors import BadDestination, ConfigError, NotFound
from sendonce.store.records import DeliveryRow, StopRow

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


async def stop(desk: Desk, scope: str, value: str, *, operator: str, reason: str | None) -> str:
    """Hold back all sends of a scope until it is resumed; a sentence about what is true now."""
    scope, value = check_scope(scope, value)
    named = spelled(scope, value)
    status = await desk.status()
    for each in status.stops:
        if (each.scope, each.value) == (scope, value):
            return f"{named} was stopped already, {dated(each.created_at, status.now)} by {each.operator}"
    await desk.stop(scope, value, operator=operator, reason=reason)
    return f"stopped: nothing more is sent for {named}; go on with: sendonce resume {named}"


async def resume(desk: Desk, scope: str, value: str, *, operator: str) -> str:
    """Lift a stop; NotFound when there is none. What it held back is due again."""
    scope, value = check_scope(scope, value)
    named = spelled(scope, value)
    stops = (await desk.status()).stops
    if not any((each.scope, each.value) == (scope, value) for each in stops):
        others = ", ".join(spelled(each.scope, each.value) for each in stops)
        raise NotFound(f"{named} is not stopped; stopped are: {others or 'none'}")
    await desk.resume(scope, value, operator=operator)
    return f"resumed: {named} is sent again"
