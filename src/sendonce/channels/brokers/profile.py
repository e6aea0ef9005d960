"""What the settings of every broker have in common: where it is, whom it takes us for, and how messages are written."""

import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, NoReturn
from urllib.parse import SplitResult, unquote, urlsplit

from sendonce.channels.http.certificates import context_of
from sendonce.channels.protocol import Channel, Message
from sendonce.domain.carried import Format
from sendonce.domain.policies import DEFAULT_POLICY, override
from sendonce.errors import ConfigError

_PROFILE = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BrokerProfile(ABC):
    """`certificate` (with its key) and `ca` are PEM texts. `source` names us in a CloudEvent."""

    scheme: ClassVar[str]

    name: str
    password: str | None = None
    ca: str | None = None
    certificate: str | None = None
    format: str = "plain"
    source: str = "sendonce"
    policy: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _PROFILE.fullmatch(self.name):
            raise ConfigError(f"[{self.table}]: a broker's name has letters, digits, dots, - and _ only")
        if self.format not in list(Format):
            self.refuse("format", f"must be one of {', '.join(Format)}")
        if not self.source or any(each.isspace() for each in self.source):
            self.refuse("source", "must be a URI without spaces, like /shop or https://shop.example")
        if self.certificate is not None or self.ca is not None:
            try:
                context_of(self.certificate, self.ca)
            except ConfigError as error:
                raise ConfigError(f"[{self.table}] {error}") from None
        override(DEFAULT_POLICY, self.policy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    @abstractmethod
    def channel(self) -> Channel:
        """Make the channel that sends with this profile."""

    @property
    def longest_write(self) -> timedelta:
        """For how long the client itself may go on writing a message, whoever waits for it."""
        return timedelta(0)

    def check_timeout(self, timeout: timedelta) -> None:
        """ConfigError when a message could still be written after we have stopped waiting for it."""
        if self.longest_write >= timeout:
            self.refuse("message_timeout", "must be less than the policy's timeout: what is late must not be written")

    @property
    def table(self) -> str:
        return f"{self.scheme}.{self.name}"

    @property
    def beginning(self) -> str:
        """Return what the addresses of this profile begin with."""
        return f"{self.scheme}:{self.name}/"

    def context(self) -> ssl.SSLContext:
        """The client's side of TLS."""
        return context_of(self.certificate, self.ca)

    def rest_of(self, message: Message) -> str:
        """What a message's address says beside the profile; empty when it is none that this profile may serve.

        A tenant chose a subscription's address: our own brokers are not for them.
        """
        if message.is_for_subscription or not message.address.startswith(self.beginning):
            return ""
        return message.address[len(self.beginning) :]

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise ConfigError for one key."""
        raise ConfigError(f"[{self.table}] {key} {why}")

    def checked_url(self, url: str, schemes: tuple[str, ...], example: str) -> SplitResult:
        """The parts of a server's address; ConfigError without repeating it, for it may hold a password."""
        wanted = f"must be an address like {example}"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            self.refuse("url", wanted)
        if parts.scheme not in schemes or not parts.hostname or port == 0:
            self.refuse("url", wanted)
        if parts.query or parts.fragment:
            self.refuse("url", "must not have options after a ? or #; what can be set has a key of its own")
        return parts


def user_of(parts: SplitResult) -> str | None:
    """The user that an address names."""
    return None if parts.username is None else unquote(parts.username)


def password_of(parts: SplitResult, own: str | None) -> str | None:
    """The password: the one that has a key of its own, else the address's."""
    return own if own is not None or parts.password is None else unquote(parts.password)
