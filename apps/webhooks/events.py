"""Events and what became of them: every endpoint's delivery, what has not arrived, what was given up."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from apps.webhooks.calling import Calling
from apps.webhooks.models import (
    LARGEST_ID,
    Attempt,
    DeadLetter,
    Deliveries,
    Delivery,
    DeliveryStory,
    EventWithDeliveries,
    NewEvent,
    Recorded,
    Requeue,
    Requeued,
)
from sendonce import NotAllowed, Outbox, Published
from sendonce.contrib.sqlalchemy import ain_transaction

router = APIRouter()
outbox = Outbox()

RowId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Before = Annotated[int, Query(ge=1, le=LARGEST_ID)]


@router.post("/events", status_code=201, responses={200: {"model": Recorded}}, tags=["events"])
async def publish_event(event: NewEvent, caller: Calling, response: Response) -> Recorded:
    """Record an event for every endpoint of yours that listens to its type; 200 when its key was there before.

    A service with tables of its own writes them in the same transaction: both are there, or neither is.
    """

    async def work(connection: AsyncConnection) -> Published:
        return await outbox.apublish(
            connection, event.type, event.payload, key=event.key, to=None, tenant=caller.tenant
        )

    published = await ain_transaction(caller.engine, work)
    if published.duplicate:
        response.status_code = 200
    return Recorded(id=published.event_id, duplicate=published.duplicate, deliveries=published.deliveries)


@router.get("/events/{event_id}", tags=["events"])
async def get_event(
    event_id: RowId, caller: Calling, before: Before = LARGEST_ID, limit: Limit = 100
) -> EventWithDeliveries:
    """An event and the newest of its deliveries; `before` is the `next` of the page before."""
    event = await caller.admin.aevent(event_id)
    rows = await caller.admin.adeliveries_of(event_id, before=before, limit=limit)
    return EventWithDeliveries(
        id=event.id,
        type=event.type,
        key=event.key,
        created_at=event.created_at,
        deliveries=[Delivery.of(row) for row in rows],
        next=rows.next_before,
    )


@router.get("/deliveries/{delivery_id}", tags=["events"])
async def get_delivery(delivery_id: RowId, caller: Calling) -> DeliveryStory:
    """A delivery, every attempt, and why it is where it is."""
    row = await caller.admin.adelivery(delivery_id)
    attempts = [
        Attempt(
            attempt=each.attempt,
            status=each.status,
            outcome=each.outcome,
            error_code=each.error_code,
            error_message=each.error_message,
            created_at=each.created_at,
            finished_at=each.finished_at,
        )
        for each in await caller.admin.aattempts_of(delivery_id)
    ]
    return DeliveryStory.told(row, attempts, list((await caller.admin.aexplain(delivery_id)).sentences))


@router.get("/undelivered", tags=["events"])
async def list_undelivered(caller: Calling, before: Before = LARGEST_ID, limit: Limit = 100) -> Deliveries:
    """Pairs of event and endpoint that have not come together, newest first: waiting, being sent, or given up."""
    rows = await caller.admin.aundelivered(before=before, limit=limit)
    return Deliveries(deliveries=[Delivery.of(row) for row in rows], next=rows.next_before)


@router.get("/dead-letters", tags=["dead letters"])
async def list_dead_letters(caller: Calling, limit: Limit = 100) -> list[DeadLetter]:
    """What was given up and waits for somebody to decide, newest first."""
    return [DeadLetter.of(row) for row in await caller.admin.adead_letters(limit=limit)]


@router.post("/dead-letters/requeue", tags=["dead letters"])
async def requeue_dead_letters(wanted: Requeue, caller: Calling) -> Requeued:
    """Send dead letters again, each as a new delivery; the old ones stay as they are."""
    for each in wanted.ids:
        letter = await caller.admin.adead_letter(each)
        if letter.closed_at is not None:
            raise NotAllowed(f"dead letter {each} was {letter.closed_as} already")
        if letter.in_doubt and not wanted.even_if_sent:
            raise NotAllowed(
                f"dead letter {each} may have arrived already: see delivery {letter.delivery_id},"
                " and give even_if_sent as true to send it all the same"
            )
    reopened = await caller.admin.arequeue(wanted.ids, reason=wanted.reason, even_if_sent=wanted.even_if_sent)
    return Requeued(delivery_ids=[each.delivery_id for each in reopened])
