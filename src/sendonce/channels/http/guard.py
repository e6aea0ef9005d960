"""Which addresses may be dialled: public ones, and those that the operator has opened. Everything else is refused."""

import os
import re
from collections.abc import Mapping, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from sendonce.errors import ConfigError

VARIABLE = "SENDONCE_ALLOW_NETWORKS"
HINT = f"an operator can open its network with {VARIABLE}"

_PUBLIC_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# What the standard library calls global, or has no opinion on, but no receiver on the internet has.
# The last one is where Azure's own machines find their host: public by its number, but never a receiver.
_SPECIAL_V4 = tuple(
    map(IPv4Network, ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32"))
)
# 2001::/23 holds Teredo, 2002::/16 is 6to4: both carry an IPv4 address that would be reached instead.
_SPECIAL_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
# ISATAP: whatever network it stands in, an address like …:5efe:a.b.c.d is reached by way of a.b.c.d.
_ISATAP = (0x00005EFE, 0x02005EFE)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII | re.IGNORECASE)

Network = IPv4Network | IPv6Network


# One answer for a name that is not there and for one that leads inside: else whoever enters URLs could list our names.
LEADS_NOWHERE = f"the host's name was not found, or leads to a network that is not open; {HINT}"


class ForbiddenAddress(Exception):
    """The guard said no; nothing was dialled. The text says what an operator can do."""


class ForbiddenName(ForbiddenAddress):
    """A name leads only to addresses that the guard says no to."""


class Guard:
    """Decides about one IP address at the moment it is dialled, so that no name can change in between.

    >>> Guard.parse("10.1.0.0/16").allows("10.1.2.3")
    True
    """

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed)

    @classmethod
    def parse(cls, text: str) -> "Guard":
        """A guard that opens these networks: `127.0.0.0/8, ::1/128`."""
        return cls([_network(part.strip()) for part in text.split(",") if part.strip()])

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Guard":
        """A guard that opens the networks of SENDONCE_ALLOW_NETWORKS."""
        try:
            return cls.parse(environment.get(VARIABLE, ""))
        except ConfigError as error:
            raise ConfigError(f"{VARIABLE} holds networks with commas between them: {error}") from None

    def __repr__(self) -> str:
        return f"Guard.parse({', '.join(map(str, self._allowed))!r})"

    def allows(self, host: str) -> bool:
        """Return whether this address may be dialled. Only plain IP addresses may: no names, no 127.1 or 0x7f000001."""
        try:
            address = ip_address(host)
        except ValueError:
            return False
        meant = _meant(address)
        opened = any(each in network for network in self._allowed for each in (address, meant))
        return opened or _is_public(meant)

    def check(self, host: str) -> None:
        """Raise ForbiddenAddress unless this may be dialled."""
        if not self.allows(host):
            raise ForbiddenAddress(f"it leads to a network that is not open; {HINT}")


def is_a_number(host: str) -> bool:
    """True for hosts whose last part is a number (127.1, 0x7f000001): programs disagree on where they lead."""
    return bool(_NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]))


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The address that is reached in the end: the IPv4 address within an IPv6 one."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP and not _is_public(IPv4Address(int(address) & 0xFFFFFFFF)):
        return False
    return address in _PUBLIC_V6 and not any(address in network for network in _SPECIAL_V6)


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not a network; write it like {_likely(text)}") from None


def _likely(text: str) -> str:
    """What was meant, where an address stands with the length of its network: 127.0.0.1/8."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        return "10.1.0.0/16 or ::1/128"
