"""The settings of the mail server: read from a URL, checked, and never showing the password."""

from pathlib import Path
from typing import Any

import pytest

from sendonce.channels.email.smtp import POLICY, SmtpChannel
from sendonce.channels.email.smtp_settings import SmtpSettings
from sendonce.channels.registry import Channels
from sendonce.domain.policies import DEFAULT_POLICY, IfUnsure, override
from sendonce.errors import ConfigError

SENDER = "Shop <shop@example.com>"


@pytest.mark.parametrize(
    ("url", "host", "port", "security", "user", "password"),
    [
        ("smtp://mail.example.com", "mail.example.com", 587, "starttls", None, None),
        ("smtp://shop:s%40cret@mail.example.com:2525", "mail.example.com", 2525, "starttls", "shop", "s@cret"),
        ("smtps://shop%40example.com:x@mail.example.com/", "mail.example.com", 465, "tls", "shop@example.com", "x"),
        ("smtp+plain://127.0.0.1:1025", "127.0.0.1", 1025, "plain", None, None),
        ("smtp+plain://a:b@[::1]", "::1", 25, "plain", "a", "b"),
    ],
)
def test_urls(url: str, host: str, port: int, security: str, user: str | None, password: str | None) -> None:
    settings = SmtpSettings.parse_url(url, sender=SENDER)

    assert (settings.host, settings.port, settings.security) == (host, port, security)
    assert (settings.user, settings.password) == (user, password)
    assert settings.hello == "example.com"


def test_password_of_its_own_goes_before_the_one_in_the_url() -> None:
    settings = SmtpSettings.parse_url("smtp://shop:a@mail.example.com", sender=SENDER, password="b", pool=3)

    assert (settings.password, settings.pool) == ("b", 3)


def test_password_is_never_shown() -> None:
    assert "s3cret" not in repr(SmtpSettings.parse_url("smtp://shop:s3cret@mail.example.com", sender=SENDER))


@pytest.mark.parametrize(
    "url", ["mail.example.com", "http://mail.example.com", "smtp://", "smtp://a:s3cret@h:port", "smtp://a:s3cret@h/x"]
)
def test_smtp_url_that_is_invalid_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigError, match=r"smtp://user@mail\.example\.com:587") as raised:
        SmtpSettings.parse_url(url, sender=SENDER)

    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"host": ""}, "smtp host"),
        ({"host": "a b"}, "smtp host"),
        ({"port": 0}, "smtp port must be from 1 to 65535, not 0"),
        ({"port": "25"}, "smtp port"),
        ({"security": "ssl"}, "starttls, tls or plain"),
        ({"pool": 0}, "smtp pool must be from 1 to 1000"),
        ({"user": "shop"}, "given together"),
        ({"password": "x"}, "given together"),
        ({"security": "plain", "user": "shop", "password": "x"}, "unencrypted"),
        ({"sender": "nobody"}, "the sender of mails must be like"),
        ({"sender": "ügür@example.com"}, "ASCII"),
        ({"local_hostname": "a b"}, "local_hostname"),
    ],
)
def test_smtp_settings_that_are_invalid_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        SmtpSettings(**{"host": "mail.example.com", "port": 587, "sender": SENDER, **changes})


def test_certificates_that_cannot_be_read_are_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.pem cannot be read"):
        SmtpChannel(SmtpSettings(host="mail.example.com", port=587, sender=SENDER, ca=str(tmp_path / "nowhere.pem")))


def test_mail_that_may_have_been_sent_is_held_for_a_person() -> None:
    channels = Channels()
    channels.add(SmtpChannel(SmtpSettings(host="mail.example.com", port=587, sender=SENDER)), "mailto", **POLICY)

    assert override(DEFAULT_POLICY, channels.settings()["mailto"]).if_unsure is IfUnsure.HOLD
    assert channels.can_look_up("mailto:ada@example.com") is False
