"""The engine's time in a test: it goes as always, and can be moved forward."""

from datetime import UTC, datetime, timedelta

from sendonce.errors import ConfigError


class Clock:
    """What the engine takes for the time. Code that records takes the machine's own: move before you record, or reckon
    `deliver_at` and `expires_at` from `now()`."""

    def __init__(self) -> None:
        self._moved = timedelta(0)

    def now(self, *, at_least: datetime | None = None) -> datetime:
        """The machine's time, or what another clock says if that is later; and as much more as this was moved."""
        here = datetime.now(UTC)
        return max(here, at_least or here) + self._moved

    def advance(self, by: timedelta = timedelta(0), **parts: float) -> None:
        """Let time pass: `advance(minutes=2)`, or a timedelta. Leases end, waits are over, deadlines pass."""
        try:
            moved = by + timedelta(**parts)
        except TypeError:
            raise ConfigError("say how much time passes, like advance(minutes=2, seconds=30)") from None
        if moved < timedelta(0):
            raise ConfigError("time cannot be moved back; make another box")
        self._moved += moved
