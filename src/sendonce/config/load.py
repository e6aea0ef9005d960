"""Read all settings, or just the few that a command needs, into checked values."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sendonce.channels.http.guard import Guard
from sendonce.config.schema_channels import WAYS
from sendonce.config.sources import Everything, Options, Table, database_of
from sendonce.config.sources import find as find
from sendonce.config.types import NEVER
from sendonce.consumer.config import ConsumeConfig
from sendonce.consumer.registry import check_settings
from sendonce.domain.destinations import BROKERS
from sendonce.domain.durations import parse_duration
from sendonce.domain.policies import DEFAULT_POLICY, Policy, override
from sendonce.domain.serving import Serving
from sendonce.engine.alerts import AlertSettings
from sendonce.engine.audits import AuditSettings
from sendonce.engine.config import BREAKER_LONGEST, LogSettings, WorkerConfig, check_timeout
from sendonce.engine.retention import InboxSettings, RetentionSettings
from sendonce.errors import ConfigError
from sendonce.sealing import SecretBox
from sendonce.store.urls import DEFAULT_DATABASE

if TYPE_CHECKING:
    from sendonce.channels.apprise import AppriseSettings
    from sendonce.channels.brokers.profile import BrokerProfile
    from sendonce.channels.email.postmark import PostmarkSettings
    from sendonce.channels.email.resend import ResendSettings
    from sendonce.channels.email.smtp_settings import SmtpSettings
    from sendonce.channels.http.endpoint import HttpProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """How mailto: is reached: one of three ways."""

    smtp: "SmtpSettings | None" = None
    postmark: "PostmarkSettings | None" = None
    resend: "ResendSettings | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeSettings:
    """Of a process of consumers: which application's, and where its metrics are served."""

    app: str | None = None
    metrics: tuple[str, int] | None = None
    config: ConsumeConfig = field(default_factory=ConsumeConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Without a settings file it is what the environment says, and else the defaults.

    `channel_policies` has, by scheme, what goes over a channel's own policy; `consumers`, by name, what goes over what
    their application says; `metrics` is where they are served.
    """

    database: str = field(default=DEFAULT_DATABASE, repr=False)
    listen_database: str | None = field(default=None, repr=False)
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    notify: bool = False
    metrics: tuple[str, int] | None = None
    app: str | None = None
    policy: Policy = DEFAULT_POLICY
    channel_policies: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    log: LogSettings = field(default_factory=LogSettings)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    guard: Guard = field(default_factory=Guard)
    name_servers: tuple[str, ...] = ()
    sealer: SecretBox = field(default_factory=SecretBox)
    webhook_secret: str | None = field(default=None, repr=False)
    profiles: "tuple[HttpProfile, ...]" = ()
    mail: MailSettings | None = None
    apprise: "tuple[AppriseSettings, ...]" = ()
    brokers: "tuple[BrokerProfile, ...]" = ()
    consume: ConsumeSettings = field(default_factory=ConsumeSettings)
    consumers: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def guard(table: Table) -> Guard:
    """The networks that may be dialled."""
    networks = table.get("allow") or ()
    try:
        return Guard.parse(",".join(networks))
    except ConfigError as error:
        table.refuse("allow", f"cannot be used: {error}")


def name_servers(table: Table) -> tuple[str, ...]:
    """The name servers to ask instead of the system's."""
    servers = tuple(table.get("name_servers") or ())
    if servers:
        with _needing(table, "http"):
            from sendonce.channels.http.dial import checked_server
        try:
            return tuple(map(checked_server, servers))
        except ConfigError as error:
            table.refuse("name_servers", f"cannot be used: {error}")
    return servers


def sealer(table: Table) -> SecretBox:
    """What seals secrets at rest, with the newest key first."""
    keys = table.get("keys") or ()
    try:
        return SecretBox(keys)
    except ConfigError as error:
        table.refuse("keys", f"cannot be used: {error}")


def profiles(tables: Sequence[Table]) -> "tuple[HttpProfile, ...]":
    """The HTTP endpoints with names; two cannot serve the same addresses."""
    found: dict[str, HttpProfile] = {}
    for table in tables:
        made = profile(table)
        if made.url in found:
            table.refuse("url", f"is that of [http.{found[made.url].name}] too; leave one of them out")
        found[made.url] = made
    return tuple(found.values())


def profile(table: Table) -> "HttpProfile":
    """An HTTP endpoint with a name, which serves every address below its url."""
    with _needing(table, "http"):
        from sendonce.channels.http.endpoint import HttpProfile
    table.needed("url")
    with table.reading():
        return HttpProfile(name=table.name.removeprefix("http."), **table.values())


def mail(everything: Everything) -> MailSettings | None:
    """How mailto: is reached, if at all: as [mail] says, else by the one way that is described."""
    table = everything.table("mail")
    ways = {way: everything.table(way) for way in WAYS}
    described = [name for name, way in ways.items() if name in everything or way.given]
    if "mail" not in everything and not described:
        return None
    through = table.get("through") or (described[0] if len(described) == 1 else WAYS[0])
    sender = table.needed("sender")
    match through:
        case "smtp":
            return MailSettings(smtp=_smtp(ways[through], sender))
        case "postmark":
            return MailSettings(postmark=_postmark(ways[through], sender))
        case _:
            return MailSettings(resend=_resend(ways[through], sender))


def _smtp(table: Table, sender: str) -> "SmtpSettings":
    with _needing(table, "email"):
        import_module("sendonce.channels.email.smtp")
    from sendonce.channels.email.smtp_settings import SmtpSettings

    table.needed("url")
    with table.reading():
        return SmtpSettings.parse_url(sender=sender, **table.values())


def _postmark(table: Table, sender: str) -> "PostmarkSettings":
    with _needing(table, "http"):
        from sendonce.channels.email.postmark import PostmarkSettings
    table.needed("token")
    with table.reading():
        return PostmarkSettings(sender=sender, **table.values())


def _resend(table: Table, sender: str) -> "ResendSettings":
    with _needing(table, "http"):
        from sendonce.channels.email.resend import ResendSettings
    table.needed("key")
    with table.reading():
        return ResendSettings(sender=sender, **table.values())


def apprise(table: Table) -> "AppriseSettings":
    """A scheme of the long tail: sms, push, chat."""
    from sendonce.channels.apprise import AppriseSettings

    scheme = table.name.removeprefix("apprise.")
    with table.reading():
        if scheme in ("null", "http", "https", "mailto"):
            raise ConfigError(f"{scheme}: has a channel of its own; take another name, like sms")
        Serving([scheme])
        return AppriseSettings(scheme=scheme, url=table.needed("url"))


def broker(table: Table, timeout: timedelta) -> "BrokerProfile":
    """A message broker with a name; its extra has the name of its scheme. `timeout` is that of [policy]."""
    scheme, _, name = table.name.partition(".")
    with _needing(table, scheme):
        module = import_module(f"sendonce.channels.brokers.{scheme}")
    profile: type[BrokerProfile] = getattr(module, f"{scheme.capitalize()}Profile")
    table.needed("servers" if scheme == "kafka" else "url")
    values = table.values()
    if "servers" in values:
        values["servers"] = tuple(values["servers"])
    with table.reading():
        made = profile(name=name, **values)
        own = made.policy.get("timeout")
        made.check_timeout(timeout if own is None else parse_duration(own))
    return made


@contextmanager
def _needing(table: Table, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sendonce"):
            raise
        raise ConfigError(f"[{table.name}] needs: pip install 'sendonce[{extra}]'") from None


NO_OPTIONS: Options = {}


def load(path: Path | None, environment: Mapping[str, str], options: Options = NO_OPTIONS) -> Settings:
    """Everything, checked; ConfigError says where the value stands that is wrong, and never shows a secret.

    Options are those of the command line that were given, by their names: {"--lease": "1m"}.
    """
    return settings_of(Everything(path, environment, options))


def load_sealer(path: Path | None, environment: Mapping[str, str]) -> SecretBox:
    """What seals secrets, and nothing else: for commands that send nothing."""
    return sealer(Everything(path, environment, NO_OPTIONS).table("secrets"))


def load_retention(path: Path | None, environment: Mapping[str, str]) -> RetentionSettings:
    """How long things are kept, and nothing else."""
    return _retention(Everything(path, environment, NO_OPTIONS))


def load_limits(path: Path | None, environment: Mapping[str, str]) -> tuple[timedelta, timedelta]:
    """How long a lease holds and a send may take, and nothing else."""
    everything = Everything(path, environment, NO_OPTIONS)
    return _worker(everything.table("worker")).lease, _policy(everything.table("policy")).timeout


def settings_of(everything: Everything) -> Settings:
    """What was given, as values."""
    worker = everything.table("worker")
    instance = everything.table("database").get("instance")
    config, policy = replace(_worker(worker), instance=instance), _policy(everything.table("policy"))
    check_timeout(config, policy)
    ours = {key: worker.get(key) for key in ("notify", "metrics", "app") if key in worker.given}
    return Settings(
        database=database_of(everything),
        listen_database=everything.table("database").get("listen_url"),
        worker=config,
        policy=policy,
        channel_policies={
            table.name.removeprefix("policy."): _channel_policy(table, policy) for table in everything.inner("policy")
        },
        retention=_retention(everything),
        audit=_audit(everything.table("reconcile")),
        log=LogSettings(**everything.table("log").values()),
        alerts=_alerts(everything.table("alerts")),
        guard=guard(everything.table("network")),
        name_servers=name_servers(everything.table("network")),
        sealer=sealer(everything.table("secrets")),
        webhook_secret=everything.table("webhooks").get("secret"),
        profiles=profiles(everything.inner("http")),
        mail=mail(everything),
        apprise=tuple(apprise(table) for table in everything.inner("apprise")),
        brokers=tuple(broker(table, policy.timeout) for name in BROKERS for table in everything.inner(name)),
        consume=_consume(everything.table("consume")),
        consumers={table.name.removeprefix("consumers."): _consumer(table) for table in everything.inner("consumers")},
        **ours,
    )


def _worker(table: Table) -> WorkerConfig:
    values = {key: table.get(key) for key in table.given if table.settings[key].part}
    if pause := values.get("breaker_pause"):
        values["breaker_longest"] = max(BREAKER_LONGEST, pause)
    with table.reading():
        return WorkerConfig(**values)


def _policy(table: Table) -> Policy:
    with table.reading():
        return override(DEFAULT_POLICY, table.values())


def _channel_policy(table: Table, policy: Policy) -> dict[str, object]:
    values = table.values()
    with table.reading():
        Serving([table.name.removeprefix("policy.")])
        override(policy, values)
    return values


def _consume(table: Table) -> ConsumeSettings:
    values = table.values()
    with table.reading():
        config = ConsumeConfig(**{key: values.pop(key) for key in ("grace",) if key in values})
    return ConsumeSettings(config=config, **values)


def _consumer(table: Table) -> dict[str, object]:
    values = table.values()
    with table.reading():
        check_settings(values)
    return values


def _retention(everything: Everything) -> RetentionSettings:
    inbox, table = everything.table("inbox"), everything.table("retention")
    with inbox.reading():
        receipts = InboxSettings(**_ages(inbox))
    with table.reading():
        return RetentionSettings(**_ages(table), inbox=receipts)


def _ages(table: Table) -> dict[str, Any]:
    return {key: None if value == NEVER else value for key, value in table.values().items()}


def _audit(table: Table) -> AuditSettings:
    with table.reading():
        return AuditSettings(**table.values())


def _alerts(table: Table) -> AlertSettings:
    with table.reading():
        return AlertSettings(**table.values())
