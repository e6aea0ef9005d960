"""A worker's settings, checked when they are made."""

from dataclasses import dataclass
from datetime import timedelta

from sendonce.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """`concurrency` sends at once; nothing is leased beyond that."""

    concurrency: int = 100
    lease: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(seconds=1)
    grace: timedelta = timedelta(seconds=20)
    until_idle: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= 10_000:
            raise ConfigError(f"concurrency must be between 1 and 10000, not {self.concurrency}")
        if not timedelta(seconds=1) <= self.lease <= timedelta(hours=1):
            raise ConfigError("lease must be between one second and one hour")
        if not timedelta(milliseconds=10) <= self.poll <= timedelta(minutes=1):
            raise ConfigError("poll must be between 10 ms and one minute")
        if not timedelta(0) <= self.grace <= timedelta(hours=1):
            raise ConfigError("grace must be between zero and one hour")

    @property
    def longest_send(self) -> timedelta:
        """What an attempt may take at most: always below the lease."""
        return self.lease * 0.8
