"""The outbox: record an intent in the caller's transaction. Nothing is sent or committed here."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

from sendonce.domain.destinations import scheme_of
from sendonce.domain.events import LARGEST_PAYLOAD, MOST_DESTINATIONS, Key, NewEvent, To
from sendonce.domain.policies import IfUnsure
from sendonce.domain.requests import RequestState
from sendonce.errors import BadDestination, BadEvent, ConfigError
from sendonce.outbox.entries import Draft, Order, Recorded, distinct, render
from sendonce.outbox.requests import RECORD, RequestDraft, Requested, RequestOrder, checked, read_state
from sendonce.sql.drivers import AsyncConnection, SchemaExpected, SyncConnection, async_driver, sync_driver
from sendonce.sql.queries import Database, Statements

IfDifferent: TypeAlias = Literal["raise", "keep_first"]


class Published(NamedTuple):
    """The event's id, whether its key was there before, and how many deliveries this call has made."""

    event_id: int
    duplicate: bool
    deliveries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """Records events in transactions that belong to the caller.

    `schemes`: the only ones that may be named, such as `("https", "mailto", "sms")`. Left out, any scheme is taken, for
    the channel may be a worker's that this program knows nothing of; what no worker serves waits, and is told.
    `most_destinations` one event may name; how many subscriptions match it is not limited, for the caller cannot know.
    `notify`: on PostgreSQL also wake the workers when the transaction commits.
    """

    largest_payload: int = LARGEST_PAYLOAD
    most_destinations: int = MOST_DESTINATIONS
    notify: bool = False
    schemes: Collection[str] | None = None

    def __post_init__(self) -> None:
        if type(self.largest_payload) is not int or not 1 <= self.largest_payload <= 100_000_000:
            raise ConfigError(f"largest_payload must be from 1 to 100000000 bytes, not {self.largest_payload!r}")
        if type(self.most_destinations) is not int or not 1 <= self.most_destinations <= 1_000_000:
            raise ConfigError(f"most_destinations must be from 1 to 1000000, not {self.most_destinations!r}")
        if type(self.notify) is not bool:
            raise ConfigError(f"notify must be True or False, not {self.notify!r}")
        if self.schemes is not None and (isinstance(self.schemes, str) or not self.schemes):
            raise ConfigError(f'schemes must be several names, such as ("https", "sms"), not {self.schemes!r}')

    def publish(
        self,
        connection: SyncConnection,
        type: str,
        payload: object,
        *,
        key: Key,
        to: To | None,
        tenant: str = "",
        subject: str | None = None,
        version: int | None = None,
        headers: Mapping[str, str] | None = None,
        deliver_at: datetime | None = None,
        expires_at: datetime | None = None,
        if_unsure: IfUnsure | str | None = None,
        if_different: IfDifferent = "raise",
    ) -> Published:
        """Record one event, with a delivery for each destination and each matching subscription.

        `to=None` goes to subscriptions only, and none matching is fine; `to=[]` is refused, for it says nothing.
        It is there when the caller's transaction commits, and gone when that rolls back. The same key again
        gives the event that is there; KeyReused when the content or the destinations differ. A key is known until
        retention removes it ([retention] keys, 90 days after the end). On any error nothing of it was written.
        """
        draft = Draft(
            type,
            payload,
            key=key,
            to=to,
            tenant=tenant,
            subject=subject,
            version=version,
            headers=headers,
            deliver_at=deliver_at,
            expires_at=expires_at,
            if_unsure=if_unsure,
        )
        return self.publish_many(connection, [draft], if_different=if_different)[0]

    async def apublish(
        self,
        connection: AsyncConnection,
        type: str,
        payload: object,
        *,
        key: Key,
        to: To | None,
        tenant: str = "",
        subject: str | None = None,
        version: int | None = None,
        headers: Mapping[str, str] | None = None,
        deliver_at: datetime | None = None,
        expires_at: datetime | None = None,
        if_unsure: IfUnsure | str | None = None,
        if_different: IfDifferent = "raise",
    ) -> Published:
        """`publish` on an async connection or session."""
        draft = Draft(
            type,
            payload,
            key=key,
            to=to,
            tenant=tenant,
            subject=subject,
            version=version,
            headers=headers,
            deliver_at=deliver_at,
            expires_at=expires_at,
            if_unsure=if_unsure,
        )
        return (await self.apublish_many(connection, [draft], if_different=if_different))[0]

    def publish_many(
        self, connection: SyncConnection, events: Iterable[Draft], *, if_different: IfDifferent = "raise"
    ) -> list[Published]:
        """Record many events, all or none of them; what became of each, in order."""
        run = sync_driver(connection)
        batch = self._prepare(events, if_different)
        if not batch.places:
            return []
        with SchemaExpected():
            return batch.published(run(connection, batch.steps))

    async def apublish_many(
        self, connection: AsyncConnection, events: Iterable[Draft], *, if_different: IfDifferent = "raise"
    ) -> list[Published]:
        """`publish_many` on an async connection or session."""
        run = async_driver(connection)
        batch = self._prepare(events, if_different)
        if not batch.places:
            return []
        with SchemaExpected():
            return batch.published(await run(connection, batch.steps))

    def request(
        self,
        connection: SyncConnection,
        type: str,
        payload: object,
        *,
        key: Key,
        subject: str,
        version: int,
        required: To,
        optional: To = (),
        rerun: bool = False,
        tenant: str = "",
        headers: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
        if_unsure: IfUnsure | str | None = None,
        if_different: IfDifferent = "raise",
    ) -> Requested:
        """Ask for one version of a subject to reach its recipients: one event, with a delivery for each of them.

        The same key again, or the same version with another key, gives the request that is there and sends
        nothing; KeyReused when it is a different one. A higher version needs `rerun=True`; RerunRefused when
        that was not said, or when the version is lower. Keys and versions are known until retention removes them
        ([retention] keys, 90 days after the end). On any error nothing of it was written.
        """
        asked = RequestDraft(
            type, payload, key, subject, version, required, optional, rerun, tenant, headers, expires_at, if_unsure
        )
        run = sync_driver(connection)
        order = self._order(asked, if_different)
        with SchemaExpected():
            return run(connection, order.steps)

    async def arequest(
        self,
        connection: AsyncConnection,
        type: str,
        payload: object,
        *,
        key: Key,
        subject: str,
        version: int,
        required: To,
        optional: To = (),
        rerun: bool = False,
        tenant: str = "",
        headers: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
        if_unsure: IfUnsure | str | None = None,
        if_different: IfDifferent = "raise",
    ) -> Requested:
        """`request` on an async connection or session."""
        asked = RequestDraft(
            type, payload, key, subject, version, required, optional, rerun, tenant, headers, expires_at, if_unsure
        )
        run = async_driver(connection)
        order = self._order(asked, if_different)
        with SchemaExpected():
            return await run(connection, order.steps)

    def request_state(self, connection: SyncConnection, request_id: int) -> RequestState | None:
        """A request as it is now, with its recipients; None when there is none. Reads only."""
        run = sync_driver(connection)
        with SchemaExpected():
            return run(connection, partial(read_state, request_id), reads=True)

    async def arequest_state(self, connection: AsyncConnection, request_id: int) -> RequestState | None:
        """`request_state` on an async connection or session."""
        run = async_driver(connection)
        with SchemaExpected():
            return await run(connection, partial(read_state, request_id), reads=True)

    def _prepare(self, drafts: Iterable[Draft], if_different: IfDifferent) -> "_Batch":
        keep_first = _keeps_first(if_different)
        rendered = [render(_draft(each), self.largest_payload, self.most_destinations) for each in drafts]
        if self.schemes is not None:
            _check_schemes(rendered, self.schemes)
        entries, places = distinct(rendered, keep_first=keep_first)
        return _Batch(Order(entries, keep_first, self.notify), places)

    def _order(self, asked: RequestDraft, if_different: IfDifferent) -> RequestOrder:
        wanted = checked(asked, self.largest_payload, self.most_destinations)
        if self.schemes is not None:
            _check_schemes([wanted.event], self.schemes)
        return RequestOrder(wanted, _keeps_first(if_different), self.notify)


class _Batch(NamedTuple):
    """All that is to be recorded by one call, and which entry stands for each event given."""

    order: Order
    places: list[int]

    def steps(self, database: Database) -> Statements[list[Recorded]]:
        return RECORD[database](self.order)

    def published(self, recorded: list[Recorded]) -> list[Published]:
        seen: set[int] = set()
        results = []
        for place in self.places:
            event_id, is_new, deliveries = recorded[place]
            is_first = is_new and place not in seen
            seen.add(place)
            results.append(Published(event_id, not is_first, deliveries if is_first else 0))
        return results


def _draft(each: object) -> Draft:
    if not isinstance(each, Draft):
        raise BadEvent(f"publish_many takes Draft(type, payload, key=…), not {type(each).__name__}")
    return each


def _check_schemes(events: Iterable[NewEvent], schemes: Collection[str]) -> None:
    for event in events:
        for destination in event.destinations:
            if (scheme := scheme_of(destination.uri)) not in schemes:
                raise BadDestination(f"this outbox names no {scheme}: destinations, only: {', '.join(sorted(schemes))}")


def _keeps_first(if_different: IfDifferent) -> bool:
    if if_different not in ("raise", "keep_first"):
        raise BadEvent(f'if_different must be "raise" or "keep_first", not {if_different!r}')
    return if_different == "keep_first"
