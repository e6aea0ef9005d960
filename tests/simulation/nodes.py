"""A worker process: the real worker, sender, orchestrator and lease keeper, put together as the daemon does it."""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from sendonce.domain.policies import Policy
from sendonce.engine.background import background
from sendonce.engine.build import build_engine
from sendonce.engine.config import WorkerConfig
from sendonce.engine.memory import Memory
from sendonce.engine.orchestrator import Orchestrator, Policies
from sendonce.engine.reconciler import Reconciler
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.engine.worker import Worker
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Fact
from sendonce.sealing import SecretBox
from sendonce.store.ports import Store
from tests.simulation.loop import Process, Strand

if TYPE_CHECKING:
    from tests.simulation.scene import Scene

S = timedelta(seconds=1)
POLICY = Policy(
    max_attempts=5, first_delay=0.1 * S, longest_delay=1 * S, jitter=0.1, timeout=0.6 * S, doubt_wait=0.4 * S,
    retry_after_cap=2 * S,
)  # fmt: skip


def config_of(lease: float) -> WorkerConfig:
    return WorkerConfig(
        concurrency=4, lease=lease * S, poll=0.5 * S, grace=1 * S,
        breaker_after=4, breaker_pause=0.3 * S, breaker_longest=2 * S,
    )  # fmt: skip


class Node:
    """Two strands, as the daemon has two threads with an event loop each."""

    def __init__(self, scene: "Scene", number: int, lacking: Collection[str] = ()) -> None:
        self._scene = scene
        self.lacking = lacking
        self.process = Process(f"worker-{number}")
        self._own = Strand(self.process)
        self._keeping = Strand(self.process)
        self.worker: Worker | None = None
        self.has_ended = False

    def start(self) -> None:
        self._scene.loop.spawn(self._own, self._run())

    @property
    def is_over(self) -> bool:
        return self.has_ended or self.process.is_dead

    async def _run(self) -> None:
        try:
            await self._work()
        except StoreBusy:
            self._scene.note(self.process, "ends: the database was away when it began")
        except Exception as error:
            self._scene.broken.append(f"{self.process.name} ended with {type(error).__name__}: {error}")
        self.has_ended = True

    async def _work(self) -> None:
        scene = self._scene
        store = cast(Store, scene.door(self.process))
        channels = scene.world.channels(self.process, self.lacking)
        policies = Policies(POLICY, channels.settings())
        worker_id = await store.register(self.process.name, "1", 4, serves=channels.names)
        engine = build_engine(
            store, channels, policies, scene.config,
            worker_id=worker_id, namespace=await store.namespace(), emit=self._emit, memory=Memory(),
        )  # fmt: skip
        worker = self.worker = engine.worker
        keeper = engine.keeper_on(cast(Store, scene.door(self.process)))
        over = asyncio.Event()
        keeping = scene.loop.spawn(self._keeping, keeper.run(over))
        keeping.add_done_callback(lambda _: worker.stop())
        async with background(engine.gone.run()):
            await worker.run()
        await engine.gone.apply()
        over.set()
        await keeping

    def _emit(self, fact: Fact) -> None:
        """Nobody listens."""


class Reconciling:
    """`sendonce reconcile`, once, in a process of its own."""

    def __init__(self, scene: "Scene", number: int) -> None:
        self._scene = scene
        self.process = Process(f"reconcile-{number}")
        scene.loop.spawn(Strand(self.process), self._run())

    async def _run(self) -> None:
        scene = self._scene
        store: Any = scene.door(self.process)
        channels = scene.world.channels(self.process)
        policies = Policies(POLICY, channels.settings())
        try:
            reconciler = Reconciler(
                Orchestrator(store, policies, channels), store, channels, policies,
                namespace=await store.namespace(), worker_id=await store.register(self.process.name, "1", 4),
                credentials=CredentialsCache(store, SecretBox()),
            )  # fmt: skip
            await reconciler.run(lambda asked: None)
        except StoreBusy:
            scene.note(self.process, "ends: the database was away")
        except Exception as error:
            scene.broken.append(f"{self.process.name} ended with {type(error).__name__}: {error}")
