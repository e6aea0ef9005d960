"""The consumers of a process: an application's own, as the settings say, each with its source."""

from collections.abc import Iterable

from sendonce.config.apps import load_app
from sendonce.config.load import Settings
from sendonce.consumer.registry import Consumer, Consumers
from sendonce.consumer.sources.build import build_source
from sendonce.consumer.sources.protocol import Source
from sendonce.domain.texts import nearest
from sendonce.errors import ConfigError


def load_consumers(app: str) -> Consumers:
    """Return the registry that `app` names as module:attribute; ConfigError says why there is none."""
    return load_app(app, Consumers, "sendonce.consumer.Consumers")


def consumers_of(settings: Settings, own: Consumers, names: Iterable[str] = ()) -> list[tuple[Consumer, Source]]:
    """Return those with these names, or all; what the settings say of one overrides what its application says."""
    known = sorted(each.name for each in own)
    for name in settings.consumers:
        if known and name not in known:
            raise ConfigError(f"[consumers.{name}]: the application has no consumer {name}; {nearest(name, known)}")
    found = [each.override(settings.consumers.get(each.name, {})) for each in own.named(names)]
    return [(each, _source_of(settings, each)) for each in found]


def _source_of(settings: Settings, consumer: Consumer) -> Source:
    wanted = f"{consumer.scheme}:{consumer.profile}/"
    for profile in settings.brokers:
        if profile.beginning == wanted:
            return build_source(consumer, profile)
    there = sorted(f"[{each.table}]" for each in settings.brokers)
    hint = nearest(f"[{consumer.scheme}.{consumer.profile}]", there) if there else "it says where the broker is"
    raise ConfigError(
        f"consumer {consumer.name}: the settings have no table [{consumer.scheme}.{consumer.profile}]; {hint}"
    )
