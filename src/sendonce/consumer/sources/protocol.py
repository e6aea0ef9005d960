"""What a source is: it gives messages, and is told which of them are done with. One that is lost is opened again."""

from collections.abc import Sequence
from typing import Protocol

from sendonce.consumer.incoming import Taken
from sendonce.errors import SendonceError


class SourceLost(SendonceError):
    """The broker does not answer now, or has closed the connection. What was not acknowledged it gives again."""


class Source(Protocol):
    """One consumer's place at a broker. Everything but `open` and `close` raises SourceLost when that is gone."""

    @property
    def patience(self) -> float:
        """After so many seconds without a word a message is given to others; endless where that is not told by time."""
        ...

    async def open(self) -> None:
        """Connect. ConfigError for what nobody mends by waiting, SourceLost for what passes."""
        ...

    async def take(self, most: int, seconds: float) -> Sequence[Taken]:
        """Return up to `most` messages as soon as there are any; none when there were none for so long."""
        ...

    async def acknowledge(self, taken: Taken) -> None:
        """Never give this one again: its effect is committed, or it is kept elsewhere."""
        ...

    async def extend(self, in_hand: Sequence[Taken]) -> None:
        """Say that these are still being worked on, where the broker would give them to others otherwise."""
        ...

    async def close(self) -> None:
        """Disconnect; what was not acknowledged is given again."""
        ...
