"""Everything that options, the environment and the settings file say, checked, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sendonce.channels.http.guard import Guard
from sendonce.domain.policies import DEFAULT_POLICY, Policy
from sendonce.engine.alerts import AlertSettings
from sendonce.engine.auditing import AuditSettings
from sendonce.engine.config import WorkerConfig
from sendonce.engine.retention import RetentionSettings
from sendonce.observability.log_settings import LogSettings
from sendonce.sealing import SecretBox
from sendonce.store.urls import DEFAULT_DATABASE

if TYPE_CHECKING:
    from sendonce.channels.apprise import AppriseSettings
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
class Settings:
    """Without a settings file it is what the environment says, and else the defaults.

    `channel_policies` has, by scheme, what goes over a channel's own policy; `metrics` is where they are served.
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
