"""Subscriptions: entered, changed, paused and removed; and a test event for one alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from sendonce.domain.destinations import destination_hash
from sendonce.domain.events import NewEvent
from sendonce.errors import NotFound
from sendonce.sql.steps import Steps, one, records, rows
from sendonce.store.filters import Filter, Page, look, walk
from sendonce.store.operations_log import log, said
from sendonce.store.records import ENGINE, VERBS, Acted, SubscriptionRow
from sendonce.store.secrets import add_secrets

# Secrets by kind as they are stored, for the subscription with this id.
Sealing: TypeAlias = Callable[[int], Mapping[str, bytes]]


def subscriptions(tenant: str | None, *, before: int | None = None, limit: int = 50) -> Steps[Page[SubscriptionRow]]:
    """List the subscriptions that were not removed, the newest first, with ids below `before`."""

    def matching(ids: list[int], limit: int) -> Steps[list[SubscriptionRow]]:
        wanted = {"tenant": tenant, "is_removed": False, "limit": limit}
        return records(SubscriptionRow, "subscription_rows", ids=ids, **wanted)

    wanted = Filter(before=before, limit=limit)
    return (yield from look(wanted, walk("subscription_window"), matching, "subscription_at"))


def subscription(subscription_id: int) -> Steps[SubscriptionRow | None]:
    """Return one subscription, removed or not; None when there is none."""
    wanted = {"tenant": None, "is_removed": None, "limit": 1}
    return (yield from one(SubscriptionRow, "subscription_rows", ids=[subscription_id], **wanted))


def held_subscriptions(limit: int) -> Steps[list[SubscriptionRow]]:
    """Return some of the subscriptions whose deliveries wait until they are resumed."""
    ids = [int(room.partition(":")[2]) for [room] in (yield from rows("held_subscription_rooms", limit=limit))]
    wanted = {"tenant": None, "is_removed": None, "limit": limit}
    found = yield from records(SubscriptionRow, "subscription_rows", ids=ids, **wanted)
    return found[::-1]


def add_subscription(
    *,
    tenant: str,
    types: Sequence[str],
    destination: str,
    policy: str | None,
    description: str | None,
    operator: str,
    rate: float | None = None,
    ask: str | None = None,
    secrets: Sealing | None = None,
) -> Steps[int]:
    """Enter a subscription with its secrets by kind (as they are to be stored, told its id); its id."""
    [[subscription_id]] = yield from rows(
        "add_subscription",
        tenant=tenant,
        destination=destination,
        policy=policy,
        rate=rate,
        description=description,
        ask=ask,
    )
    yield from rows("add_subscription_types", tenant=tenant, types=list(types), subscription_id=subscription_id)
    if secrets is not None:
        yield from add_secrets(subscription_id, secrets(subscription_id))
    yield from _log("add", subscription_id, operator, None)
    return int(subscription_id)


def set_subscription_state(subscription_id: int, state: str, *, operator: str, reason: str | None) -> Steps[Acted]:
    """Pause, disable, resume (active: what was parked is due again) or remove. Removed is for good."""
    yield from _change("set_subscription_state", subscription_id, state=state, reason=said(reason))
    if state == "removed":
        yield from rows("remove_subscription_types", subscription_id=subscription_id)
    if state in ("active", "removed"):
        # What belongs to a removed one is claimed too: the sender refuses it, with its reason.
        yield from rows("unpark", parked_on=f"subscription:{subscription_id}")
    return (yield from _log(VERBS[state], subscription_id, operator, reason))


def set_subscription_rate(
    subscription_id: int, rate: float | None, *, operator: str, reason: str | None
) -> Steps[Acted]:
    """Send at most so many a second from now on; None: as many as there are, and what was parked is due again."""
    yield from _change("set_subscription_rate", subscription_id, rate=rate)
    if rate is None:
        yield from rows("unpark", parked_on=f"rate:{subscription_id}")
    return (yield from _log("rate", subscription_id, operator, reason))


def set_subscription_policy(
    subscription_id: int, policy: str | None, *, operator: str, reason: str | None
) -> Steps[Acted]:
    """Its own limits from now on, for what waits too; None: those of the channel and the default."""
    yield from _change("set_subscription_policy", subscription_id, policy=policy)
    return (yield from _log("policy", subscription_id, operator, reason))


def set_subscription_ask(subscription_id: int, ask: str | None, *, operator: str, reason: str | None) -> Steps[Acted]:
    """Where its receiver is asked from now on about what may have been sent; None: it cannot be asked."""
    yield from _change("set_subscription_ask", subscription_id, ask=ask)
    return (yield from _log("ask", subscription_id, operator, reason))


def set_subscription_types(
    subscription_id: int, types: Sequence[str], *, operator: str, reason: str | None
) -> Steps[Acted]:
    """The types of event that it gets from now on, in place of those before."""
    [[tenant]] = yield from _change("tenant_of_subscription", subscription_id)
    yield from rows("remove_subscription_types", subscription_id=subscription_id)
    yield from rows("add_subscription_types", tenant=tenant, types=list(types), subscription_id=subscription_id)
    return (yield from _log("types", subscription_id, operator, reason))


def disable_subscription(subscription_id: int, *, reason: str) -> Steps[bool]:
    """The receiver says that it is gone for good: disable it, with a row in the operations log; False when it was
    not active."""
    if not (yield from rows("disable_subscription", subscription_id=subscription_id, reason=said(reason))):
        return False
    yield from _log("disabled", subscription_id, ENGINE, reason)
    return True


def add_test(subscription_id: int, event: NewEvent, *, operator: str) -> Steps[Acted]:
    """Record an event for this subscription alone, of its tenant; the delivery's id. Needs the right to record."""
    destination = f"subscription:{subscription_id}"
    values = {
        "content_digest": UUID(bytes=event.content_digest),
        "type": event.type,
        "key": event.key,
        "payload": event.payload,
        "destination": destination,
        "destination_hash": UUID(bytes=destination_hash(destination)),
    }
    [[event_id]] = yield from _change("add_test_event", subscription_id, **values)
    [[delivery_id]] = yield from rows("add_test_delivery", subscription_id=subscription_id, event_id=event_id, **values)
    logged = yield from _log("test", subscription_id, operator, None)
    return Acted(ids=(delivery_id,), operation_id=logged.operation_id)


def _change(query: str, subscription_id: int, **values: object) -> Steps[list[tuple[object, ...]]]:
    """Ask what answers with a row when there is such a subscription; NotFound when there is none."""
    found = yield from rows(query, subscription_id=subscription_id, **values)
    if not found:
        raise NotFound(f"there is no subscription {subscription_id}, or it was removed")
    return found


def _log(kind: str, subscription_id: int, operator: str, reason: str | None) -> Steps[Acted]:
    return (yield from log(kind, operator, reason, (subscription_id,), subject="subscription"))
