"""The desk: what a person may see and do, for one's own pages and services. The command line does the same.

    async with sendonce.open_desk("postgresql://…", operator="shop admin") as desk:
        letters = await desk.dead_letters(type="order.placed")
        await desk.requeue([each.id for each in letters], reason="the receiver is back")

`desk.of("acme")` is the same desk for one tenant: it sees and touches that tenant's rows only, and what belongs to
others is not there (NotFound). `desk.signed("ada")` is the same desk for another operator: the operations log names who
acted.
"""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from sendonce.admin import dead_letters, deliveries, explain, subscriptions
from sendonce.admin.dead_letters import Attested, Reopened
from sendonce.admin.deliveries import Cancelled
from sendonce.admin.subscriptions import Secrets
from sendonce.admin.tenants import attempt_for_tenant
from sendonce.channels.signing import new_secret
from sendonce.compose import open_store
from sendonce.config.load import find, load_sealer
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.destinations import TypedDestination, scheme_of
from sendonce.domain.requests import RequestState
from sendonce.errors import NotFound
from sendonce.sealing import SecretBox
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from sendonce.store.records import (
    SUBSCRIPTIONS_SHOWN,
    Acted,
    AttemptRow,
    DeadLetterRow,
    DeliveryRow,
    EventRow,
    Status,
    SubscriptionRow,
)

# Rows that say whose they are.
Row = TypeVar("Row", EventRow, DeliveryRow, DeadLetterRow, SubscriptionRow, RequestState)

OVERLAP = timedelta(days=1)
_SIGNED = ("http", "https")


@dataclass(frozen=True, slots=True)
class AddedSubscription:
    """A subscription that was entered, and the secret that signs what goes to it: shown this once."""

    subscription: SubscriptionRow
    secret: str | None = field(repr=False)


@asynccontextmanager
async def open_desk(url: str, *, operator: str, config: Path | str | None = None) -> "AsyncIterator[Desk]":
    """A desk on an existing database. `config` is the settings file, for the keys that secrets are sealed with."""
    sealer = load_sealer(find(None if config is None else str(config), os.environ), os.environ)
    store = await open_store(url)
    try:
        yield Desk(store, sealer, operator=operator)
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class Desk:
    """Lists are newest first. An id that is not there, or not this tenant's, is NotFound; what the rules forbid is
    NotAllowed; both say what to do, and then nothing was written."""

    _store: Store
    _sealer: SecretBox
    operator: str = field(kw_only=True)
    tenant: str | None = field(kw_only=True, default=None)

    def of(self, tenant: str) -> "Desk":
        """The same desk for one tenant."""
        return replace(self, tenant=tenant)

    def signed(self, operator: str) -> "Desk":
        """The same desk for another operator."""
        return replace(self, operator=operator)

    # What there is to see.

    async def status(self) -> Status:
        """The whole at a glance, of all tenants."""
        return await self._store.status()

    async def events(
        self, *, type: str | None = None, since: datetime | None = None, limit: int = 50
    ) -> list[EventRow]:
        return await self._store.events(Filter(tenant=self.tenant, type=type, since=since, limit=limit))

    async def event(self, event_id: int) -> EventRow:
        return self._mine(await self._store.event(event_id), f"event {event_id}")

    async def deliveries(
        self,
        *,
        status: DeliveryState | None = None,
        type: str | None = None,
        destination: str | None = None,
        since: datetime | None = None,
        limit: int = 50,
    ) -> list[DeliveryRow]:
        return await self._store.deliveries(
            Filter(tenant=self.tenant, status=status, type=type, destination=destination, since=since, limit=limit)
        )

    async def delivery(self, delivery_id: int) -> DeliveryRow:
        return self._mine(await self._store.delivery(delivery_id), f"delivery {delivery_id}")

    async def deliveries_of(self, event_id: int) -> list[DeliveryRow]:
        """All of an event, every generation."""
        await self.event(event_id)
        return await self._store.deliveries_of(event_id)

    async def attempts_of(self, delivery_id: int) -> list[AttemptRow]:
        """Every attempt. A tenant's desk leaves out what its errors advise operators to do."""
        await self.delivery(delivery_id)
        rows = await self._store.attempts_of(delivery_id)
        return rows if self.tenant is None else [attempt_for_tenant(each) for each in rows]

    async def explain(self, delivery_id: int) -> tuple[str, ...]:
        """Why a delivery is where it is and what happens next, in plain sentences.

        A tenant's desk tells nothing about others, and no operator, worker or command.
        """
        delivery = await self.delivery(delivery_id)
        if self.tenant is not None:
            return await explain.explain_to_tenant(self._store, delivery)
        return (await explain.explain(self._store, f"delivery:{delivery_id}")).sentences

    async def dead_letters(
        self,
        *,
        type: str | None = None,
        destination: str | None = None,
        reason: ReasonClass | None = None,
        since: datetime | None = None,
        limit: int = 50,
    ) -> list[DeadLetterRow]:
        """The open ones."""
        return await self._store.dead_letters(
            Filter(tenant=self.tenant, type=type, destination=destination, reason=reason, since=since, limit=limit)
        )

    async def dead_letter(self, dead_letter_id: int) -> DeadLetterRow:
        return self._mine(await self._store.dead_letter(dead_letter_id), f"dead letter {dead_letter_id}")

    async def undelivered(self, *, before: int | None = None, limit: int = 50) -> list[DeliveryRow]:
        """What has not arrived: not finished, or an open dead letter. `before`: the last id of the page before it."""
        return await self._store.undelivered(self.tenant, before=before, limit=limit)

    async def request(self, request_id: int) -> RequestState:
        return self._mine(await self._store.request(request_id), f"request {request_id}")

    async def wait_for_request(self, request_id: int, timeout: timedelta) -> RequestState:
        """The request as soon as it is not in progress any more, or as it is when the time is over."""
        await self.request(request_id)
        return await deliveries.wait_for_request(self._store, request_id, timeout=timeout)

    # What was given up, or is not wanted any more.

    async def requeue(
        self, dead_letter_ids: Sequence[int], *, reason: str, even_if_sent: bool = False
    ) -> list[Reopened]:
        """Send dead letters again, all or none. What may have been sent already needs `even_if_sent`."""
        for each in dead_letter_ids:
            await self.dead_letter(each)
        return await dead_letters.requeue(
            self._store, dead_letter_ids, operator=self.operator, reason=reason, even_if_sent=even_if_sent
        )

    async def replay(self, delivery_ids: Sequence[int], *, reason: str, even_if_sent: bool = False) -> list[Reopened]:
        """Send finished deliveries again, all or none. What was sent needs `even_if_sent`."""
        for each in delivery_ids:
            await self.delivery(each)
        return await dead_letters.replay(
            self._store, delivery_ids, operator=self.operator, reason=reason, even_if_sent=even_if_sent
        )

    async def correct(
        self,
        delivery_id: int,
        *,
        to: str | TypedDestination | None = None,
        payload: object | None = None,
        reason: str,
        even_if_sent: bool = False,
    ) -> Reopened:
        """Send what was given up to another destination, with other content, or both; all that was before is kept.

        `to` may be an Email with the whole content. What may have been sent already needs `even_if_sent`.
        """
        await self.delivery(delivery_id)
        return await dead_letters.correct(
            self._store,
            delivery_id,
            to=to,
            payload=payload,
            operator=self.operator,
            reason=reason,
            even_if_sent=even_if_sent,
        )

    async def discard(self, dead_letter_ids: Sequence[int], *, reason: str) -> Acted:
        """Close dead letters for good; the deliveries stay as they are."""
        for each in dead_letter_ids:
            await self.dead_letter(each)
        return await dead_letters.discard(self._store, dead_letter_ids, operator=self.operator, reason=reason)

    async def attest(
        self, dead_letter_ids: Sequence[int], *, reason: str, notification_id: str | None = None
    ) -> list[Attested]:
        """A person knows that these were delivered: complete them, and send nothing."""
        for each in dead_letter_ids:
            await self.dead_letter(each)
        return await dead_letters.attest(
            self._store, dead_letter_ids, operator=self.operator, reason=reason, notification_id=notification_id
        )

    async def cancel(self, delivery_ids: Sequence[int], *, reason: str) -> list[Cancelled]:
        """Give up deliveries that are not being sent; an answer for each."""
        for each in delivery_ids:
            await self.delivery(each)
        return await deliveries.cancel(self._store, delivery_ids, operator=self.operator, reason=reason)

    # Standing orders.

    async def subscriptions(self, *, after: int = 0, limit: int = SUBSCRIPTIONS_SHOWN) -> list[SubscriptionRow]:
        """By id. `after`: the last id of the page before it."""
        return await self._store.subscriptions(self.tenant, after=after, limit=limit)

    async def subscription(self, subscription_id: int) -> SubscriptionRow:
        return self._mine(await self._store.subscription(subscription_id), f"subscription {subscription_id}")

    async def add_subscription(
        self,
        *,
        types: Sequence[str],
        to: str,
        policy: Mapping[str, object] | None = None,
        rate: str | None = None,
        description: str | None = None,
        secret: str | None = None,
    ) -> AddedSubscription:
        """Enter a standing order of this desk's tenant.

        What goes to an HTTP address is signed, with a new secret or the one that is brought.
        """
        wanted = subscriptions.new_subscription(
            types=types,
            to=to,
            tenant=self.tenant or "",
            policy=None if policy is None else json.dumps(dict(policy)),
            rate=rate,
            description=description,
        )
        signing = None
        if secret is not None:
            signing = subscriptions.check_signing(secret)
        elif scheme_of(wanted.destination) in _SIGNED:
            signing = new_secret()
        sealed = Secrets(signing=signing).sealed(self._sealer)
        row = await subscriptions.add(self._store, wanted, operator=self.operator, secrets=sealed)
        return AddedSubscription(row, signing)

    async def pause_subscription(self, subscription_id: int, *, reason: str | None = None) -> SubscriptionRow:
        """Hold its deliveries back; what is recorded from now on waits too."""
        return await self._change(subscription_id, subscriptions.PAUSED, reason)

    async def resume_subscription(self, subscription_id: int, *, reason: str | None = None) -> SubscriptionRow:
        """Send what waited, and go on. Also for one that was disabled."""
        return await self._change(subscription_id, subscriptions.ACTIVE, reason)

    async def remove_subscription(self, subscription_id: int, *, reason: str | None = None) -> SubscriptionRow:
        """End it for good; what still waits for it is given up."""
        return await self._change(subscription_id, subscriptions.REMOVED, reason)

    async def change_subscription(
        self,
        subscription_id: int,
        *,
        types: Sequence[str] | None = None,
        policy: Mapping[str, object] | None = None,
        reason: str | None = None,
    ) -> SubscriptionRow:
        """Give it other types of event, or other limits, an empty policy being none; what is left out stays."""
        wanted = None if types is None else subscriptions.check_types(types)
        limits = subscriptions.check_policy(json.dumps(dict(policy))) if policy else None
        row = await self.subscription(subscription_id)
        if wanted is not None:
            row = await subscriptions.set_types(
                self._store, subscription_id, wanted, operator=self.operator, reason=reason
            )
        if policy is not None:
            row = await subscriptions.set_policy(
                self._store, subscription_id, limits, operator=self.operator, reason=reason
            )
        return row

    async def test_subscription(self, subscription_id: int) -> DeliveryRow:
        """Send it an event that says that it is a test, and send that to nobody else; the delivery."""
        await self.subscription(subscription_id)
        return await subscriptions.send_test(self._store, subscription_id, operator=self.operator)

    async def rotate_secret(
        self,
        subscription_id: int,
        *,
        overlap: timedelta = OVERLAP,
        secret: str | None = None,
        reason: str | None = None,
    ) -> str:
        """Sign with a new secret too, and with it alone after `overlap`; the secret, which is shown this once."""
        await self.subscription(subscription_id)
        signing = secret or new_secret()
        await subscriptions.rotate(
            self._store,
            subscription_id,
            signing,
            overlap=overlap,
            sealer=self._sealer,
            operator=self.operator,
            reason=reason,
        )
        return signing

    async def _change(self, subscription_id: int, state: str, reason: str | None) -> SubscriptionRow:
        await self.subscription(subscription_id)
        return await subscriptions.change(self._store, subscription_id, state, operator=self.operator, reason=reason)

    def _mine(self, row: Row | None, named: str) -> Row:
        if row is None or self.tenant not in (None, row.tenant):
            raise NotFound(f"there is no {named}")
        return row
