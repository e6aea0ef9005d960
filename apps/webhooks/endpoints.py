"""Endpoints: where a tenant's events go. Each is a subscription of sendonce."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from apps.webhooks.calling import Calling
from apps.webhooks.models import (
    LARGEST_ID,
    Delivery,
    Endpoint,
    EndpointChange,
    EndpointWithSecret,
    NewEndpoint,
    Secret,
)
from sendonce import BadDestination, NotFound

router = APIRouter(prefix="/endpoints", tags=["endpoints"])
# An address to ask at that stands for none.
NOBODY = "none"
EndpointId = Annotated[int, Path(ge=1, le=LARGEST_ID)]


@router.post("", status_code=201)
async def add_endpoint(wanted: NewEndpoint, caller: Calling) -> EndpointWithSecret:
    """Enter an endpoint. What goes there is signed (Standard Webhooks) with the secret in the answer."""
    if not wanted.url.lower().startswith(("http://", "https://")):
        raise BadDestination("an endpoint is an address like https://hooks.example/orders")
    added = await caller.admin.aadd_subscription(
        types=wanted.event_types,
        to=wanted.url,
        policy=_policy(wanted.retry_limit),
        description=wanted.description,
        secret=wanted.secret,
        ask=wanted.ask,
    )
    return EndpointWithSecret.with_secret(added.subscription, added.secret or "")


@router.get("")
async def list_endpoints(
    caller: Calling,
    before: Annotated[int, Query(ge=1, le=LARGEST_ID)] = LARGEST_ID,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[Endpoint]:
    """The newest first; `before` is the last id of the page before it."""
    listed: list[Endpoint] = []
    while True:  # one look is at a bounded number of rows, of all tenants
        page = await caller.admin.asubscriptions(before=before, limit=limit - len(listed))
        listed += [Endpoint.of(row) for row in page]
        if page.next_before is None or len(listed) == limit:
            return listed
        before = page.next_before


@router.get("/{endpoint_id}")
async def get_endpoint(endpoint_id: EndpointId, caller: Calling) -> Endpoint:
    try:
        found = await caller.admin.asubscription(endpoint_id)
    except NotFound:
        raise NotFound(f"there is no endpoint {endpoint_id}") from None
    if found.state == "removed":
        raise NotFound(f"endpoint {endpoint_id} was removed")
    return Endpoint.of(found)


@router.patch("/{endpoint_id}")
async def change_endpoint(endpoint_id: EndpointId, wanted: EndpointChange, caller: Calling) -> Endpoint:
    """Other event types, another retry limit or address to ask at: for what waits already too."""
    await get_endpoint(endpoint_id, caller)
    policy = _policy(wanted.retry_limit) if "retry_limit" in wanted.model_fields_set else None
    ask = (wanted.ask or NOBODY) if "ask" in wanted.model_fields_set else None
    return Endpoint.of(
        await caller.admin.achange_subscription(endpoint_id, types=wanted.event_types, policy=policy, ask=ask)
    )


@router.delete("/{endpoint_id}", status_code=204)
async def remove_endpoint(endpoint_id: EndpointId, caller: Calling) -> Response:
    """End it for good; what still waits for it is given up."""
    await get_endpoint(endpoint_id, caller)
    await caller.admin.aremove_subscription(endpoint_id)
    return Response(status_code=204)


@router.post("/{endpoint_id}/pause")
async def pause_endpoint(endpoint_id: EndpointId, caller: Calling) -> Endpoint:
    """Hold its deliveries back; what is published from now on waits too."""
    await get_endpoint(endpoint_id, caller)
    return Endpoint.of(await caller.admin.apause_subscription(endpoint_id))


@router.post("/{endpoint_id}/resume")
async def resume_endpoint(endpoint_id: EndpointId, caller: Calling) -> Endpoint:
    """Send what waited, and go on. Also for one that was disabled because it answered 410."""
    await get_endpoint(endpoint_id, caller)
    return Endpoint.of(await caller.admin.aresume_subscription(endpoint_id))


@router.post("/{endpoint_id}/rotate-secret")
async def rotate_secret(endpoint_id: EndpointId, caller: Calling) -> Secret:
    """Sign with a new secret; with the old one too, for a day, so that the receiver can change over."""
    await get_endpoint(endpoint_id, caller)
    return Secret(secret=(await caller.admin.arotate_secret(endpoint_id)).secret)


@router.post("/{endpoint_id}/test", status_code=202)
async def test_endpoint(endpoint_id: EndpointId, caller: Calling) -> Delivery:
    """Send an event of the type sendonce.test to this endpoint, and to no other."""
    await get_endpoint(endpoint_id, caller)
    return Delivery.of(await caller.admin.atest_subscription(endpoint_id))


def _policy(retry_limit: int | None) -> dict[str, object]:
    """Without a limit of its own an endpoint goes by the default of the settings."""
    return {} if retry_limit is None else {"max_attempts": retry_limit}
