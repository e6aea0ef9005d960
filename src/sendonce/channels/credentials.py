"""What a subscription's requests are signed and sent with. Never shown, never logged."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credentials:
    """`signing`: the keys that sign, newest first; while a rotation overlaps there are two.

    `certificate` is a client certificate and its key, as PEM.
    """

    signing: tuple[bytes, ...] = ()
    bearer: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: str | None = None


NONE = Credentials()
