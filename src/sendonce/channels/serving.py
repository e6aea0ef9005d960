"""Which channel serves an address: the one with the longest beginning of it, else the one of its scheme.

A beginning of http: or https: addresses stands for an endpoint of our own, with secrets of our own. A subscription's
address was chosen by a tenant: such a beginning serves it only where it was opened to them, else its scheme does.
"""

import re
from collections.abc import Iterable

from sendonce.domain.destinations import scheme_of
from sendonce.errors import ConfigError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}", re.ASCII)


class Serving:
    """Names are schemes (`sms`) or beginnings of addresses (`https://runner.example/jobs/`)."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._beginnings: dict[str, list[str]] = {}
        self.opened: set[str] = set()
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Enter a name; ConfigError when it is neither a scheme nor the beginning of an address."""
        scheme, colon, rest = name.partition(":")
        if not _SCHEME.fullmatch(scheme) or (colon and not rest):
            raise ConfigError(f"{name!r} is not a scheme: use lower-case letters, digits, + . and -")
        if not colon:
            return
        # Without the slash https://runner.example would also serve https://runner.example.evil.test.
        if rest.startswith("//") and not name.endswith("/"):
            raise ConfigError(f"{name!r} must end with a slash: it stands for everything below it")
        known = self._beginnings.setdefault(scheme, [])
        if name not in known:
            known.append(name)
            known.sort(key=len, reverse=True)

    def of(self, address: str, *, is_subscription: bool = False) -> str:
        """The name that serves this address; its scheme when there is none that is closer."""
        scheme = scheme_of(address)
        is_closed = is_subscription and scheme in ("http", "https")
        for beginning in self._beginnings.get(scheme, ()):
            if address.startswith(beginning) and not (is_closed and beginning not in self.opened):
                return beginning
        return scheme
