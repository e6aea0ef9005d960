"""Which mail server mails go through, and as whom. Checked when it is made; the password is never shown."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, get_args
from urllib.parse import SplitResult, unquote, urlsplit

from sendonce.domain.emails import parse_mailbox
from sendonce.errors import BadDestination, ConfigError

Security = Literal["starttls", "tls", "plain"]
_SCHEMES: dict[str, tuple[Security, int]] = {
    "smtp": ("starttls", 587),
    "smtps": ("tls", 465),
    "smtp+plain": ("plain", 25),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    """`sender` is who mails are from when they do not say so themselves; `pool`, how many connections are kept open.

    `ca` is a file with the certificates to trust instead of the system's; `local_hostname`, what we call ourselves
    (the sender's domain when it is not given).
    """

    host: str
    port: int
    sender: str
    security: Security = "starttls"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    pool: int = 10
    local_hostname: str | None = None
    ca: str | None = None

    def __post_init__(self) -> None:
        if not self.host or not self.host.isascii() or any(each <= " " for each in self.host):
            raise ConfigError("smtp host must be the name or address of a mail server, like mail.example.com")
        if type(self.port) is not int or not 1 <= self.port <= 65535:
            raise ConfigError(f"smtp port must be from 1 to 65535, not {self.port!r}")
        if self.security not in get_args(Security):
            raise ConfigError(f"smtp security must be starttls, tls or plain, not {self.security!r}")
        if type(self.pool) is not int or not 1 <= self.pool <= 1000:
            raise ConfigError(f"smtp pool must be from 1 to 1000 connections, not {self.pool!r}")
        self._check_credentials()
        self._check_names()

    @property
    def hello(self) -> str:
        """Return our name in EHLO."""
        return self.local_hostname or parse_mailbox("sender", self.sender).domain

    @classmethod
    def parse_url(
        cls, url: str, *, sender: str, password: str | None = None, pool: int = 10, ca: str | None = None
    ) -> "SmtpSettings":
        """Read `smtp://user:password@host:587` (STARTTLS), `smtps://…` (TLS) or `smtp+plain://…` (no TLS)."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ConfigError("the smtp url is not valid; write it like smtp://user@mail.example.com:587") from None
        if parts.scheme not in _SCHEMES or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            raise ConfigError(
                "the smtp url must be like smtp://user@mail.example.com:587 (STARTTLS), smtps://… (TLS)"
                " or smtp+plain://… (no TLS)"
            )
        security, usual_port = _SCHEMES[parts.scheme]
        user, own_password = _credentials(parts)
        return cls(
            host=parts.hostname,
            port=port or usual_port,
            sender=sender,
            security=security,
            user=user,
            password=password if password is not None else own_password,
            pool=pool,
            ca=ca,
        )

    def _check_credentials(self) -> None:
        if (self.user is None) != (self.password is None):
            raise ConfigError("smtp user and password must be given together")
        if self.user is not None and self.security == "plain" and not _is_loopback(self.host):
            raise ConfigError("smtp+plain would send the password unencrypted; use smtp:// (STARTTLS) or smtps://")

    def _check_names(self) -> None:
        try:
            sender = parse_mailbox("the sender of mails", self.sender)
        except BadDestination as error:
            raise ConfigError(str(error)) from None
        if not sender.address.isascii():
            raise ConfigError("the sender of mails must have an ASCII address: not every server takes another")
        own = self.local_hostname
        if own is not None and (not own or not own.isascii() or any(each <= " " for each in own)):
            raise ConfigError("smtp local_hostname must be a host name, like app.example.com")


def _credentials(parts: SplitResult) -> tuple[str | None, str | None]:
    user = unquote(parts.username) if parts.username else None
    return user, unquote(parts.password) if parts.password is not None else None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
