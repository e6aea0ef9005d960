"""What a worker, or a consumer, knows of itself: whether its loops go round, and who does not answer. Asks nobody."""

import time

from sendonce.observability.facts import Begun, Consuming, DatabaseBack, DatabaseLost, Fact, SourceBack, SourceGone

# Longer than a call to a database that does not answer, with the pause after it: waiting for one is no reason to end.
STUCK_SECONDS = 180.0
# The lease keeper asks the database four times a second.
HEARD_SECONDS = 2.0


class Health:
    """Tells whether the worker's loops are alive. They write it from either thread."""

    def __init__(self, what: str = "worker") -> None:
        self.what = what
        self.is_stopping = False
        self._is_registered = False
        self._turned_at: dict[str, float] = {}
        self._ended: set[str] = set()
        self._lost: set[str] = set()
        self._sources: dict[str, str] = {}
        self._heard_at = float("-inf")

    def turn(self, part: str) -> None:
        """Record that this loop is alive."""
        self._turned_at[part] = time.monotonic()

    def rest(self, part: str) -> None:
        """Record that this loop is idle or has ended, so that it cannot be stuck."""
        self._turned_at.pop(part, None)

    def end(self, part: str) -> None:
        """Record that this loop died of an error."""
        self._ended.add(part)

    def heard(self) -> None:
        """Record that the database has answered."""
        self._heard_at = time.monotonic()

    def on_fact(self, fact: Fact) -> None:
        """Note which part has lost the database, or its broker, and that the work has begun."""
        match fact:
            case Begun() | Consuming(is_over=False):
                self._is_registered = True
                self.heard()
            case DatabaseLost(part=part):
                self._lost.add(part)
            case DatabaseBack(part=part):
                self._lost.discard(part)
            case SourceGone(consumer=consumer, reason=reason):
                self._sources[consumer] = reason
            case SourceBack(consumer=consumer):
                self._sources.pop(consumer, None)

    def stuck(self) -> str | None:
        """Return why this process should be restarted; None while its loops turn."""
        for part in sorted(self._ended):
            return f"{part}: its loop has ended with an error"
        now = time.monotonic()
        for part, turned_at in sorted(self._turned_at.items()):
            if now - turned_at > STUCK_SECONDS:
                return f"{part}: its loop has not gone round for {now - turned_at:.0f} s"
        return None

    def unready(self) -> str | None:
        """Return why the worker takes no work now, as far as it knows by itself; None when it does."""
        if self.is_stopping:
            return f"the {self.what} is stopping"
        if not self._is_registered:
            return f"the {self.what} is not registered yet"
        for part in sorted(self._lost):
            return f"{part}: the database does not answer"
        for consumer, reason in sorted(self._sources.items()):
            return f"consumer {consumer}: {reason}"
        return None

    @property
    def has_lost_the_database(self) -> bool:
        return bool(self._lost)

    @property
    def has_heard_lately(self) -> bool:
        """True when the database has answered recently, so that a probe need not ask it again."""
        return time.monotonic() - self._heard_at <= HEARD_SECONDS
