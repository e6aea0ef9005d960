"""What tests of reconciliation need: deliveries in doubt, completed ones, and a reconciler."""

from datetime import timedelta

from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import (
    Delivered,
    Unknown,
)
from sendonce.domain.policies import Policy
from sendonce.engine.attempt import CredentialStore
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.engine.reconciler import Asked, Reconciled, Reconciler
from sendonce.store.ports import Store
from sendonce.store.records import DeliveryRow
from tests.given import given_due_deliveries, given_due_delivery, given_lease, settle_with
from tests.store.databases import Database

LATER = Policy(max_attempts=5, jitter=0, doubt_wait=timedelta(hours=1), timeout=timedelta(seconds=20))
AT_ONCE = Policy(max_attempts=5, jitter=0, doubt_wait=timedelta(0), timeout=timedelta(seconds=20))
HOUR = timedelta(hours=1)
NO_ANSWER = Unknown("timeout")
NO_TRIGGERS = "alter table sendonce_deliveries disable trigger user"


async def given_in_doubt(
    database: Database, store: Store, amount: int = 1, *, to: str = "test:a", outcome: Unknown = NO_ANSWER,
    policy: Policy | None = None,
) -> list[int]:  # fmt: skip
    """Deliveries of which nobody knows whether they were sent. Asked about at once, unless `policy` waits."""
    ids = given_due_deliveries(database, amount, to=to)
    lease = await given_lease(store, limit=amount + 1)
    await settle_with(store, lease, outcome, policy or AT_ONCE, can_look_up=True)
    await store.release([lease.id])
    return ids


async def given_completed(
    database: Database, store: Store, notification_id: str | None = "n-1", *, to: str = "test:a"
) -> int:
    delivery_id = given_due_delivery(database, to=to)
    lease = await given_lease(store)
    await settle_with(store, lease, Delivered(notification_id))
    await store.release([lease.id])
    return delivery_id


def reconciler(
    store: Store,
    channels: Channels,
    policy: Policy = AT_ONCE,
    *,
    concurrency: int = 50,
    credentials: CredentialStore | None = None,
) -> Reconciler:
    policies = Policies(policy, channels.settings())
    return Reconciler(
        Orchestrator(store, policies, channels), store, channels, policies,
        namespace="here", worker_id=1, concurrency=concurrency, credentials=credentials,
    )  # fmt: skip


async def reconcile(
    store: Store, channels: Channels, policy: Policy = AT_ONCE, *, concurrency: int = 50
) -> tuple[Reconciled, list[Asked]]:
    asked: list[Asked] = []
    return await reconciler(store, channels, policy, concurrency=concurrency).run(asked.append), asked


async def row_of(store: Store, delivery_id: int) -> DeliveryRow:
    row = await store.delivery(delivery_id)
    assert row is not None
    return row
