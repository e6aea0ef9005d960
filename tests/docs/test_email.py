"""docs/how-to/email.md: its example records the mail that it shows, and its settings are settings."""

import json
import re
import sqlite3
from pathlib import Path

import pytest

from sendonce.compose import migrate
from sendonce.config.load import load
from tests.docs.test_examples import ROOT, examples

PAGE = "docs/how-to/email.md"


def test_example_records_the_mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    migrate("sqlite:///shop.db")
    names: dict[str, object] = {}

    exec(examples(PAGE)[0], names)  # noqa: S102

    connection = names["connection"]
    assert isinstance(connection, sqlite3.Connection)
    [(content,)] = connection.execute("select content from sendonce_contents").fetchall()
    connection.close()
    assert json.loads(content)["attachments"][0]["filename"] == "Übersicht.csv"


def test_settings_are_settings(tmp_path: Path) -> None:
    [toml] = re.findall(r"```toml\n(.*?)```", (ROOT / PAGE).read_text(), re.DOTALL)
    (tmp_path / "sendonce.toml").write_text(toml)

    mail = load(tmp_path / "sendonce.toml", {"SMTP_PASSWORD": "right"}).mail

    assert mail is not None
    assert mail.smtp is not None
    assert (mail.smtp.host, mail.smtp.security, mail.smtp.password) == ("mail.example.com", "starttls", "right")
