"""Which channel serves which addresses, with its own policy where it has one, and the channels of every worker."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from sendonce.channels.http.guard import Guard
from sendonce.channels.protocol import Asking, Channel, LookingUp, Message, memory_of
from sendonce.domain.destinations import BROKERS, misspelled, scheme_of
from sendonce.domain.outcomes import Delivered, Outcome
from sendonce.domain.serving import Serving, open_name
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from sendonce.channels.http.client import HttpClient
    from sendonce.channels.http.endpoint import HttpProfile

Registered = TypeVar("Registered")


class Channels:
    """The channels of one worker, by the scheme they serve, or by the beginning of the addresses.

    >>> channels = Channels()
    >>> @channels.channel("sms", if_unsure="hold")
    ... async def send_sms(message, *, timeout):
    ...     return Delivered()
    """

    def __init__(self) -> None:
        self._channels: dict[str, Channel] = {}
        self._asking: dict[str, Asking] = {}
        self._settings: dict[str, Mapping[str, object]] = {}
        self._where_said: LookingUp | None = None
        self.serving = Serving()

    def channel(self, *schemes: str, **policy: object) -> Callable[[Registered], Registered]:
        """Register an async function, a class or an object with `send`, as `add` does."""

        def register(target: Registered) -> Registered:
            self.add(_as_channel(target), *schemes, **policy)
            return target

        return register

    def add(self, channel: Channel, *schemes: str, **policy: object) -> None:
        """Register a channel for schemes like `sms` or beginnings like `https://runner.example/`; policy by name.

        A later one replaces an earlier one; a longer beginning goes before a shorter one. Beginnings of http: or https:
        addresses do not serve subscriptions: see `open_to_subscriptions`.
        """
        if not schemes:
            raise ConfigError("a channel needs the scheme it serves, like sms")
        _check(channel)
        for scheme in schemes:
            if (known := misspelled(scheme)) is not None:
                raise ConfigError(
                    f"a channel cannot serve {scheme}:, which is one letter away from {known}: and refused where a"
                    " message is recorded; take another name"
                )
            self.serving.add(scheme)
            self.serving.opened.discard(scheme)
            self._channels[scheme] = channel
            self._asking.pop(scheme, None)
            if isinstance(channel, Asking):
                self._asking[scheme] = channel
            self._settings[scheme] = policy

    def update(self, other: "Channels") -> None:
        """Take over all channels of another registry."""
        for scheme, channel in other._channels.items():
            self.add(channel, scheme, **other._settings[scheme])
        self.serving.opened |= other.serving.opened
        self._where_said = other._where_said or self._where_said

    def open_to_subscriptions(self, beginning: str) -> None:
        """Have this beginning of http: or https: addresses serve subscriptions too, whose addresses tenants choose."""
        self.serving.opened.add(beginning)

    def ask_where_subscriptions_say(self, asker: LookingUp) -> None:
        """Have this one ask the receivers of subscriptions that say where, and whose channel cannot be asked itself."""
        self._where_said = asker

    def set_policy(self, scheme: str, policy: Mapping[str, object]) -> None:
        """Have these go over the channel's own policy settings; of a broker's scheme, over those of all its profiles.

        ConfigError when nothing here serves that scheme.
        """
        names = [name for name in self._channels if name == scheme or (scheme in BROKERS and scheme_of(name) == scheme)]
        if not names:
            served = ", ".join(sorted({name if ":" not in name else scheme_of(name) for name in self._channels}))
            raise ConfigError(f"[policy.{scheme}]: no channel here sends to {scheme}:; there are: {served}")
        for name in names:
            self._settings[name] = {**self._settings[name], **policy}

    def find(self, address: str, *, is_subscription: bool = False) -> Channel | None:
        """The channel for an address; for a subscription's, which a tenant chose, none with secrets of ours."""
        return self._channels.get(self.serving.of(address, is_subscription=is_subscription))

    def find_asking(self, address: str, *, is_subscription: bool = False, ask: str | None = None) -> LookingUp | None:
        """Return what asks the receiver, if it can be asked; `ask` is the subscription's own address for that."""
        asking = self._asking.get(self.serving.of(address, is_subscription=is_subscription))
        return self._where_said if asking is None and ask is not None else asking

    @property
    def names(self) -> tuple[str, ...] | None:
        """The schemes and beginnings of addresses that are served here; None for whatever there is."""
        opened = [open_name(each) for each in self.serving.opened if each in self._channels]
        return (*sorted(self._channels), *sorted(opened))

    def memories(self) -> dict[str, timedelta]:
        """For how long those can be asked about a message that do not say for ever."""
        found = {name: memory_of(channel) for name, channel in self._asking.items()}
        return {name: memory for name, memory in found.items() if memory is not None}

    def settings(self) -> dict[str, Mapping[str, object]]:
        """The policy settings of each scheme or beginning."""
        return dict(self._settings)

    def can_look_up(self, address: str, *, is_subscription: bool = False, ask: str | None = None) -> bool | None:
        """Return whether the receiver can be asked; None when no channel here serves that address."""
        if self.serving.of(address, is_subscription=is_subscription) not in self._channels:
            return None
        return self.find_asking(address, is_subscription=is_subscription, ask=ask) is not None

    async def close(self) -> None:
        """Close the channels that hold something open."""
        for channel in dict.fromkeys(self._channels.values()):
            close = getattr(channel, "close", None)
            if close is not None and inspect.isawaitable(closing := close()):
                await closing


class _Function:
    """An async function as a channel: it is the method itself, so that a send costs no call more."""

    def __init__(self, function: Callable[..., Awaitable[Outcome]]) -> None:
        self.send = function


def _as_channel(target: object) -> Channel:
    if inspect.iscoroutinefunction(target):
        return _Function(target)  # type: ignore[return-value]
    if isinstance(target, type) and not _can_be_called(target):
        raise ConfigError(
            f"the channel {target.__name__} needs values to be made with; register an object of it with `add`"
        )
    return target() if isinstance(target, type) else target  # type: ignore[return-value]


def _check(channel: object) -> None:
    """What is not async would have sent before it fails, and would be taken for a case of doubt every time; and what
    cannot be called would never send."""
    send = getattr(channel, "send", None)
    if not inspect.iscoroutinefunction(send):
        raise ConfigError("a channel is an async function, or a class with `async def send(self, message, *, timeout)`")
    look_up = getattr(channel, "look_up", send)
    if not inspect.iscoroutinefunction(look_up):
        raise ConfigError("a channel's look_up is `async def look_up(self, message, *, timeout)`")
    for name, method in (("send", send), ("look_up", look_up)):
        if not _can_be_called(method, None, timeout=0.0):
            raise ConfigError(
                f"a channel is called as {name}(message, timeout=seconds), and {method.__qualname__}"
                f"{inspect.signature(method)} cannot be; write `async def {name}(message, *, timeout)`"
            )


def _can_be_called(target: Callable[..., object], *arguments: object, **named: object) -> bool:
    """Return whether it can be called with these arguments; True when its signature is unknown."""
    try:
        inspect.signature(target).bind(*arguments, **named)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


_DELIVERED = Delivered()


class NullChannel:
    async def send(self, message: Message, *, timeout: float) -> Outcome:
        return _DELIVERED


def has_http() -> bool:
    """Whether the packages are installed that HTTP needs: the client, and what looks names up."""
    return find_spec("aiohttp") is not None and find_spec("aiodns") is not None


def builtin(
    *, client: "HttpClient | None" = None, secret: str | None = None, profiles: "Sequence[HttpProfile]" = ()
) -> Channels:
    """A fresh registry with the channels that come with sendonce.

    `client` is what they send with, else one guarded as the environment says; `secret` signs what has no subscription.
    """
    channels = Channels()
    channels.add(NullChannel(), "null")
    if not has_http():
        return channels
    from sendonce.channels.http.client import HttpClient
    from sendonce.channels.http.endpoint import endpoint
    from sendonce.channels.http.look_ups import SubscriptionLookUps
    from sendonce.channels.http.webhook import Webhook

    client = client or HttpClient(Guard.from_environment())
    channels.add(Webhook(client, secret=secret), "http", "https")
    channels.ask_where_subscriptions_say(SubscriptionLookUps(client))
    for profile in profiles:
        channels.add(endpoint(profile, client), profile.url, **profile.policy)
        if profile.for_subscriptions:
            channels.open_to_subscriptions(profile.url)
    return channels
