"""What callers send and what they are answered."""

import json
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from sendonce import TenantDeadLetter, TenantDelivery, TenantSubscription
from sendonce.contrib.fastapi import Line

LARGEST_ID = 2**63 - 1

Id = Annotated[int, Field(ge=1, le=LARGEST_ID)]
RetryLimit = Annotated[int, Field(ge=1, le=1000, description="how many attempts before it is given up")]
EventType = Annotated[str, Field(min_length=1, max_length=130, examples=["order.paid"])]
EventTypes = Annotated[list[EventType], Field(min_length=1, max_length=100, examples=[["order.*"]])]


Ask = Annotated[
    str, Field(min_length=1, max_length=2000, examples=["https://hooks.example/receipts/{token}"],
               description="where the receiver can be asked whether it has a message")
]  # fmt: skip


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewEndpoint(Model):
    """Events of these types (exact, `order.*` or `*`) go to this URL from now on."""

    url: Annotated[str, Field(min_length=1, max_length=2000, examples=["https://hooks.example/orders"])]
    event_types: EventTypes
    retry_limit: RetryLimit | None = None
    description: Annotated[Line, Field(max_length=500)] | None = None
    secret: Annotated[str, Field(max_length=200, description="your own: whsec_ and base64")] | None = None
    ask: Ask | None = None


class EndpointChange(Model):
    """What is left out stays as it is; a retry limit of null goes back to the default, and nobody is asked at null."""

    event_types: EventTypes | None = None
    retry_limit: RetryLimit | None = None
    ask: Ask | None = None


class Endpoint(Model):
    id: int
    url: str
    event_types: list[str]
    state: str
    state_reason: str | None
    retry_limit: int | None
    ask: str | None
    description: str | None
    created_at: datetime

    @classmethod
    def of(cls, row: TenantSubscription) -> Self:
        return cls(**_endpoint(row))


class EndpointWithSecret(Endpoint):
    """The secret that signs what goes there: shown this once."""

    secret: str

    @classmethod
    def with_secret(cls, row: TenantSubscription, secret: str) -> Self:
        return cls(**_endpoint(row), secret=secret)


class Secret(Model):
    """The new secret, shown this once. The one before it signs too, for a day."""

    secret: str


class NewEvent(Model):
    """The same key again records nothing, and answers with the event that is there."""

    type: Annotated[str, Field(min_length=1, max_length=128, examples=["order.paid"])]
    payload: Any
    key: Annotated[str, Field(min_length=1, max_length=500, examples=["order-17-paid"])]


class Delivery(Model):
    """One event on its way to one endpoint. `last_error` is kept when a later attempt succeeds.

    `endpoint_id` is null for what the service itself has sent to an address.
    """

    id: int
    event_id: int
    endpoint_id: int | None
    type: str
    status: str
    attempt_count: int
    next_attempt_at: datetime | None
    last_error: str | None
    generation: int
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: TenantDelivery) -> Self:
        return cls(**_delivery(row))


class Deliveries(Model):
    """A page; `next` is what to ask for the one after it with, and null on the last."""

    deliveries: list[Delivery]
    next: int | None


class Event(Model):
    id: int
    type: str
    key: str
    created_at: datetime


class Recorded(Model):
    """`duplicate`: the key was there before, and this call has made no delivery."""

    id: int
    duplicate: bool
    deliveries: int


class EventWithDeliveries(Event, Deliveries):
    """An event and a page of its deliveries, every generation, oldest first."""


class Attempt(Model):
    attempt: int
    status: str
    outcome: str | None
    error_code: str | None
    error_message: str | None
    created_at: datetime
    finished_at: datetime | None


class DeliveryStory(Delivery):
    """Every attempt, and in sentences why the delivery is where it is and what happens next."""

    attempts: list[Attempt]
    explanation: list[str]

    @classmethod
    def told(cls, row: TenantDelivery, attempts: list[Attempt], explanation: list[str]) -> Self:
        return cls(**_delivery(row), attempts=attempts, explanation=explanation)


class DeadLetter(Model):
    """A delivery given up. `may_have_been_sent`: nobody knows whether it arrived."""

    id: int
    delivery_id: int
    event_id: int
    type: str
    reason: str
    error_code: str | None
    may_have_been_sent: bool
    created_at: datetime

    @classmethod
    def of(cls, row: TenantDeadLetter) -> Self:
        return cls(
            id=row.id,
            delivery_id=row.delivery_id,
            event_id=row.event_id,
            type=row.type,
            reason=row.reason,
            error_code=row.error_code,
            may_have_been_sent=row.in_doubt,
            created_at=row.created_at,
        )


class Requeue(Model):
    """All of these dead letters, or none. What may have been sent already goes only with `even_if_sent`."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=100)]
    reason: Annotated[Line, Field(max_length=500)]
    even_if_sent: bool = False


class Requeued(Model):
    delivery_ids: list[int]


def _endpoint(row: TenantSubscription) -> dict[str, Any]:
    return {
        "id": row.id,
        "url": row.destination,
        "event_types": list(row.types),
        "state": row.state,
        "state_reason": row.state_reason,
        "retry_limit": json.loads(row.policy or "{}").get("max_attempts"),
        "ask": row.ask,
        "description": row.description,
        "created_at": row.created_at,
    }


def _delivery(row: TenantDelivery) -> dict[str, Any]:
    return {
        "id": row.id,
        "event_id": row.event_id,
        "endpoint_id": row.subscription_id,
        "type": row.type,
        "status": row.status,
        "attempt_count": row.attempt_count,
        "next_attempt_at": row.next_attempt_at,
        "last_error": row.final_error_code,
        "generation": row.generation,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }
