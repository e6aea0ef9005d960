"""What the tables become that describe what is sent, and through what.

A part that needs another package is imported only when it is used.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sendonce.channels.http.guard import Guard
from sendonce.config.given import Everything
from sendonce.config.model import MailSettings
from sendonce.config.outside import WAYS
from sendonce.config.values import Table
from sendonce.domain.serving import Serving
from sendonce.errors import ConfigError
from sendonce.sealing import SecretBox

if TYPE_CHECKING:
    from sendonce.channels.apprise import AppriseSettings
    from sendonce.channels.email.postmark import PostmarkSettings
    from sendonce.channels.email.resend import ResendSettings
    from sendonce.channels.email.smtp_settings import SmtpSettings
    from sendonce.channels.http.endpoint import HttpProfile


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


@contextmanager
def _needing(table: Table, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sendonce"):
            raise
        raise ConfigError(f"[{table.name}] needs: pip install 'sendonce[{extra}]'") from None
