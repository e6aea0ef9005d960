"""The settings of a process of consumers, checked when they are made."""

from dataclasses import dataclass
from datetime import timedelta

from sendonce.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeConfig:
    """`grace`: for how long what is in hand may go on when they are told to stop."""

    grace: timedelta = timedelta(seconds=20)

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.grace <= timedelta(hours=1):
            raise ConfigError("grace must be between zero and one hour")
