"""Subscriptions whose receiver is gone for good (410): disabled beside the work, and not by the orchestrator."""

import asyncio
from collections.abc import Sequence

from sendonce.domain.attempts import Result
from sendonce.domain.outcomes import Refused
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Disabled, Emit
from sendonce.store.ports import SecretStore

CODE = "http_410"
REASON = "its receiver answered 410 Gone"


class DisableGoneSubscriptions:
    """Notes who is gone as results come in, and disables them one after the other."""

    def __init__(self, store: SecretStore, emit: Emit) -> None:
        self._store = store
        self._emit = emit
        self._noted: set[int] = set()
        self._is_noted = asyncio.Event()

    def note(self, results: Sequence[Result]) -> None:
        """Look for receivers that are gone."""
        for report, _ in results:
            if type(report.outcome) is Refused and report.outcome.code == CODE and report.claim.subscription_id:
                self._noted.add(report.claim.subscription_id)
                self._is_noted.set()

    async def run(self) -> None:
        """Disable what was noted, until cancelled."""
        while True:
            await self._is_noted.wait()
            self._is_noted.clear()
            await self.apply()

    async def apply(self) -> None:
        """Disable what was noted until now. One that cannot be written is noted again by its next delivery."""
        while self._noted:
            subscription_id = self._noted.pop()
            try:
                if await self._store.disable_subscription(subscription_id, reason=REASON):
                    self._emit(Disabled(subscription_id=subscription_id, reason=REASON))
            except StoreBusy:
                continue
