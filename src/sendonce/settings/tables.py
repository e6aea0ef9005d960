"""What each table of the settings file becomes. A part that needs another package is imported only when it is used."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from sendonce.channels.guard import VARIABLE as NETWORKS
from sendonce.channels.guard import Guard
from sendonce.channels.serving import Serving
from sendonce.channels.signing import key_of
from sendonce.domain.destinations import normalise, scheme_of
from sendonce.engine.alerts import AlertSettings
from sendonce.errors import BadDestination, ConfigError
from sendonce.sealing import VARIABLE as SECRET_KEYS
from sendonce.sealing import Sealer
from sendonce.settings.model import MailSettings
from sendonce.settings.values import Table
from sendonce.stores.records import READING_CAP

if TYPE_CHECKING:
    from sendonce.channels.apprise import AppriseSettings
    from sendonce.channels.http import HttpProfile
    from sendonce.channels.postmark import PostmarkSettings
    from sendonce.channels.resend import ResendSettings
    from sendonce.channels.smtp import SmtpSettings

SMTP_URL = "SENDONCE_SMTP_URL"
SENDER = "SENDONCE_MAIL_SENDER"
MISSING_SENDER = f'is missing; write sender = "Shop <shop@example.com>", or set {SENDER}'
# Every table with its keys; those of http and apprise stand in tables of their own, like [http.shop].
KEYS = {
    "network": ("allow",),
    "secrets": ("keys",),
    "webhooks": ("secret",),
    "http": (
        "url", "bearer", "headers", "look_up", "id_header", "id_field", "remembers", "certificate", "ca", "policy",
    ),
    "mail": ("through", "sender", "policy"),
    "smtp": ("url", "password", "pool", "ca"),
    "postmark": ("token", "stream", "url", "remembers"),
    "resend": ("key", "url"),
    "apprise": ("url",),
    "alerts": (
        "log", "webhook", "secret", "mail", "every", "repeat", "dead_letters", "oldest_due", "in_doubt", "findings",
    ),
}  # fmt: skip
WAYS = ("smtp", "postmark", "resend")


class Tables(Protocol):
    """The file, as far as the tables for mail need it: which of them are there decides."""

    def __contains__(self, name: str) -> bool: ...

    def table(self, name: str) -> Table: ...


def guard(table: Table, environment: Mapping[str, str]) -> Guard:
    """The networks that may be dialled: those of the environment, else those of the file."""
    if environment.get(NETWORKS, "").strip():
        return Guard.from_environment(environment)
    with table.reading("allow"):
        return Guard.parse(",".join(table.texts("allow")))


def sealer(table: Table, environment: Mapping[str, str]) -> Sealer:
    """What seals secrets at rest, with the keys of the environment, else those of the file; the newest first."""
    if named := _split(environment.get(SECRET_KEYS, "")):
        try:
            return Sealer(named)
        except ConfigError as error:
            raise ConfigError(f"{SECRET_KEYS}: {error}") from None
    with table.reading("keys"):
        return Sealer([key for text in table.secrets("keys") for key in _split(text)])


def webhook_secret(table: Table, key: str = "secret") -> str | None:
    """What requests are signed with that no subscription has a secret for."""
    secret = table.secret(key)
    if secret is not None:
        with table.reading(key):
            key_of(secret)
    return secret


def profiles(named: Sequence[tuple[str, Table]]) -> "tuple[HttpProfile, ...]":
    """The HTTP endpoints with names; two cannot serve the same addresses."""
    found: dict[str, HttpProfile] = {}
    for name, table in named:
        made = profile(name, table)
        if made.url in found:
            table.refuse("url", f"is that of [http.{found[made.url].name}] too; leave one of them out")
        found[made.url] = made
    return tuple(found.values())


def profile(name: str, table: Table) -> "HttpProfile":
    """An HTTP endpoint with a name, which serves every address below its url."""
    with _needing(f"[http.{name}]", "http"):
        from sendonce.channels.http import HttpProfile
    given: dict[str, object] = {
        "bearer": table.secret("bearer"),
        "headers": table.headers("headers"),
        "look_up": table.text("look_up"),
        "id_header": table.text("id_header"),
        "id_field": table.text("id_field"),
        "remembers": table.duration("remembers"),
        "certificate": table.secret("certificate"),
        "ca": table.secret("ca"),
        "policy": table.policy(),
    }
    with table.reading():
        return HttpProfile(name=name, url=table.needed("url"), **_set(given))  # type: ignore[arg-type]


def mail(tables: Tables, environment: Mapping[str, str]) -> MailSettings | None:
    """How mailto: is reached, if at all: as [mail] says, else by the one way that is described."""
    table = tables.table("mail")
    ways = {way: tables.table(way) for way in WAYS}
    described = [way for way in WAYS if way in tables or (way == "smtp" and environment.get(SMTP_URL))]
    if "mail" not in tables and not described:
        return None
    through = table.choice("through", WAYS, described[0] if len(described) == 1 else "smtp")
    sender = table.text("sender") or environment.get(SENDER, "").strip() or table.refuse("sender", MISSING_SENDER)
    policy = table.policy()
    match through:
        case "smtp":
            return MailSettings(smtp=_smtp(ways[through], sender, environment), policy=policy)
        case "postmark":
            return MailSettings(postmark=_postmark(ways[through], sender), policy=policy)
        case _:
            return MailSettings(resend=_resend(ways[through], sender), policy=policy)


def _smtp(table: Table, sender: str, environment: Mapping[str, str]) -> "SmtpSettings":
    with _needing("[smtp]", "email"):
        from sendonce.channels.smtp import SmtpSettings
    url = environment.get(SMTP_URL, "").strip() or table.needed_secret("url")
    more = {
        "password": table.secret("password"),
        "ca": table.file("ca"),
        "pool": table.whole("pool", least=1, most=1000),
    }
    with table.reading():
        return SmtpSettings.parse_url(url, sender=sender, **_set(more))  # type: ignore[arg-type]


def _postmark(table: Table, sender: str) -> "PostmarkSettings":
    with _needing("[postmark]", "http"):
        from sendonce.channels.postmark import PostmarkSettings
    more = {key: table.text(key) for key in ("stream", "url")} | {"remembers": table.duration("remembers")}
    with table.reading():
        return PostmarkSettings(token=table.needed_secret("token"), sender=sender, **_set(more))  # type: ignore[arg-type]


def _resend(table: Table, sender: str) -> "ResendSettings":
    with _needing("[resend]", "http"):
        from sendonce.channels.resend import ResendSettings
    with table.reading():
        return ResendSettings(key=table.needed_secret("key"), sender=sender, **_set({"url": table.text("url")}))  # type: ignore[arg-type]


def apprise(scheme: str, table: Table) -> "AppriseSettings":
    """A scheme of the long tail: sms, push, chat."""
    from sendonce.channels.apprise import AppriseSettings

    with table.reading():
        if scheme in ("null", "http", "https", "mailto"):
            raise ConfigError(f"{scheme}: has a channel of its own; take another name, like sms")
        Serving([scheme])
        return AppriseSettings(scheme=scheme, url=table.needed_secret("url"))


def alerts(table: Table) -> AlertSettings:
    """Where alerts go to, and from where on."""
    given: dict[str, object] = {
        "log": table.flag("log"),
        "webhook": _destination(table, "webhook", ("http", "https")),
        "webhook_secret": webhook_secret(table),
        "mail": _destination(table, "mail", ("mailto",)),
    }
    given |= {key: table.duration(key) for key in ("every", "repeat", "oldest_due")}
    given |= {key: table.whole(key, least=0, most=READING_CAP) for key in ("dead_letters", "in_doubt", "findings")}
    with table.reading():
        return AlertSettings(**_set(given))  # type: ignore[arg-type]


def _destination(table: Table, key: str, schemes: tuple[str, ...]) -> str | None:
    """A destination in its one spelling; an address of e-mail may stand without its scheme."""
    text = table.text(key)
    if text is None:
        return None
    if "mailto" in schemes and not text.startswith("mailto:"):
        text = f"mailto:{text}"
    try:
        uri = normalise(text)
    except BadDestination as error:
        table.refuse(key, f"is no destination: {error}")
    if scheme_of(uri) not in schemes:
        table.refuse(key, f"must begin with {' or '.join(f'{each}:' for each in schemes)}")
    return uri


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _set(values: Mapping[str, object]) -> dict[str, object]:
    """Those that are given: for the others the part's own default holds."""
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def _needing(name: str, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sendonce"):
            raise
        raise ConfigError(f"{name} needs: pip install 'sendonce[{extra}]'") from None
