"""A user's own channel, loaded by a real worker with --app."""

import json
import os
from pathlib import Path

import pytest

from sendonce.config.channels import load_channels
from sendonce.errors import ConfigError
from tests.engine.conftest import sqlite, sqlite_template
from tests.given import given_due_deliveries
from tests.processes import sendonce
from tests.store.databases import SqliteDatabase

__all__ = ["sqlite", "sqlite_template"]

SHOP = """
import os
from pathlib import Path
from sendonce.channels import Channels, Delivered

channels = Channels()
nothing = 1

@channels.channel("sms", max_attempts=2)
async def send_sms(message, *, timeout):
    with Path(os.environ["OUT"]).open("a") as out:
        out.write(f"{message.address} {message.body}\\n")
    return Delivered(f"sms-{message.delivery_id}")
"""


@pytest.fixture
def shop(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "shop.py").write_text(SHOP)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path, "OUT": str(tmp_path / "out")}


def test_channel_of_ones_own_is_used_beside_the_built_in_ones(sqlite: SqliteDatabase, shop: dict[str, str]) -> None:
    ids = given_due_deliveries(sqlite, 3, to="sms:+41791234567") + given_due_deliveries(sqlite, 1, to="null:a")

    with sendonce("worker", "--until-idle", "--app", "shop:channels", database=sqlite.url, environment=shop) as worker:
        assert worker.ended() == 0

    assert worker.count("channels: http, https, null, sms") == 1
    assert Path(shop["OUT"]).read_text().splitlines() == ['sms:+41791234567 {"memo":1}'] * 3
    rows = sqlite.rows("deliveries")
    assert {row["status"] for row in rows} == {"Completed"}
    assert [row["notification_id"] for row in rows[:3]] == [f"sms-{id}" for id in ids[:3]]


RAISING = """
from sendonce.channels import Channels
channels = Channels()

@channels.channel("sms")
async def send_sms(message, *, timeout):
    raise RuntimeError("SECRET " + message.body)
"""


@pytest.mark.parametrize("tracebacks", [False, True])
def test_channel_that_raises_is_logged_with_its_delivery_as_json(
    sqlite: SqliteDatabase, shop: dict[str, str], tracebacks: bool
) -> None:
    (Path(shop["OUT"]).parent / "raising.py").write_text(RAISING)
    [delivery_id] = given_due_deliveries(sqlite, 1, to="sms:1", payload={"a": "SECRET"})
    options = ["--log-format", "json", *(["--tracebacks"] if tracebacks else [])]

    with sendonce(
        "worker", "--until-idle", "--app", "raising:channels", *options, database=sqlite.url, environment=shop
    ) as worker:
        assert worker.ended() == 0

    lines = [json.loads(line) for line in worker.lines]
    [incident] = [line for line in lines if line["fact"] == "incident"]
    assert (incident["delivery"], incident["kind"], incident["code"]) == (delivery_id, "in doubt", "channel_error")
    assert incident["raised"] == "RuntimeError in raising.py, line 7"
    raised = [line for line in lines if line["fact"] == "channel_raised"]
    assert len(raised) == int(tracebacks)
    for line in raised:
        assert (line["delivery"], line["traceback"][0]) == (delivery_id, "RuntimeError")
        assert line["traceback"][-1].endswith("raising.py:7 send_sms")
    assert "SECRET" not in worker.said


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("(message)", "send_sms(message) cannot be"),
        ("(message, seconds)", "send_sms(message, seconds) cannot be"),
        ("(*, timeout)", "send_sms(*, timeout) cannot be"),
    ],
)
def test_channel_that_cannot_be_called_is_refused_before_anything_is_sent(
    sqlite: SqliteDatabase, shop: dict[str, str], signature: str, said: str
) -> None:
    wrong = RAISING.replace("(message, *, timeout)", signature)
    (Path(shop["OUT"]).parent / "wrong.py").write_text(wrong)

    with sendonce("worker", "--app", "wrong:channels", database=sqlite.url, environment=shop) as worker:
        assert worker.ended() == 2

    [line] = worker.lines
    assert "a channel is called as send(message, timeout=seconds), and " + said in line


def test_app_name_that_is_wrong_is_one_sentence_and_exit_code_2(sqlite: SqliteDatabase, shop: dict[str, str]) -> None:
    with sendonce("worker", "--app", "shop:missing", database=sqlite.url, environment=shop) as worker:
        assert worker.ended() == 2

    [line] = worker.lines
    assert "the app shop:missing cannot be used" in line


@pytest.mark.parametrize("app", ["shop:nothing", "shop:missing", "nowhere:channels"])
def test_app_that_is_no_registry_is_refused(monkeypatch: pytest.MonkeyPatch, shop: dict[str, str], app: str) -> None:
    monkeypatch.syspath_prepend(Path(shop["OUT"]).parent)

    with pytest.raises(ConfigError, match=f"the app {app} cannot be used"):
        load_channels(app)
