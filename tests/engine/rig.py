"""Channels that do as they are told, and a worker in this process with its lease keeper beside it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

from sendonce.channels.protocol import Message
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import LookUp, Outcome
from sendonce.domain.policies import Policy
from sendonce.engine.build import build_engine
from sendonce.engine.config import WorkerConfig
from sendonce.engine.lease_keeper import HeldLeases
from sendonce.engine.memory import Memory
from sendonce.engine.orchestrator import Policies
from sendonce.engine.worker import Worker
from sendonce.observability.facts import Fact, Stopped
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import Notifier, Store
from tests.store.databases import Database

Step: TypeAlias = object
FactType = TypeVar("FactType")

# Quick where that decides how long a test takes. What would cut off a send, or take it away from its worker, is far
# longer than a busy machine stands still: who tests that says how long.
QUICK = Policy(
    max_attempts=5,
    first_delay=timedelta(milliseconds=10),
    longest_delay=timedelta(milliseconds=50),
    jitter=0,
    timeout=timedelta(seconds=30),
    doubt_wait=timedelta(milliseconds=10),
)
QUICK_CONFIG = WorkerConfig(
    concurrency=10, lease=timedelta(minutes=1), poll=timedelta(milliseconds=50), grace=timedelta(seconds=30)
)


class Told:
    """A channel that plays a script, its last step again and again: outcomes, errors to raise, functions to await."""

    def __init__(self, *script: Step) -> None:
        self.script = list(script)
        self.sent: list[Message] = []
        self.timeouts: list[float] = []
        self.sending = 0
        self.most = 0

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        self.sent.append(message)
        self.timeouts.append(timeout)
        self.sending += 1
        self.most = max(self.most, self.sending)
        try:
            outcome: Outcome = await played(self.script)
            return outcome
        finally:
            self.sending -= 1


class Asked(Told):
    """One whose other side can be asked; `answers` is the script of the look-ups."""

    def __init__(self, *script: Step, answers: list[Step]) -> None:
        super().__init__(*script)
        self.answers = answers
        self.asked: list[Message] = []

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        self.asked.append(message)
        answer: LookUp = await played(self.answers)
        return answer


async def played(script: list[Step]) -> Any:
    step = script.pop(0) if len(script) > 1 else script[0]
    if isinstance(step, BaseException):
        raise step
    return await step() if callable(step) else step


async def never() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


def after(seconds: float, outcome: Outcome) -> Callable[[], Awaitable[Outcome]]:
    """One that takes a moment, where it does not matter how long that is."""

    async def wait() -> Outcome:
        await asyncio.sleep(seconds)
        return outcome

    return wait


def once(gate: asyncio.Event, outcome: Outcome) -> Callable[[], Awaitable[Outcome]]:
    """One that takes until the gate is open."""

    async def wait() -> Outcome:
        await gate.wait()
        return outcome

    return wait


class Silent:
    """A notifier that nobody rings: who waits for it rests until told to stop."""

    def __init__(self) -> None:
        self.is_waited_for = False

    async def wait(self, timeout: timedelta) -> None:
        self.is_waited_for = True
        await never()

    async def close(self) -> None:
        return


def given_many(database: Database, amount: int, *, to: str = "test:a") -> None:
    """Record many events with one delivery each, in one transaction."""
    with database.connection() as connection:
        drafts = [Draft("memo.created", {"memo": number}, key=f"memo-{number}", to=to) for number in range(amount)]
        Outbox().publish_many(connection, drafts)


def serving(channel: Told, *schemes: str, **policy: object) -> Channels:
    """A registry with this channel alone."""
    channels = Channels()
    channels.add(channel, *(schemes or ("test",)), **policy)
    return channels


@dataclass
class Working:
    """A worker that runs in this loop."""

    worker: Worker
    running: asyncio.Task[Stopped]
    held_leases: HeldLeases
    facts: list[Fact] = field(default_factory=list)

    async def stopped(self) -> Stopped:
        """Tell it to stop; how it ended."""
        self.worker.stop()
        return await self.ended()

    async def ended(self) -> Stopped:
        async with asyncio.timeout(50):
            return await self.running

    def said(self, kind: type[FactType]) -> list[FactType]:
        """The facts of this kind so far."""
        return [fact for fact in self.facts if isinstance(fact, kind)]


@asynccontextmanager
async def working(
    store: Store, channels: Channels, *, policy: Policy = QUICK, notifier: Notifier | None = None,
    memory: Memory | None = None, **config: Any,
) -> AsyncIterator[Working]:  # fmt: skip
    """A worker with its keeper on this store, told to stop at the end."""
    settings = replace(QUICK_CONFIG, **config)
    policies = Policies(policy, channels.settings())
    facts: list[Fact] = []
    worker_id = await store.register("here", "1", settings.concurrency, serves=channels.names)
    engine = build_engine(
        store, channels, policies, settings,
        worker_id=worker_id, namespace=await store.namespace(), emit=facts.append, notifier=notifier, memory=memory,
        name="here",
    )  # fmt: skip
    worker, keeper = engine.worker, engine.keeper_on(store)
    over = asyncio.Event()
    keeping = asyncio.create_task(keeper.run(over))
    running = asyncio.create_task(worker.run())
    try:
        yield Working(worker, running, engine.held_leases, facts)
    finally:
        worker.stop()
        await asyncio.wait([running], timeout=50)
        over.set()
        await asyncio.wait_for(keeping, 50)
