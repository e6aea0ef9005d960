"""Which channel serves an address: the one with the longest beginning of it, else the one of its scheme.

A beginning of http: or https: addresses stands for an endpoint of our own, with secrets of our own. A subscription's
address was chosen by a tenant: such a beginning serves it only where it was opened to them, else its scheme does.
"""

import re
from collections.abc import Iterable, Mapping

from sendonce.domain.destinations import place_of, scheme_of
from sendonce.errors import ConfigError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}", re.ASCII)
_OPEN = "subscription"


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
        if scheme not in self._beginnings:
            return scheme
        is_closed = is_subscription and scheme in ("http", "https")
        for beginning in self._beginnings[scheme]:
            if address.startswith(beginning) and not (is_closed and beginning not in self.opened):
                return beginning
        return scheme


class Served:
    """What one worker serves among others: it claims nothing else.

    `names` are its own; None: whatever there is. `elsewhere` are those of others, each with whether a live worker has
    it: a beginning that is only theirs keeps its addresses from whoever serves the scheme alone, and would send without
    the profile's secret. One that is open to subscriptions is named once more for these (`open_name`). What has been
    due for less than `spare` seconds is left for a live worker that serves it.
    """

    def __init__(
        self, names: Iterable[str] | None, elsewhere: Mapping[str, bool] | None = None, *, spare: float = 0.0
    ) -> None:
        self.is_all = names is None
        self.names = frozenset(names or ())
        self.spare = spare
        others = elsewhere or {}
        self.known = self.names.union(others)
        self.live = self.names.union(name for name, is_live in others.items() if is_live)
        self.beginnings = tuple(sorted(name for name in self.known if ":" in name))
        self._serving = Serving(self.beginnings)

    def lacked(self, address: str, *, is_subscription: bool = False) -> str | None:
        """Return the name that serves this address, when it is not one of this worker's."""
        name = self._name_of(address, is_subscription) if self.beginnings else scheme_of(address)
        return None if self.is_all or name in self.names else name

    def is_live(self, address: str, *, is_subscription: bool = False) -> bool:
        """True when some live worker serves this address, or the name that serves it."""
        return self.is_all or self._name_of(address, is_subscription) in self.live

    def _name_of(self, address: str, is_subscription: bool) -> str:
        is_closed = is_subscription and address.startswith(("http:", "https:"))
        name = self._serving.of(open_name(address) if is_closed else address)
        return scheme_of(bare(address)) if name == _OPEN else name


def open_name(beginning: str) -> str:
    """The name of a beginning for subscriptions, where it is open to them. No address begins like that."""
    return f"{_OPEN}:{beginning}"


def bare(name: str) -> str:
    """Return a name without the mark that opens it to subscriptions."""
    return name.removeprefix(f"{_OPEN}:")


def place_of_name(name: str) -> str:
    """The place (see `place_of`) of what a name serves; of a scheme itself, whose addresses may have no host."""
    return place_of(bare(name)) if ":" in name else name


def shown(name: str) -> str:
    """Return a name as people read it: `sms:`, `https://runner.example/jobs/`."""
    if ":" not in name:
        return f"{name}:"
    return name if bare(name) == name else f"{bare(name)} (subscriptions)"
