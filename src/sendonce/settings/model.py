"""Everything that the settings file and the environment say, checked, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sendonce.channels.guard import Guard
from sendonce.engine.alerts import AlertSettings
from sendonce.sealing import Sealer

if TYPE_CHECKING:
    from sendonce.channels.apprise import AppriseSettings
    from sendonce.channels.guard import Guard
    from sendonce.channels.http import HttpProfile
    from sendonce.channels.postmark import PostmarkSettings
    from sendonce.channels.resend import ResendSettings
    from sendonce.channels.smtp import SmtpSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    """How mailto: is reached: one of three ways, and what is its own in the policy."""

    smtp: "SmtpSettings | None" = None
    postmark: "PostmarkSettings | None" = None
    resend: "ResendSettings | None" = None
    policy: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Without a settings file it is what the environment says, and else the defaults."""

    guard: Guard = field(default_factory=Guard)
    sealer: Sealer = field(default_factory=Sealer)
    webhook_secret: str | None = field(default=None, repr=False)
    profiles: "tuple[HttpProfile, ...]" = ()
    mail: MailSettings | None = None
    apprise: "tuple[AppriseSettings, ...]" = ()
    alerts: AlertSettings = field(default_factory=AlertSettings)
