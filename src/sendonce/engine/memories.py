"""Says when another side forgets a message sooner than it may be sent again: then it would be taken for a new one."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

from sendonce.channels.registry import Channels
from sendonce.domain.decide import doubt_wait
from sendonce.domain.outcomes import LEASE_EXPIRED
from sendonce.engine.orchestrator import Policies
from sendonce.observability.facts import Emit, MemoryTooShort

# Some are known only when something was sent.
LOOK_SECONDS = 10.0


class Memories:
    def __init__(self, channels: Channels, policies: Policies, lease: timedelta, emit: Emit) -> None:
        self._channels = channels
        self._policies = policies
        self._lease = lease
        self._emit = emit
        self._said: dict[str, timedelta] = {}

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Say of each channel once that its memory is too short, and again when that has changed."""
        short = {fact.channel: fact for fact in self._too_short()}
        for name, fact in short.items():
            if self._said.get(name) != fact.remembers:
                self._emit(fact)
        self._said = {name: fact.remembers for name, fact in short.items()}

    def _too_short(self) -> Iterator[MemoryTooShort]:
        for name, remembers in self._channels.memories().items():
            policy = self._policies.at(name, None, is_subscription=False)
            wait = doubt_wait(policy, LEASE_EXPIRED.code, was_in_doubt=True)
            needed = self._lease + wait + policy.timeout
            if remembers < needed:
                yield MemoryTooShort(channel=name, remembers=remembers, needed=needed)
