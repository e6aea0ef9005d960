"""What a consumer has done, told once a second; failures by name, as long as they are few."""

import asyncio
from collections import Counter

from sendonce.observability.facts import Consumed, Emit, MessageFailed

TELL_SECONDS = 1.0
MOST_NAMED = 5


class Tallies:
    def __init__(self, consumer: str, emit: Emit) -> None:
        self._consumer = consumer
        self._emit = emit
        self._counts: Counter[str] = Counter()
        self._named = 0

    def count(self, result: str) -> None:
        """One more was handled, or was a duplicate."""
        self._counts[result] += 1

    def failed(self, message_id: str, code: str, tries: int) -> None:
        """A try failed, and is made again later."""
        self._counts["failed"] += 1
        self._name(message_id, code, tries, is_dead=False)

    def dead(self, message_id: str, code: str, tries: int) -> None:
        """It was given up, and waits for a person."""
        self._counts["dead"] += 1
        self._name(message_id, code, tries, is_dead=True)

    async def run(self) -> None:
        """Tell now and then, until cancelled."""
        while True:
            await asyncio.sleep(TELL_SECONDS)
            self.tell()

    def tell(self) -> None:
        """Say what was done since the last time, if anything."""
        self._named = 0
        if not self._counts:
            return
        counts, self._counts = self._counts, Counter()
        self._emit(
            Consumed(
                consumer=self._consumer,
                handled=counts["handled"],
                duplicates=counts["duplicate"],
                failed=counts["failed"],
                dead=counts["dead"],
            )
        )

    def _name(self, message_id: str, code: str, tries: int, *, is_dead: bool) -> None:
        self._named += 1
        if self._named <= MOST_NAMED:
            self._emit(
                MessageFailed(consumer=self._consumer, message=message_id, code=code, tries=tries, is_dead=is_dead)
            )
