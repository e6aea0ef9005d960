"""Read all settings, or just the few that a command needs: options, else variables, else the file, else defaults."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sendonce.config import tables
from sendonce.config.database import database_of
from sendonce.config.files import find as find
from sendonce.config.given import Everything, Options
from sendonce.config.kinds import NEVER
from sendonce.config.model import Settings
from sendonce.config.values import Table
from sendonce.domain.policies import DEFAULT_POLICY, Policy, override
from sendonce.domain.serving import Serving
from sendonce.engine.alerts import AlertSettings
from sendonce.engine.auditing import AuditSettings
from sendonce.engine.config import BREAKER_LONGEST, WorkerConfig, check_timeout
from sendonce.engine.retention import RetentionSettings
from sendonce.observability.log_settings import LogSettings
from sendonce.sealing import SecretBox

NO_OPTIONS: Options = {}


def load(path: Path | None, environment: Mapping[str, str], options: Options = NO_OPTIONS) -> Settings:
    """Everything, checked; ConfigError says where the value stands that is wrong, and never shows a secret.

    Options are those of the command line that were given, by their names: {"--lease": "1m"}.
    """
    return settings_of(Everything(path, environment, options))


def load_sealer(path: Path | None, environment: Mapping[str, str]) -> SecretBox:
    """What seals secrets, and nothing else: for commands that send nothing."""
    return tables.sealer(Everything(path, environment, NO_OPTIONS).table("secrets"))


def load_retention(path: Path | None, environment: Mapping[str, str]) -> RetentionSettings:
    """How long things are kept, and nothing else."""
    return _retention(Everything(path, environment, NO_OPTIONS).table("retention"))


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
        retention=_retention(everything.table("retention")),
        audit=_audit(everything.table("reconcile")),
        log=LogSettings(**everything.table("log").values()),
        alerts=_alerts(everything.table("alerts")),
        guard=tables.guard(everything.table("network")),
        name_servers=tables.name_servers(everything.table("network")),
        sealer=tables.sealer(everything.table("secrets")),
        webhook_secret=everything.table("webhooks").get("secret"),
        profiles=tables.profiles(everything.inner("http")),
        mail=tables.mail(everything),
        apprise=tuple(tables.apprise(table) for table in everything.inner("apprise")),
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


def _retention(table: Table) -> RetentionSettings:
    values: dict[str, Any] = {key: None if value == NEVER else value for key, value in table.values().items()}
    with table.reading():
        return RetentionSettings(**values)


def _audit(table: Table) -> AuditSettings:
    with table.reading():
        return AuditSettings(**table.values())


def _alerts(table: Table) -> AlertSettings:
    with table.reading():
        return AlertSettings(**table.values())
