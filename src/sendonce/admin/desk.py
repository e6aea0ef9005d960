"""What operations need of a store: reading and a person's actions, without the engine's verbs."""

from collections.abc import Sequence
from typing import Protocol

from sendonce.store.ports import OperatorStore
from sendonce.store.readers import ReadStore
from sendonce.store.records import Acted


class Desk(ReadStore, OperatorStore, Protocol):
    """A person's desk: look at everything, act on what is finished or held back."""


class CancelDesk(ReadStore, Protocol):
    """Reading, and the one verb of the orchestrator that a person may ask for."""

    async def cancel(self, delivery_ids: Sequence[int], *, operator: str, reason: str) -> Acted:
        """See OrchestratorStore."""
        ...
