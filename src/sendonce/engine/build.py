"""How an engine is put together: one way for the daemon, a program's own worker, tests and the simulation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sendonce.channels.registry import Channels
from sendonce.domain.attempts import Claim, Result
from sendonce.engine.config import WorkerConfig
from sendonce.engine.health import Health
from sendonce.engine.lease_keeper import HeldLeases, LeaseKeeper
from sendonce.engine.memory import Memory
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.engine.subscriptions import CredentialsCache, DisableGoneSubscriptions
from sendonce.engine.worker import Worker
from sendonce.observability.facts import Emit
from sendonce.sealing import SecretBox
from sendonce.store.ports import LeaseStore, Notifier, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A worker, and what works beside it. `keeper_on` makes its lease keeper, on a connection of the keeper's own."""

    worker: Worker
    keeper_on: Callable[[LeaseStore], LeaseKeeper]
    gone: DisableGoneSubscriptions
    held_leases: HeldLeases


def build_engine(
    store: Store,
    channels: Channels,
    policies: Policies,
    config: WorkerConfig,
    *,
    worker_id: int,
    namespace: str,
    emit: Emit,
    secret_box: SecretBox | None = None,
    memory: Memory | None = None,
    name: str = "",
    notifier: Notifier | None = None,
    health: Health | None = None,
    is_counted: bool = False,
    on_settled: Sequence[Callable[[Sequence[Result]], None]] = (),
    on_expired: Callable[[Sequence[Result]], None] | None = None,
    on_raise: Callable[[Claim, BaseException], None] | None = None,
) -> Engine:
    """A worker on this store, registered as `worker_id`."""
    orchestrator, held_leases = Orchestrator(store, policies, channels), HeldLeases()
    gone = DisableGoneSubscriptions(store, emit)
    memory, health = memory or Memory(instance=config.instance), health or Health()
    worker = Worker(
        orchestrator, store, channels, policies, held_leases, config,
        worker_id=worker_id, namespace=namespace, emit=emit, notifier=notifier, rooms=store,
        credentials=CredentialsCache(store, secret_box or SecretBox()), on_settled=(gone.note, *on_settled),
        on_raise=on_raise, health=health, is_counted=is_counted, memory=memory, name=name,
    )  # fmt: skip
    keeper_on = partial(
        LeaseKeeper, held_leases=held_leases, decide=orchestrator.decide, worker_id=worker_id, hold=config.lease,
        emit=emit, health=health, on_expired=on_expired, memory=memory,
    )  # fmt: skip
    return Engine(worker=worker, keeper_on=keeper_on, gone=gone, held_leases=held_leases)
