"""What operators and tenants can do alike, each with the records that they may see."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic, Self, TypedDict, TypeVar, Unpack

from sendonce.admin import dead_letters, deliveries, subscriptions
from sendonce.admin.dead_letters import Attested, Reopened
from sendonce.admin.deliveries import Cancelled
from sendonce.admin.session import Session, address_verb, sync
from sendonce.domain.deliveries import DeliveryState, ReasonClass
from sendonce.domain.destinations import TypedDestination
from sendonce.domain.requests import RequestState, RequestStatus
from sendonce.errors import BadEvent, NotFound
from sendonce.store.filters import SHOWN_OF_ONE, Filter, Page
from sendonce.store.ports import Store
from sendonce.store.records import (
    Acted,
    AttemptRow,
    DeadLetterGroup,
    DeadLetterRow,
    DeliveryRow,
    EventRow,
    RequestRow,
    SubscriptionRow,
)

Event = TypeVar("Event")
Delivery = TypeVar("Delivery")
Attempt = TypeVar("Attempt")
DeadLetter = TypeVar("DeadLetter")
Group = TypeVar("Group")
Subscription = TypeVar("Subscription")
Request = TypeVar("Request")
RequestDetails = TypeVar("RequestDetails")
Row = TypeVar("Row")
Shown = TypeVar("Shown")
Owned = TypeVar("Owned", EventRow, DeliveryRow, DeadLetterRow, SubscriptionRow, RequestState)

OVERLAP = timedelta(days=1)


class Wanted(TypedDict, total=False):
    """What a list is to show: the fields of Filter that a caller may give."""

    status: DeliveryState | RequestStatus | None
    type: str | None
    destination: str | None
    tenant: str | None
    subject: str | None
    reason: ReasonClass | None
    since: datetime | None
    until: datetime | None
    include_cancelled: bool
    before: int | None
    limit: int


@dataclass(frozen=True, slots=True)
class AddedSubscription(Generic[Subscription]):
    """A new subscription, and the secret that signs what goes to it, which is shown this once."""

    subscription: Subscription
    secret: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class RotatedSecret(Generic[Subscription]):
    """A subscription's new signing secret, which is shown this once; `is_replacement` when it had one before."""

    subscription: Subscription
    secret: str = field(repr=False)
    is_replacement: bool


@dataclass(frozen=True)
class Scoped(ABC, Generic[Event, Delivery, Attempt, DeadLetter, Group, Subscription, Request, RequestDetails]):
    """The verbs that operators and tenants share.

    Lists are newest first. An id that does not exist, or is not in this scope, raises NotFound; what the rules forbid
    raises NotAllowed; both say what to do, and nothing was written.
    """

    session: Session
    operator: str = field(kw_only=True)

    # What there is to see.

    async def aevents(self, **wanted: Unpack[Wanted]) -> Page[Event]:
        """List events, newest first."""
        return self._page(await (await self._store()).events(self._filter(wanted)), self._event)

    events = sync(aevents)

    async def aevent(self, event_id: int) -> Event:
        return self._event(self._owned(await (await self._store()).event(event_id), f"event {event_id}"))

    event = sync(aevent)

    async def adeliveries(self, **wanted: Unpack[Wanted]) -> Page[Delivery]:
        """List deliveries, newest first."""
        return self._page(await (await self._store()).deliveries(self._filter(wanted)), self._delivery)

    deliveries = sync(adeliveries)

    async def adelivery(self, delivery_id: int) -> Delivery:
        return self._delivery(await self._owned_delivery(delivery_id))

    delivery = sync(adelivery)

    async def adeliveries_of(
        self, event_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE
    ) -> Page[Delivery]:
        """Return the newest deliveries of an event, every generation, the oldest of them first."""
        await self.aevent(event_id)
        return self._page(
            await (await self._store()).deliveries_of(event_id, before=before, limit=limit), self._delivery
        )

    deliveries_of = sync(adeliveries_of)

    async def aattempts_of(
        self, delivery_id: int, *, before: int | None = None, limit: int = SHOWN_OF_ONE
    ) -> Page[Attempt]:
        """Return the newest attempts of a delivery, with numbers below `before`, the first of them first."""
        await self._owned_delivery(delivery_id)
        return self._page(
            await (await self._store()).attempts_of(delivery_id, before=before, limit=limit), self._attempt
        )

    attempts_of = sync(aattempts_of)

    async def adead_letters(self, **wanted: Unpack[Wanted]) -> Page[DeadLetter]:
        """List the open dead letters, newest first."""
        return self._page(await (await self._store()).dead_letters(self._filter(wanted)), self._dead_letter)

    dead_letters = sync(adead_letters)

    async def adead_letter_summary(self, **wanted: Unpack[Wanted]) -> Page[Group]:
        """Count the open dead letters by reason, error code, type and host, the largest groups first.

        As lists do, it looks at a bounded number of them, the newest, and says how far it looked.
        """
        return self._page(await (await self._store()).dead_letter_summary(self._filter(wanted)), self._group)

    dead_letter_summary = sync(adead_letter_summary)

    async def adead_letter(self, dead_letter_id: int) -> DeadLetter:
        return self._dead_letter(await self._owned_dead_letter(dead_letter_id))

    dead_letter = sync(adead_letter)

    async def aundelivered(
        self, *, tenant: str | None = None, before: int | None = None, limit: int = 50
    ) -> Page[Delivery]:
        """List what has not arrived: not finished, or an open dead letter. `before`: the last id of the page before."""
        found = await (await self._store()).undelivered(self._tenant(tenant), before=before, limit=limit)
        return self._page(found, self._delivery)

    undelivered = sync(aundelivered)

    async def arequests(self, **wanted: Unpack[Wanted]) -> Page[Request]:
        """List requests, newest first."""
        return self._page(await (await self._store()).requests(self._filter(wanted)), self._request)

    requests = sync(arequests)

    async def arequest(self, request_id: int) -> RequestDetails:
        """Return a request with its recipients as they are now."""
        row = await (await self._store()).request(request_id)
        return self._request_state(self._owned(row, f"request {request_id}"))

    request = sync(arequest)

    @address_verb
    async def await_for_request(self, request_id: int, timeout: timedelta) -> RequestDetails:
        """Return the request as soon as it is not in progress any more, or as it is when the time is over."""
        await self.arequest(request_id)
        ended = await deliveries.wait_for_request(await self._store(), request_id, timeout=timeout)
        return self._request_state(ended)

    wait_for_request = sync(await_for_request)

    # What was given up, or is not wanted any more.

    async def arequeue(
        self, dead_letter_ids: Sequence[int], *, reason: str, even_if_sent: bool = False
    ) -> list[Reopened]:
        """Send dead letters again, all or none. What may have been sent already needs `even_if_sent`."""
        for each in dead_letter_ids:
            await self._open_dead_letter(each)
        return await dead_letters.requeue(
            await self._store(), dead_letter_ids, operator=self.operator, reason=reason, even_if_sent=even_if_sent
        )

    requeue = sync(arequeue)

    async def areplay(self, delivery_ids: Sequence[int], *, reason: str, even_if_sent: bool = False) -> list[Reopened]:
        """Send finished deliveries again, all or none. What was sent needs `even_if_sent`."""
        for each in delivery_ids:
            await self._owned_delivery(each)
        return await dead_letters.replay(
            await self._store(), delivery_ids, operator=self.operator, reason=reason, even_if_sent=even_if_sent
        )

    replay = sync(areplay)

    async def acorrect(
        self,
        delivery_id: int,
        *,
        to: str | TypedDestination | None = None,
        payload: object | None = None,
        mail: Mapping[str, str] | None = None,
        reason: str,
        even_if_sent: bool = False,
    ) -> Reopened:
        """Send what was given up to another destination, with other content, or both; all that was before is kept.

        `to` may be an Email with the whole content; `mail` changes only these parts of an e-mail: subject, text, html.
        What may have been sent already needs `even_if_sent`.
        """
        await self._owned_delivery(delivery_id)
        store = await self._store()
        if mail:
            if to is not None and not isinstance(to, str):
                raise BadEvent("give the parts of an e-mail that change, or an Email with the whole content; not both")
            to = await dead_letters.amended_mail(store, delivery_id, to, mail)
        return await dead_letters.correct(
            store, delivery_id, to=to, payload=payload, operator=self.operator, reason=reason, even_if_sent=even_if_sent
        )

    correct = sync(acorrect)

    async def adiscard(self, dead_letter_ids: Sequence[int], *, reason: str) -> Acted:
        """Close dead letters for good, all or none; the deliveries stay as they are."""
        for each in dead_letter_ids:
            await self._open_dead_letter(each)
        return await dead_letters.discard(await self._store(), dead_letter_ids, operator=self.operator, reason=reason)

    discard = sync(adiscard)

    async def aattest(
        self, dead_letter_ids: Sequence[int], *, reason: str, notification_id: str | None = None
    ) -> list[Attested]:
        """Complete dead letters that a person knows were delivered, all or none; nothing is sent."""
        for each in dead_letter_ids:
            await self._open_dead_letter(each)
        return await dead_letters.attest(
            await self._store(), dead_letter_ids, operator=self.operator, reason=reason, notification_id=notification_id
        )

    attest = sync(aattest)

    async def acancel(self, delivery_ids: Sequence[int], *, reason: str) -> list[Cancelled]:
        """Give up deliveries that are not being sent; an answer for each."""
        for each in delivery_ids:
            await self._owned_delivery(each)
        return await deliveries.cancel(await self._store(), delivery_ids, operator=self.operator, reason=reason)

    cancel = sync(acancel)

    # Subscriptions.

    async def asubscriptions(
        self, *, tenant: str | None = None, before: int | None = None, limit: int = 50
    ) -> Page[Subscription]:
        """List subscriptions, newest first. `before`: the last id of the page before."""
        found = await (await self._store()).subscriptions(self._tenant(tenant), before=before, limit=limit)
        return self._page(found, self._subscription)

    subscriptions = sync(asubscriptions)

    async def asubscription(self, subscription_id: int) -> Subscription:
        return self._subscription(await self._owned_subscription(subscription_id))

    subscription = sync(asubscription)

    async def aadd_subscription(
        self,
        *,
        types: Sequence[str],
        to: str,
        tenant: str | None = None,
        policy: Mapping[str, object] | None = None,
        rate: str | None = None,
        description: str | None = None,
        ask: str | None = None,
        is_signed: bool | None = None,
        secret: str | None = None,
        bearer: str | None = None,
        headers: Mapping[str, str] | None = None,
        certificate: str | None = None,
    ) -> AddedSubscription[Subscription]:
        """Add a subscription: every matching event recorded from now on is delivered to it.

        What goes to an HTTP address is signed, with a new secret or the one that is given, unless `is_signed` is False.
        `ask` is where its receiver can be asked about what may have been sent: a URL with {token} in it.
        """
        wanted = subscriptions.new_subscription(
            types=types,
            to=to,
            tenant=self._tenant(tenant) or "",
            policy=None if policy is None else json.dumps(dict(policy)),
            rate=rate,
            description=description,
            ask=ask,
        )
        given = subscriptions.new_secrets(
            wanted.destination,
            is_signed=is_signed,
            secret=secret,
            bearer=bearer,
            headers=headers or {},
            certificate=certificate,
        )
        row = await subscriptions.add(
            await self._store(), wanted, operator=self.operator, secrets=given.sealed(self.session.secret_box())
        )
        return AddedSubscription(self._subscription(row), given.signing)

    add_subscription = sync(aadd_subscription)

    async def apause_subscription(self, subscription_id: int, *, reason: str | None = None) -> Subscription:
        """Hold its deliveries back; what is recorded from now on waits too."""
        return await self._set_state(subscription_id, subscriptions.PAUSED, reason)

    pause_subscription = sync(apause_subscription)

    async def aresume_subscription(self, subscription_id: int, *, reason: str | None = None) -> Subscription:
        """Send what waited, and go on. Also for one that was disabled."""
        return await self._set_state(subscription_id, subscriptions.ACTIVE, reason)

    resume_subscription = sync(aresume_subscription)

    async def aremove_subscription(self, subscription_id: int, *, reason: str | None = None) -> Subscription:
        """End it for good; what still waits for it is given up."""
        return await self._set_state(subscription_id, subscriptions.REMOVED, reason)

    remove_subscription = sync(aremove_subscription)

    async def achange_subscription(
        self,
        subscription_id: int,
        *,
        types: Sequence[str] | None = None,
        policy: Mapping[str, object] | None = None,
        rate: str | None = None,
        ask: str | None = None,
        reason: str | None = None,
    ) -> Subscription:
        """Give it other event types, another policy, rate or address to ask at; what is left out stays.

        An empty policy stands for the channel's own, the rate "none" for no limit, and an `ask` of "none" for a
        receiver that cannot be asked.
        """
        changes = subscriptions.Changes.checked(types, policy, rate, ask)
        await self._owned_subscription(subscription_id)
        return self._subscription(
            await subscriptions.apply(
                await self._store(), subscription_id, changes, operator=self.operator, reason=reason
            )
        )

    change_subscription = sync(achange_subscription)

    async def atest_subscription(self, subscription_id: int) -> Delivery:
        """Record a test event for this subscription alone; return its delivery."""
        await self._owned_subscription(subscription_id)
        return self._delivery(
            await subscriptions.send_test(await self._store(), subscription_id, operator=self.operator)
        )

    test_subscription = sync(atest_subscription)

    async def arotate_secret(
        self,
        subscription_id: int,
        *,
        overlap: timedelta = OVERLAP,
        secret: str | None = None,
        reason: str | None = None,
    ) -> RotatedSecret[Subscription]:
        """Sign with a new secret too, and with it alone after `overlap`."""
        row = await self._owned_subscription(subscription_id)
        signing, is_replacement = await subscriptions.rotate(
            await self._store(),
            subscription_id,
            secret,
            overlap=overlap,
            sealer=self.session.secret_box(),
            operator=self.operator,
            reason=reason,
        )
        return RotatedSecret(self._subscription(row), signing, is_replacement)

    rotate_secret = sync(arotate_secret)

    # How the two differ.

    @abstractmethod
    def _tenant(self, wanted: str | None) -> str | None:
        """Return whose rows a list shows when the caller wants this tenant's; None: everybody's."""

    @abstractmethod
    def _owns(self, tenant: str) -> bool: ...

    @abstractmethod
    def _event(self, row: EventRow) -> Event: ...

    @abstractmethod
    def _delivery(self, row: DeliveryRow) -> Delivery: ...

    @abstractmethod
    def _attempt(self, row: AttemptRow) -> Attempt: ...

    @abstractmethod
    def _dead_letter(self, row: DeadLetterRow) -> DeadLetter: ...

    @abstractmethod
    def _group(self, row: DeadLetterGroup) -> Group: ...

    @abstractmethod
    def _subscription(self, row: SubscriptionRow) -> Subscription: ...

    @abstractmethod
    def _request(self, row: RequestRow) -> Request: ...

    @abstractmethod
    def _request_state(self, row: RequestState) -> RequestDetails: ...

    def _page(self, found: Page[Row], show: Callable[[Row], Shown]) -> Page[Shown]:
        return Page(tuple(show(each) for each in found), found.next_before, found.looked_back_to)

    def as_operator(self, operator: str) -> Self:
        """Return the same for another operator: the operations log names who acted."""
        return replace(self, operator=operator)

    # What they are made of.

    async def _store(self) -> Store:
        return await self.session.store()

    def _filter(self, wanted: Wanted) -> Filter:
        scoped: Wanted = {**wanted, "tenant": self._tenant(wanted.get("tenant"))}
        return Filter(**scoped)

    def _owned(self, row: Owned | None, named: str) -> Owned:
        if row is None or not self._owns(row.tenant):
            raise NotFound(f"there is no {named}")
        return row

    async def _owned_delivery(self, delivery_id: int) -> DeliveryRow:
        return self._owned(await (await self._store()).delivery(delivery_id), f"delivery {delivery_id}")

    async def _owned_dead_letter(self, dead_letter_id: int) -> DeadLetterRow:
        row = await (await self._store()).dead_letter(dead_letter_id)
        return self._owned(row, f"dead letter {dead_letter_id}")

    async def _open_dead_letter(self, dead_letter_id: int) -> DeadLetterRow:
        return await self._owned_dead_letter(dead_letter_id)

    async def _owned_subscription(self, subscription_id: int) -> SubscriptionRow:
        row = await (await self._store()).subscription(subscription_id)
        return self._owned(row, f"subscription {subscription_id}")

    async def _set_state(self, subscription_id: int, state: str, reason: str | None) -> Subscription:
        await self._owned_subscription(subscription_id)
        return self._subscription(
            await subscriptions.change(
                await self._store(), subscription_id, state, operator=self.operator, reason=reason
            )
        )
