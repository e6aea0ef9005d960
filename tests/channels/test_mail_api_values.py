"""Mail providers' settings, the spellings of their addresses and times, and the documented way to register one."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sendonce.channels.email.api import as_mailbox, time_of
from sendonce.channels.email.postmark import PostmarkSettings
from sendonce.channels.email.resend import ResendSettings
from sendonce.errors import ConfigError

SENDER = "Shop <shop@example.com>"


async def test_documented_way_to_register_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/providers.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.setenv("POSTMARK_TOKEN", "token")
    names: dict[str, Any] = {}

    exec(example, names)  # noqa: S102

    channels = names["channels"]
    assert channels.can_look_up("mailto:ada@example.com")
    assert channels.settings()["mailto"]["if_unsure"] == "hold"
    await channels.close()


def test_settings_hide_their_secret() -> None:
    shown = f"{PostmarkSettings(token='hidden', sender=SENDER)} {ResendSettings(key='hidden', sender=SENDER)}"

    assert "hidden" not in shown


@pytest.mark.parametrize(
    "wrong", [{"token": ""}, {"token": "a b"}, {"token": "a\n"}, {"sender": "shop"}, {"url": "api.example.com"},
              {"url": "https://api.example.com/"}],
)  # fmt: skip
def test_settings_that_no_send_would_survive_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="Postmark"):
        PostmarkSettings(**{"token": "t", "sender": SENDER, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("shop@example.com", "shop@example.com"),
        ("Ada's Café <shop@example.com>", "Ada's Café <shop@example.com>"),
        ("Shop, Inc. <shop@example.com>", '"Shop, Inc." <shop@example.com>'),
        (r'"The \"best\" shop" <shop@example.com>', r'"The \"best\" shop" <shop@example.com>'),
    ],
)
def test_senders_name_is_quoted_where_it_must_be(given: str, written: str) -> None:
    assert as_mailbox(given) == written


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2030-01-01T07:00:00.0000000-05:00", datetime(2030, 1, 1, 12, tzinfo=UTC)),
        ("2030-01-01 12:00:00.000000+00", datetime(2030, 1, 1, 12, tzinfo=UTC)),
        ("2030-01-01T12:00:00", None),
        ("yesterday", None),
        ("9999-12-31T23:59:59-14:00", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("", None),
    ],
)
def test_times_of_providers_are_read_when_they_say_their_zone(text: str, time: datetime | None) -> None:
    assert time_of(text) == time
