"""The audit that comes by itself: now and then one of the workers checks what is marked sent, and findings alert."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from sendonce.engine.background import Troubles
from sendonce.engine.orchestrator import Policies
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.errors import ConfigError
from sendonce.observability.facts import Audited, AuditFailed, Emit
from sendonce.store.ports import Store
from sendonce.store.upkeep import AuditStore, Turn

# A worker that has just begun has better things to do.
FIRST_LOOK = timedelta(seconds=30)
LOOK_EVERY = timedelta(minutes=5)
# Longer than a step takes whose look-ups all run into their time.
HOLD = timedelta(minutes=15)
SHORTEST = timedelta(minutes=1)


class Looked(Protocol):
    """How far an audit has come."""

    looked_at: int

    @property
    def findings(self) -> int: ...

    @property
    def unanswered(self) -> int: ...


# Walks what was sent since then, in whole steps.
Walk: TypeAlias = Callable[[datetime], AsyncIterator[Looked]]
# What makes such a walk of what a worker has: its store, its policies, the database's namespace, and its secrets.
Walking: TypeAlias = Callable[[Store, Policies, str, CredentialsCache], Walk]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """How often one of the workers checks what is marked sent (None: never), and how far back it looks each time."""

    audit_every: timedelta | None = None
    audit_since: timedelta | None = None

    def __post_init__(self) -> None:
        if self.audit_every is None:
            if self.audit_since is not None:
                raise ConfigError("audit_since says how far an audit looks back, and there is none: set audit_every")
            return
        if not SHORTEST <= self.audit_every <= timedelta(days=30):
            raise ConfigError("audit_every must be between one minute and 30 days")
        if self.audit_since is not None and self.audit_since <= self.audit_every:
            raise ConfigError("audit_since must be longer than audit_every: what was sent just now is for the next one")

    @property
    def since(self) -> timedelta | None:
        """How far back an audit looks; twice the pause unless set, so that each send is audited once it is old."""
        return self.audit_since or (None if self.audit_every is None else self.audit_every * 2)


class Auditing:
    """The audits of one worker. Whose turn it is stands in the database, so that several workers do it once."""

    def __init__(self, store: AuditStore, settings: AuditSettings, walk: Walk, emit: Emit, *, worker_id: int) -> None:
        self._store = store
        self._every = settings.audit_every or LOOK_EVERY
        self._since = settings.since or LOOK_EVERY
        self._walk = walk
        self._emit = emit
        self._turn = Turn(worker_id, HOLD)
        self._troubles = Troubles(lambda trouble: emit(AuditFailed(reason=trouble)))

    async def run(self) -> None:
        """Check at intervals whether an audit is due."""
        await asyncio.sleep(FIRST_LOOK.total_seconds())
        while True:
            await self.look()
            await asyncio.sleep(min(LOOK_EVERY, self._every).total_seconds())

    async def look(self) -> None:
        """Run the audit that is due, unless another worker runs it. A failure here does not stop the worker."""
        await self._troubles.survive(self._look)

    async def _look(self) -> None:
        now = await self._store.take_audit(self._turn)
        if now is None:
            return
        looked_at = findings = unanswered = 0
        begun = time.monotonic()
        async for report in self._walk(now - self._since):
            looked_at, findings, unanswered = report.looked_at, report.findings, report.unanswered
            if not await self._store.keep_audit(self._turn):
                return  # we were too slow, and another worker is at it
            await asyncio.sleep(time.monotonic() - begun)  # receivers have better things to do, too
            begun = time.monotonic()
        await self._store.end_audit(self._turn, wait=self._every)
        self._emit(Audited(looked_at=looked_at, findings=findings, unanswered=unanswered))
