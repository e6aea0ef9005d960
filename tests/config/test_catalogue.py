"""Every setting is complete: a default that its part knows, a variable that works, and an example that can be read."""

import re
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest

from sendonce.config.catalogue import SETTINGS, TABLES, check_variable, example, spelled_default
from sendonce.config.load import load
from sendonce.config.types import NAMED, Setting
from sendonce.consumer.registry import Consumer
from sendonce.engine.alerts import AlertSettings
from sendonce.engine.config import WorkerConfig
from sendonce.engine.retention import InboxSettings, RetentionSettings
from sendonce.errors import ConfigError
from sendonce.sealing import new_key
from sendonce.signing import new_secret

SMS = "twilio://AC0123456789abcdef0123456789abcdef:0123456789abcdef0123456789abcdef@+15005550006/{address}"
# Of a worker these are not for a file: an option alone, what tests alone use, and what follows from breaker_pause.
ELSEWHERE = {"until_idle", "once", "breaker_longest", "instance", "inbox"}
# Of a consumer: what only its code can say, and what is made of the policy's settings.
IN_CODE = {"name", "handler", "begin", "id_of", "policy"}

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: f"{each.table}.{each.key}")
def test_setting_has_a_sentence_and_either_a_default_or_an_example(setting: Setting) -> None:
    assert setting.about.endswith(".")
    assert bool(spelled_default(setting)) != bool(setting.example)
    if setting.part:
        module, _, name = setting.part.partition(":")
        made_of = getattr(import_module(module), name)
        assert (setting.field or setting.key) in {each.name for each in fields(made_of)}


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ("worker", WorkerConfig),
        ("alerts", AlertSettings),
        ("retention", RetentionSettings),
        ("inbox", InboxSettings),
        ("consumers", Consumer),
    ],
)
def test_catalogue_leaves_out_no_field_of_a_part(table: str, part: type) -> None:
    settings = {each.field or each.key for each in TABLES[table].values() if each.part}

    assert settings == {each.name for each in fields(part)} - ELSEWHERE - IN_CODE


def test_settings_share_no_variable_and_no_option_within_a_command() -> None:
    variables = [each.environment for each in SETTINGS if each.environment]
    of_consume, of_others = (
        [each.option for each in SETTINGS if each.option and (each.table == "consume") is here]
        for here in (True, False)
    )

    for given in (variables, of_consume, of_others):
        assert len(given) == len(set(given))
    shared = [each for each in SETTINGS if each.option in of_consume]
    assert {each.table for each in shared} == {"consume", "worker"}
    assert all(each.option == f"--{each.key}" for each in shared)


def written(folder: Path, uncommented: Callable[[str], bool]) -> Path:
    """The example with these of its lines no longer commented."""
    lines = [line[1:] if line.startswith("#") and uncommented(line[1:]) else line for line in example().splitlines()]
    path = folder / "sendonce.toml"
    path.write_text("\n".join(lines))
    return path


def has_a_default() -> Callable[[str], bool]:
    """Whether a line sets something in a table that needs nothing to its default."""
    tables = {name for name, keys in TABLES.items() if not any(each.is_required for each in keys.values())}
    plain = [each for each in SETTINGS if each.table in tables - {*NAMED}]
    lines = {f"{each.key} = {spelled_default(each)}" for each in plain if spelled_default(each)}
    return lines.__contains__


def test_example_changes_nothing_nor_do_the_defaults_in_it(tmp_path: Path) -> None:
    for path in (written(tmp_path, lambda line: False), written(tmp_path, has_a_default())):
        settings, plain = load(path, {}), load(None, {})
        for name in ("database", "worker", "policy", "retention", "alerts", "notify", "metrics", "app", "mail"):
            assert getattr(settings, name) == getattr(plain, name), name

    assert path.read_text().count("\nlease = ") == 1


def test_whole_example_can_be_read(tmp_path: Path) -> None:
    """Not the certificates, which are files that somebody has; and one way for mails only."""
    secret = new_secret()
    environment = {
        "SECRETS_KEY": new_key(),
        "WEBHOOK_SECRET": secret,
        "SHOP_TOKEN": "token",
        "SMTP_PASSWORD": "password",
        "POSTMARK_TOKEN": "token",
        "RESEND_KEY": "re_1",
        "SMS_URL": SMS,
        "BROKER_PASSWORD": "password",
    }

    settings = load(written(tmp_path, lambda line: bool(re.match(r"\[|(?!ca|certificate)\w+ = ", line))), environment)

    assert settings.metrics == ("127.0.0.1", 9464)
    assert settings.app == "shop.messages:channels"
    assert settings.worker.per_host == 20
    assert settings.webhook_secret == secret
    assert [each.name for each in settings.profiles] == ["shop"]
    assert [each.scheme for each in settings.apprise] == ["sms"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SENDONCE_DATABSE", "SENDONCE_DATABASE"),
        ("SENDONCE_DATABASE_URL", "SENDONCE_DATABASE"),
        ("SENDONCE_NETWORK_ALLOW", "SENDONCE_ALLOW_NETWORKS"),
        ("SENDONCE_WORKER_CONCURENCY", "SENDONCE_WORKER_CONCURRENCY"),
        ("SENDONCE_POLICE", "SENDONCE_POLICY"),
        ("SENDONCE_MAX_ATTEMPTS", "SENDONCE_POLICY_MAX_ATTEMPTS"),
        ("SENDONCE_METRICS", "SENDONCE_WORKER_METRICS or SENDONCE_CONSUME_METRICS"),
    ],
)
def test_variable_that_is_nearly_right_is_an_error(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"there is no variable {name}; do you mean {meant}\\?"):
        load(None, {name: "x"})


def test_variable_that_was_renamed_is_refused_with_its_new_name() -> None:
    with pytest.raises(
        ConfigError, match="there is no variable SENDONCE_WORKER_LISTEN; it is called SENDONCE_WORKER_METRICS now"
    ):
        load(None, {"SENDONCE_WORKER_LISTEN": "127.0.0.1:9464"})


@pytest.mark.parametrize("name", ["SENDONCE_TEST_POSTGRES", "SENDONCE_SHOP_TOKEN", "SENDONCE", "PATH"])
def test_variables_of_others_are_ignored(name: str) -> None:
    check_variable(name)


def test_variable_that_the_file_asks_for_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "sendonce.toml"
    path.write_text('[database]\nurl = { env = "SENDONCE_DATABASE_URL" }\n')

    assert load(path, {"SENDONCE_DATABASE_URL": "sqlite:///shop.db"}).database == "sqlite:///shop.db"


def test_times_that_are_never(tmp_path: Path) -> None:
    path = tmp_path / "sendonce.toml"
    path.write_text('[retention]\nhistory = "never"\nkeys = false\noperations = "7d"\n')

    retention = load(path, {"SENDONCE_RETENTION_PAYLOADS": "Never"}).retention

    assert (retention.payloads, retention.history, retention.keys) == (None, None, None)
    assert retention.operations == timedelta(days=7)
