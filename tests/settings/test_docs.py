"""The page about settings names every key with its default, and its example can be read."""

import re
import tomllib
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from sendonce.channels.signing import new_secret
from sendonce.domain.durations import parse_duration
from sendonce.engine.alerts import AlertSettings
from sendonce.sealing import new_key
from sendonce.settings.channels import channels_of
from sendonce.settings.load import load
from sendonce.settings.tables import KEYS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "settings.md").read_text("utf-8")
SMS = "twilio://AC0123456789abcdef0123456789abcdef:0123456789abcdef0123456789abcdef@+15005550006/{address}"

# Apprise's plug-ins import what Python will lose; that is theirs to change.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def example() -> str:
    [found] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def documented(table: str) -> dict[str, str]:
    """The keys of a table's section and the defaults beside them."""
    [section] = re.findall(rf"^## `\[{table}(?:\.[A-Z]+)?\]`\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE))


@pytest.mark.parametrize("table", KEYS)
def test_every_key_is_named_and_no_other(table: str) -> None:
    assert tuple(documented(table)) == KEYS[table]


def test_every_table_but_the_providers_is_in_the_example() -> None:
    assert KEYS.keys() - tomllib.loads(example()).keys() == {"postmark", "resend"}


async def test_the_example_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "sendonce.toml"
    path.write_text(example())
    environment = {
        "SECRETS_KEY": new_key(),
        "WEBHOOK_SECRET": new_secret(),
        "RUNNER_TOKEN": "token",
        "SMTP_PASSWORD": "password",
        "SMS_URL": SMS,
    }

    settings = load(path, environment)
    channels = channels_of(settings)

    assert sorted(channels.settings()) == ["http", "https", "https://runner.example/jobs/", "mailto", "null", "sms"]
    assert channels.can_look_up("https://runner.example/jobs/7")
    assert settings.alerts.mail == "mailto:oncall@example.com"
    await channels.close()


def test_the_defaults_of_alerts_are_those_of_the_page() -> None:
    defaults = {field.name: field.default for field in fields(AlertSettings)}
    for key, shown in documented("alerts").items():
        found = defaults["webhook_secret" if key == "secret" else key]
        value = None if shown == "none" else tomllib.loads(f"a = {shown.strip('`')}")["a"]
        assert found == (parse_duration(value) if isinstance(found, timedelta) else value), key


def test_the_page_about_alerts_names_every_condition() -> None:
    page = (DOCS / "alerts.md").read_text("utf-8")

    for name in ("dead_letters", "oldest_due", "in_doubt", "findings", "our_credentials"):
        assert f"| `{name}" in page
