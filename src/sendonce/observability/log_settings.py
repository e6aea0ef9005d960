"""How a worker logs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """`format` is text or json; with `tracebacks` it is also said where an exception of an own channel came from."""

    format: str = "text"
    tracebacks: bool = False
