"""The settings of a worker and its log, checked when they are made, and whether the database is the one they mean."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sendonce.domain.policies import Policy
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from sendonce.store.readers import ReadStore

BREAKER_LONGEST = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """`format` is text or json; with `tracebacks` it is also said where an exception of an own channel came from."""

    format: str = "text"
    tracebacks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """`concurrency` sends at once; nothing is leased beyond that, and one destination or host gets a part of them.

    A destination that fails `breaker_after` times in a row is left alone for `breaker_pause`, then probed, and left
    alone for longer each time that fails, up to a third of the outage and `breaker_longest`. A database that has a name
    is worked on only as its `instance`; in the file `state` a worker remembers the newest claim it has seen committed.
    `until_idle` ends when nothing is left to do; with `once` also when what is left needs time to pass, or is another
    worker's.
    """

    concurrency: int = 100
    lease: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(seconds=1)
    grace: timedelta = timedelta(seconds=20)
    until_idle: bool = False
    once: bool = False
    per_destination: int | None = None
    per_host: int | None = None
    breaker_after: int = 10
    breaker_pause: timedelta = timedelta(seconds=10)
    breaker_longest: timedelta = BREAKER_LONGEST
    instance: str | None = None
    state: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= 10_000:
            raise ConfigError(f"concurrency must be between 1 and 10000, not {self.concurrency}")
        if not timedelta(seconds=1) <= self.lease <= timedelta(hours=1):
            raise ConfigError("lease must be between one second and one hour")
        if not timedelta(milliseconds=10) <= self.poll <= timedelta(minutes=1):
            raise ConfigError("poll must be between 10 ms and one minute")
        if not timedelta(0) <= self.grace <= timedelta(hours=1):
            raise ConfigError("grace must be between zero and one hour")
        for name in ("per_destination", "per_host"):
            most = getattr(self, name)
            if most is not None and not 1 <= most <= self.concurrency:
                raise ConfigError(f"{name} must be between 1 and the concurrency ({self.concurrency}), not {most}")
        if not 1 <= self.breaker_after <= 10_000:
            raise ConfigError(f"breaker_after must be between 1 and 10000, not {self.breaker_after}")
        if not timedelta(milliseconds=10) <= self.breaker_pause <= self.breaker_longest <= timedelta(days=1):
            raise ConfigError("breaker_pause must be at least 10 ms, at most breaker_longest, and that at most one day")

    @property
    def longest_send(self) -> timedelta:
        """The longest time an attempt may take: always below the lease."""
        return self.lease * 0.8


def check_timeout(config: WorkerConfig, policy: Policy) -> None:
    """Raise ConfigError when a send may outlast its lease."""
    if policy.timeout > config.longest_send:
        raise ConfigError(
            f"a send may take {policy.timeout.total_seconds():g} s but the lease is only"
            f" {config.lease.total_seconds():g} s; make the lease longer or the timeout shorter"
        )


async def check_instance(store: "ReadStore", expected: str | None) -> None:
    """Raise ConfigError when the database has a name and the settings say another, or none."""
    name = await store.instance()
    if name is None or name == expected:
        return
    ours = "say none" if expected is None else f"say {expected!r}"
    raise ConfigError(
        f"this database is {name!r} and the settings {ours}, so nothing is sent: set [database] instance if it is"
        " yours, or name the copy with: sendonce instance NAME"
    )
