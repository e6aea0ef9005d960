"""The channels of a worker, built from its settings and from its application's own."""

from typing import TYPE_CHECKING

from sendonce.channels.registry import Channels, builtin, has_http
from sendonce.config.apps import load_app
from sendonce.config.load import MailSettings, Settings
from sendonce.domain.policies import override
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from sendonce.channels.http.client import HttpClient


def load_channels(app: str) -> Channels:
    """The registry that `app` names as module:attribute; ConfigError says why there is none."""
    return load_app(app, Channels, "sendonce.channels.Channels")


def channels_of(settings: Settings, own: Channels | None = None) -> Channels:
    """Return the channels that come with sendonce, the named HTTP endpoints, mailto: and Apprise, as configured.

    Those of an application, `own` or named by the settings, replace these; what the settings say of a channel's
    policy overrides its own.
    They share one client: everything that goes out over HTTP passes the same guard.
    """
    client = _client(settings)
    channels = builtin(client=client, secret=settings.webhook_secret, profiles=settings.profiles)
    if settings.mail is not None:
        _add_mail(channels, settings.mail, client)
    for each in settings.apprise:
        from sendonce.channels.apprise import POLICY, AppriseChannel

        channels.add(AppriseChannel(each), each.scheme, **POLICY)
    for profile in settings.brokers:
        channels.add(profile.channel(), profile.beginning, **profile.policy)
    for theirs in (None if settings.app is None else load_channels(settings.app), own):
        if theirs is not None:
            channels.update(theirs)
    for scheme, policy in settings.channel_policies.items():
        channels.set_policy(scheme, policy)
    _check_policies(channels, settings)
    return channels


def _check_policies(channels: Channels, settings: Settings) -> None:
    """Each is good by itself; together with the default they may not be."""
    for name, policy in channels.settings().items():
        try:
            override(settings.policy, policy)
        except ConfigError as error:
            raise ConfigError(f"the policy of {name} does not go with [policy]: {error}") from None


def _client(settings: Settings) -> "HttpClient | None":
    if not has_http():
        return None
    from sendonce.channels.http.client import HttpClient

    return HttpClient(settings.guard, name_servers=settings.name_servers)


def _add_mail(channels: Channels, mail: MailSettings, client: "HttpClient | None") -> None:
    """Each way has a policy of its own, and holds what may have been sent."""
    if mail.smtp is not None:
        from sendonce.channels.email import smtp as smtp

        channels.add(smtp.SmtpChannel(mail.smtp), "mailto", **smtp.POLICY)
    if client is None:
        return
    from sendonce.channels.email import postmark, resend
    from sendonce.channels.email.api import MailApi

    if mail.postmark is not None:
        api = MailApi(postmark.Postmark(mail.postmark), client, sender=mail.postmark.sender)
        channels.add(api, "mailto", **postmark.POLICY)
    if mail.resend is not None:
        api = MailApi(resend.Resend(mail.resend), client, sender=mail.resend.sender)
        channels.add(api, "mailto", **resend.POLICY)
