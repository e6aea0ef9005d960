"""Names are looked up without threads, and only vetted addresses are dialled."""

import asyncio
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias, TypeVar

import aiohttp
from aiodns import DNSResolver
from aiodns import error as errors
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader
from pycares import AresError

from sendonce.channels.http.guard import LEADS_NOWHERE, ForbiddenAddress, ForbiddenName, Guard, is_a_number
from sendonce.domain.answers import NAMES_BUSY
from sendonce.errors import ConfigError

# How many names of one tenant, or of one domain, are looked up at once: below the slots that a worker has by default.
AT_ONCE = 32
# How many sends of one tenant, or to one domain, wait for longer than a moment.
LASTING = 8
MOMENT_SECONDS = 1.0
# After this time there is no answer: well within the usual time of one send.
LONGEST_SECONDS = 5.0
# The first try's time where no name server has been measured yet; each try has twice the time of the one before.
_TRY_SECONDS, _TRIES = 1.0, 4
_LONGEST_KEPT_SECONDS = 300.0
_REMEMBERED = 10_000

NO_ANSWER = "no name server answered for the host's name in time"


class Address(NamedTuple):
    """One address of a host."""

    family: socket.AddressFamily
    host: str


class NoSuchName(OSError):
    """The name leads nowhere."""


class NameSilent(OSError):
    """Nobody answered for the name in time."""


class NotLookedUp(Exception):
    """The name was not looked up, or not waited for; the fault is not its own."""

    def __init__(self, code: str, message: str, again_in: timedelta | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.again_in = again_in


class _Share:
    """The share of the look-ups that one tenant or one domain has."""

    __slots__ = ("lasting", "names")

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.lasting = 0


_Found: TypeAlias = tuple[Address, ...] | OSError | NotLookedUp
_Kept = TypeVar("_Kept")


class Names:
    """One for all that a worker dials. `servers` are name servers as addresses, with a port or without; else the
    system's. Opened by the first look-up, on its event loop."""

    def __init__(self, servers: Sequence[str] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self._servers = tuple(map(checked_server, servers))
        self._clock = clock
        self._resolver: DNSResolver | None = None
        self._known: OrderedDict[str, tuple[float, tuple[Address, ...]]] = OrderedDict()
        self._slow: OrderedDict[str, None] = OrderedDict()
        self._asking: dict[str, asyncio.Task[_Found]] = {}
        self._shares: dict[tuple[str, str | None], _Share] = {}

    async def of(self, host: str, tenant: str | None) -> tuple[Address, ...]:
        """Where a name leads. `tenant` is whose send it is, None for our own.

        NoSuchName, NameSilent, or NotLookedUp when it is not the name's fault.
        """
        host = host.lower()
        known = self._known.get(host)
        if known is not None and self._clock() < known[0]:
            return known[1]
        with self._shared(host, tenant) as shares:
            found = await self._waited_for(host, shares)
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None:
        """Give up on all look-ups."""
        for asking in self._asking.values():
            asking.cancel()
        resolver, self._resolver = self._resolver, None
        if resolver is not None:
            await resolver.close()

    @contextmanager
    def _shared(self, host: str, tenant: str | None) -> Iterator[list[_Share]]:
        """The shares that a look-up counts for, while somebody waits for it."""
        keys = [("tenant", tenant), ("domain", _domain_of(host))]
        shares = [self._shares.setdefault(key, _Share()) for key in keys]
        try:
            if any(len(share.names) >= AT_ONCE and host not in share.names for share in shares):
                again_in = None if any(share.lasting for share in shares) else NAMES_BUSY.again_in
                raise NotLookedUp(NAMES_BUSY.code, NAMES_BUSY.message, again_in)
            for share in shares:
                share.names[host] = share.names.get(host, 0) + 1
            try:
                yield shares
            finally:
                for share in shares:
                    share.names[host] -= 1
                    if not share.names[host]:
                        del share.names[host]
        finally:
            for key in keys:
                if key in self._shares and not self._shares[key].names:
                    del self._shares[key]

    async def _waited_for(self, host: str, shares: list[_Share]) -> _Found:
        is_slow = host in self._slow
        if is_slow:
            _check_lasting(shares, None)
        asking = self._asking.get(host)
        if asking is None:
            asking = self._asking[host] = asyncio.create_task(self._ask(host))
        if not is_slow:
            done, _ = await asyncio.wait({asking}, timeout=MOMENT_SECONDS)
            if done:
                return _result_of(asking)
            _remember(self._slow, host, None)
            _check_lasting(shares, NAMES_BUSY.again_in)
        for share in shares:
            share.lasting += 1
        try:
            await asyncio.wait({asking})
        finally:
            for share in shares:
                share.lasting -= 1
        return _result_of(asking)

    async def _ask(self, host: str) -> _Found:
        """Ask, and remember the answer; who waited may be gone by then."""
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                found = await self._open().getaddrinfo(host, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except TimeoutError:
            return NameSilent(NO_ANSWER)
        except (errors.DNSError, AresError) as error:
            return self._none(host, error.args[0] if error.args else None)
        except UnicodeError:
            return NoSuchName("not a host name")
        finally:
            self._asking.pop(host, None)
        self._slow.pop(host, None)
        addresses = tuple(Address(socket.AddressFamily(node.family), node.addr[0].decode()) for node in found.nodes)
        seconds = min((node.ttl for node in found.nodes), default=0)
        if seconds > 0:
            _remember(self._known, host, (self._clock() + min(seconds, _LONGEST_KEPT_SECONDS), addresses))
        return addresses or NoSuchName("it has no address")

    def _none(self, host: str, code: int | None) -> _Found:
        if code == errors.ARES_ETIMEOUT:
            return NameSilent(NO_ANSWER)
        self._slow.pop(host, None)
        if code in (errors.ARES_ECONNREFUSED, errors.ARES_EFILE, errors.ARES_ENOMEM, errors.ARES_ECANCELLED):
            return NotLookedUp("our_server", "no name server can be reached")
        return NoSuchName("the name was not found")

    def _open(self) -> DNSResolver:
        if self._resolver is None:
            self._resolver = DNSResolver(self._servers or None, timeout=_TRY_SECONDS, tries=_TRIES)
        return self._resolver


def checked_server(text: str) -> str:
    """A name server's address; ConfigError when it is none."""
    host, bracket, rest = text.removeprefix("[").partition("]")
    if not bracket and text.count(":") < 2:
        host, _, rest = text.partition(":")
    port = rest.removeprefix(":")
    try:
        ip_address(host)
        if not port or (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
            return text
    except ValueError:
        pass
    raise ConfigError(
        f"{text!r} is not the address of a name server; write it like 10.0.0.53, 10.0.0.53:5353 or [::1]:53"
    )


def _result_of(asking: "asyncio.Task[_Found]") -> _Found:
    return NotLookedUp("our_server", "the worker stopped looking") if asking.cancelled() else asking.result()


def _check_lasting(shares: list[_Share], again_in: timedelta | None) -> None:
    if any(share.lasting >= LASTING for share in shares):
        raise NotLookedUp(NAMES_BUSY.code, "too many names of its tenant or domain get no answer", again_in)


def _remember(kept: OrderedDict[str, _Kept], host: str, value: _Kept) -> None:
    kept[host] = value
    kept.move_to_end(host)
    if len(kept) > _REMEMBERED:
        kept.popitem(last=False)


def _domain_of(host: str) -> str:
    """Return the registered domain: shop.example of hooks.shop.example, shop.co.uk of hooks.shop.co.uk."""
    labels = host.rstrip(".").split(".")
    below = 3 if len(labels[-1]) == 2 and len(labels) > 2 and len(labels[-2]) <= 3 else 2
    return ".".join(labels[-below:])


# Below what servers commonly keep an idle connection open for (5 s): one they are just closing would leave us in doubt.
KEEP_ALIVE_SECONDS = 4.0
MOST_INTERIM_ANSWERS = 20
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


# Whose send it is that connects. None: our own, to an address of the settings.
sender_of: ContextVar[str | None] = ContextVar("sender_of", default=None)


class Resolver(AbstractResolver):
    """Looks up names for the HTTP client, and returns only the addresses that may be dialled."""

    def __init__(self, guard: Guard, names: Names) -> None:
        self._guard = guard
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses that may be dialled; ForbiddenAddress when there are others only."""
        if is_a_number(host):
            raise ForbiddenAddress("its host is a number; write a name or a plain IP address")
        found = await self._names.of(host, sender_of.get())
        vetted = [each for each in found if self._guard.allows(each.host)]
        if not vetted:
            raise ForbiddenName(LEADS_NOWHERE)
        return [
            ResolveResult(hostname=host, host=each.host, port=port, family=each.family, proto=0, flags=_NUMERIC)
            for each in vetted
            if family in (socket.AF_UNSPEC, each.family)
        ]

    async def close(self) -> None:
        await self._names.close()


class _Impatient(ResponseHandler):
    """Hangs up on a receiver that says 100 Continue, or the like, without an end: each would be kept in memory."""

    _interim = 0

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        self._interim = self._interim + 1 if 100 <= data[0].code < 200 else 0
        if self._interim <= MOST_INTERIM_ANSWERS:
            super().feed_data(data, size)
        elif self.transport is not None:
            self.transport.abort()
            self.set_exception(HttpProcessingError(message="too many interim answers"))


class GuardedConnector(aiohttp.TCPConnector):
    """A pool of connections that were all vetted when they were dialled. How many is for the sender's slots to say."""

    def __init__(self, guard: Guard, name_servers: Sequence[str] = ()) -> None:
        self._names = Resolver(guard, Names(name_servers))

        def vetted_socket(address: AddrInfoType) -> socket.socket:
            family, kind, proto, _, place = address
            guard.check(str(place[0]))
            return socket.socket(family, kind, proto)

        super().__init__(
            limit=0,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            use_dns_cache=False,
            resolver=self._names,
            socket_factory=vetted_socket,
        )
        # The connector has no parameter for it; test_hostile_answers notices should the name be another one.
        self._factory = partial(self._impatient)

    def _impatient(self) -> ResponseHandler:
        return _Impatient(self._loop)

    async def close(self, *, abort_ssl: bool = False) -> None:
        await self._names.close()
        await super().close(abort_ssl=abort_ssl)
