"""The page about settings says of every setting what the catalogue says, and its example can be read."""

import re
import tomllib
from pathlib import Path

import pytest

from sendonce.config.catalogue import TABLES, spelled_default
from sendonce.config.channels import channels_of
from sendonce.config.load import load
from sendonce.config.types import Setting
from sendonce.sealing import new_key
from sendonce.signing import new_secret

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "settings.md").read_text("utf-8")
SMS = "twilio://AC0123456789abcdef0123456789abcdef:0123456789abcdef0123456789abcdef@+15005550006/{address}"

# Apprise's plug-ins import what Python will lose; that is theirs to change.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def example() -> str:
    [found] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def row_of(setting: Setting) -> str:
    spelled = spelled_default(setting)
    default = "required" if setting.is_required else f"`{spelled}`" if spelled else "none"
    variable = f"`{setting.environment}` |" if setting.environment else "|"
    return f"| `{setting.key}` | {default} | {variable} {setting.about} |"


@pytest.mark.parametrize("table", TABLES)
def test_page_says_what_the_catalogue_says(table: str) -> None:
    [section] = re.findall(rf"^## `\[{table}(?:\.[A-Z]+)?\]`\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)

    rows = [line for line in section.splitlines() if line.startswith("| `")]

    assert rows == [row_of(setting) for setting in TABLES[table].values()]


def test_table_but_the_providers_is_in_the_example() -> None:
    assert TABLES.keys() - tomllib.loads(example()).keys() == {"postmark", "resend"}


async def test_example_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "sendonce.toml"
    path.write_text(example())
    environment = {
        "DATABASE_URL": "postgresql://app@localhost/shop",
        "SECRETS_KEY": new_key(),
        "WEBHOOK_SECRET": new_secret(),
        "RUNNER_TOKEN": "token",
        "SMTP_PASSWORD": "password",
        "SMS_URL": SMS,
        "BROKER_PASSWORD": "password",
    }

    settings = load(path, environment)
    channels = channels_of(settings)

    http = ["http", "https", "https://runner.example/jobs/"]
    brokers = {"amqp:main/", "kafka:main/", "nats:main/", "redis:main/"}
    assert set(channels.settings()) == {*http, *brokers, "mailto", "null", "sms"}
    assert channels.can_look_up("https://runner.example/jobs/7")
    assert settings.alerts.mail == "mailto:oncall@example.com"
    await channels.close()


def test_page_about_alerts_names_every_condition() -> None:
    page = (DOCS / "how-to" / "alerts.md").read_text("utf-8")

    for name in (
        "dead_letters",
        "oldest_due",
        "oldest_open",
        "breakers",
        "in_doubt",
        "commits_lost",
        "findings",
        "our_credentials",
    ):
        assert f"| `{name}" in page
