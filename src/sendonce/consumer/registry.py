"""Which functions handle what comes from where. Users add theirs with a decorator."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from sendonce.consumer.incoming import LARGEST_BODY, Taken
from sendonce.domain.policies import DEFAULT_POLICY, Policy, override
from sendonce.domain.texts import nearest
from sendonce.errors import ConfigError

Handler = TypeVar("Handler", bound=Callable[..., Any])
SCHEMES = ("amqp", "kafka", "nats", "redis")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_ADDRESS = re.compile(r"([a-z]+):([^/\s]+)/(\S+)")


_LIMITS = {"prefetch": 10_000, "concurrency": 1_000, "most_lost": 100, "largest_body": 100_000_000}


def check_settings(settings: Mapping[str, object]) -> None:
    """Raise ConfigError, beginning with its name, for a value that no consumer can have."""
    for name, value in settings.items():
        if name == "source":
            found = _ADDRESS.fullmatch(str(value))
            if found is None or found[1] not in SCHEMES:
                raise ConfigError(
                    "source must be like nats:PROFILE/STREAM, amqp:PROFILE/QUEUE, kafka:PROFILE/TOPIC or"
                    f" redis:PROFILE/STREAM, not {str(value)[:120]!r}"
                )
        elif name in _LIMITS and (type(value) is not int or not 1 <= value <= _LIMITS[name]):
            raise ConfigError(f"{name} must be from 1 to {_LIMITS[name]}, not {value!r}")


class Mode(StrEnum):
    """What becomes of a message whose handler raises."""

    ONCE = "once"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """One handler of one source.

    `retry`: what fails comes again from our own tables by the policy, then it is a dead letter. `once`: what fails is
    a dead letter at once. `prefetch` messages are in hand at most, `concurrency` of them are handled at once. After
    `most_lost` tries that nobody finished, a message is poison. `begin` gives the application's own transactions,
    else they are on the consumer's database; `id_of`, the id where it is not where the broker has it.
    """

    name: str
    source: str
    handler: Callable[..., Any] = field(repr=False)
    mode: Mode = Mode.RETRY
    prefetch: int = 64
    concurrency: int = 8
    most_lost: int = 3
    largest_body: int = LARGEST_BODY
    policy: Policy = DEFAULT_POLICY
    begin: Callable[[], Any] | None = field(default=None, repr=False)
    id_of: Callable[[Taken], str | None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ConfigError(f"a consumer's name has up to 100 letters, digits, - and _; {self.name[:120]!r} is none")
        try:
            check_settings({"source": self.source, **{name: getattr(self, name) for name in _LIMITS}})
        except ConfigError as error:
            raise ConfigError(f"consumer {self.name}: {error}") from None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.handler)

    @property
    def scheme(self) -> str:
        return self.source.partition(":")[0]

    @property
    def profile(self) -> str:
        """The name in [nats.NAME] and the like."""
        return self.source.partition(":")[2].partition("/")[0]

    @property
    def path(self) -> str:
        """The stream, queue or topic."""
        return self.source.partition("/")[2]

    def override(self, settings: Mapping[str, Any]) -> "Consumer":
        """Return this one as the settings say; ConfigError for one that cannot be."""
        given = dict(settings)
        policy = override(self.policy, given.pop("policy", None) or {})
        if "mode" in given:
            given["mode"] = _mode(self.name, given["mode"])
        return replace(self, policy=policy, **given)


class Consumers:
    """The consumers of one process, by name.

    >>> consumers = Consumers()
    >>> @consumers.consumer("wallet", "nats:main/payments", mode="retry")
    ... async def deduct(connection, message):
    ...     ...
    """

    def __init__(self) -> None:
        self._consumers: dict[str, Consumer] = {}

    def consumer(
        self,
        name: str,
        source: str,
        *,
        mode: Mode | str = Mode.RETRY,
        prefetch: int = 64,
        concurrency: int = 8,
        most_lost: int = 3,
        largest_body: int = LARGEST_BODY,
        begin: Callable[[], Any] | None = None,
        id_of: Callable[[Taken], str | None] | None = None,
        **policy: object,
    ) -> Callable[[Handler], Handler]:
        """Register a function that is called as handler(connection, message), async or not.

        What it does on that connection commits with the message's receipt: once, however often the message comes.
        """

        def register(handler: Handler) -> Handler:
            _check(name, handler)
            if name in self._consumers:
                raise ConfigError(f"there are two consumers named {name}; a name is what receipts are known by")
            self._consumers[name] = Consumer(
                name=name,
                source=source,
                handler=handler,
                mode=_mode(name, mode),
                prefetch=prefetch,
                concurrency=concurrency,
                most_lost=most_lost,
                largest_body=largest_body,
                policy=override(DEFAULT_POLICY, policy),
                begin=begin,
                id_of=id_of,
            )
            return handler

        return register

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers.values())

    def named(self, names: Iterable[str] = ()) -> list[Consumer]:
        """Return those with these names, or all of them; ConfigError for a name that nobody has, or when none is."""
        if not self._consumers:
            raise ConfigError("there are no consumers; add one with @consumers.consumer(name, source)")
        wanted = list(dict.fromkeys(names)) or list(self._consumers)
        for name in wanted:
            if name not in self._consumers:
                raise ConfigError(f"there is no consumer {name}; {nearest(name, sorted(self._consumers))}")
        return [self._consumers[name] for name in wanted]


def _mode(name: str, mode: object) -> Mode:
    try:
        return Mode(str(mode))
    except ValueError:
        raise ConfigError(f"consumer {name}: mode is once or retry, not {mode!r}") from None


def _check(name: str, handler: Callable[..., Any]) -> None:
    try:
        inspect.signature(handler).bind(None, None)
    except TypeError:
        raise ConfigError(
            f"consumer {name}: a handler is called as handler(connection, message), and"
            f" {getattr(handler, '__qualname__', handler)} cannot be"
        ) from None
