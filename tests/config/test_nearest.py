"""Which value counts: an option, else a variable, else the file, else the default; and what is said of it."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from sendonce.channels.registry import Channels, builtin
from sendonce.config.channels import channels_of
from sendonce.config.effective import InForce, in_force
from sendonce.config.load import Settings, load, load_retention, settings_of
from sendonce.config.sources import Everything, load_database
from sendonce.domain.policies import IfUnsure
from sendonce.errors import ConfigError

HIDDEN = "hunter2-4111"


def everything(
    folder: Path,
    text: str = "",
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
) -> Everything:
    path = folder / "sendonce.toml"
    path.write_text(text)
    return Everything(path, environment or {}, options or {})


def shown(given: Everything, folder: Path, *, defaults: bool = False) -> dict[str, tuple[object, str]]:
    """What is in force, by setting, without the folder that the file is in."""
    return {
        each.setting: (each.value, each.origin.replace(f"{folder}/", "")) for each in in_force(given, defaults=defaults)
    }


def test_option_goes_before_a_variable_before_the_file_before_the_default(tmp_path: Path) -> None:
    text = '[worker]\nlease = "41s"\npoll = "2s"\ngrace = "3s"\n'
    environment = {"SENDONCE_WORKER_LEASE": "42s", "SENDONCE_WORKER_POLL": "4s"}

    given = everything(tmp_path, text, environment, {"--lease": "43s"})
    worker = settings_of(given).worker

    assert [each.total_seconds() for each in (worker.lease, worker.poll, worker.grace)] == [43, 4, 3]
    assert worker.concurrency == 100
    assert shown(given, tmp_path) == {
        "database.url": ("sqlite:///sendonce.db", "default"),
        "worker.lease": ("43s", "--lease"),
        "worker.poll": ("4s", "SENDONCE_WORKER_POLL"),
        "worker.grace": ("3s", "sendonce.toml line 4"),
    }


def test_policy_is_put_together_from_all_of_them(tmp_path: Path) -> None:
    text = '[policy]\nmax_attempts = 2\ntimeout = "2s"\njitter = 0.2\nif_unsure = "hold"\n'
    environment = {
        "SENDONCE_POLICY": '{"timeout": "3s", "jitter": 0.3, "max_attempts": 3}',
        "SENDONCE_POLICY_JITTER": "0.4",
    }

    policy = settings_of(everything(tmp_path, text, environment, {"--policy": '{"max_attempts": 5}'})).policy

    assert (policy.max_attempts, policy.timeout, policy.jitter) == (5, timedelta(seconds=3), 0.4)
    assert policy.if_unsure is IfUnsure.HOLD


def test_variables_are_read_like_the_file() -> None:
    settings = load(
        None,
        {
            "SENDONCE_WORKER_CONCURRENCY": "7",
            "SENDONCE_WORKER_NOTIFY": "Yes",
            "SENDONCE_WORKER_METRICS": "[::1]:9464",
            "SENDONCE_WORKER_APP": " ",
            "SENDONCE_DATABASE": "postgres://app@db/shop",
            "SENDONCE_DATABASE_LISTEN_URL": "postgresql://app@direct/shop",
            "SENDONCE_ALERTS_LOG": "0",
            "SENDONCE_POSTMARK_TOKEN": "token",
            "SENDONCE_MAIL_SENDER": "shop@example.com",
        },
    )

    assert (settings.worker.concurrency, settings.notify, settings.metrics) == (7, True, ("::1", 9464))
    assert settings.app is None
    assert settings.database == "postgresql://app@db/shop"
    assert settings.listen_database == "postgresql://app@direct/shop"
    assert not settings.alerts.log
    assert settings.mail is not None
    assert settings.mail.postmark is not None


@pytest.mark.parametrize(
    ("environment", "options", "sentence"),
    [
        ({"SENDONCE_WORKER_CONCURRENCY": "many"}, {}, "SENDONCE_WORKER_CONCURRENCY must be a whole number, not 'many'"),
        ({"SENDONCE_WORKER_CONCURRENCY": "0"}, {}, "SENDONCE_WORKER_CONCURRENCY must be between 1 and 10000, not 0"),
        ({"SENDONCE_WORKER_NOTIFY": "maybe"}, {}, "SENDONCE_WORKER_NOTIFY must be true or false, not 'maybe'"),
        ({"SENDONCE_POLICY": "3"}, {}, "SENDONCE_POLICY: a policy must be a JSON object"),
        ({"SENDONCE_POLICY": '{"timeout": "x"}'}, {}, "SENDONCE_POLICY: timeout must be a time like"),
        ({"SENDONCE_POLICY": '{"jitter": NaN}'}, {}, "SENDONCE_POLICY: jitter must be between 0 and 1, not nan"),
        ({"SENDONCE_POLICY": f'{{"jitter": {2**70}}}'}, {}, "SENDONCE_POLICY cannot be read: a number in it is too"),
        ({"SENDONCE_POLICY_JITTER": "a lot"}, {}, "SENDONCE_POLICY_JITTER must be a number, not 'a lot'"),
        ({"SENDONCE_ALLOW_NETWORKS": "x"}, {}, "SENDONCE_ALLOW_NETWORKS cannot be used: 'x' is not a network"),
        ({"SENDONCE_SECRET_KEYS": HIDDEN}, {}, "SENDONCE_SECRET_KEYS cannot be used: a key must be one"),
        ({"SENDONCE_SMTP_URL": HIDDEN}, {}, "sendonce.toml: [mail] sender is missing; write sender ="),
        ({"SENDONCE_WORKER_APP": "a\udcff:b"}, {}, "SENDONCE_WORKER_APP is not valid UTF-8 text"),
        (
            {"SENDONCE_DATABASE": f"mysql://u:{HIDDEN}@h/d"},
            {},
            "SENDONCE_DATABASE cannot be used: sendonce does not run",
        ),
        ({}, {"--lease": "soon"}, '--lease must be a time like "30s", "5m" or "2h", not \'soon\''),
        ({}, {"--lease": "1ms"}, "--lease must be between one second and one hour"),
        ({}, {"--policy": '{"x": 1}'}, "--policy: unknown policy setting 'x'; there are: max_attempts"),
        ({}, {"--lease": "5s"}, "a send may take 10 s but the lease is only 5 s; make the lease longer"),
    ],
)
def test_config_error_names_its_source(
    environment: Mapping[str, str], options: Mapping[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, environment, options)

    assert str(caught.value).startswith(sentence)
    assert HIDDEN not in str(caught.value)


def test_address_from_a_variable_is_not_blamed_on_the_file() -> None:
    environment = {"SENDONCE_SMTP_URL": f"http://{HIDDEN}", "SENDONCE_MAIL_SENDER": "shop@example.com"}

    with pytest.raises(ConfigError, match=r"^SENDONCE_SMTP_URL: the smtp url must be like") as caught:
        load(None, environment)

    assert HIDDEN not in str(caught.value)


def test_secrets_and_passwords_are_not_shown(tmp_path: Path) -> None:
    text = f"""
[database]
url = "postgresql://app:{HIDDEN}/@{HIDDEN}@db/shop?password={HIDDEN}"
[alerts]
webhook = "https://ops.example/hook?key={HIDDEN}"
[http.shop]
url = "https://shop.example/"
bearer = {{ env = "TOKEN" }}
headers = {{ X-Key = "{HIDDEN}", X-Team = "shop" }}
policy = {{ max_attempts = 3 }}
[mail]
sender = "shop@example.com"
[smtp]
url = "smtp://shop:{HIDDEN}@mail.example.com"
[policy.mailto]
timeout = "5s"
"""
    given = everything(tmp_path, text, {"TOKEN": HIDDEN, "SENDONCE_SMTP_PASSWORD": HIDDEN})

    settings_of(given)
    found = shown(given, tmp_path)

    assert HIDDEN not in str(found)
    assert found["database.url"] == ("postgresql://app@db/shop", "sendonce.toml line 3")
    assert found["alerts.webhook"][0] == "https://ops.example/hook"
    assert found["http.shop.bearer"] == ("set", "sendonce.toml line 8, from TOKEN")
    assert found["http.shop.headers"][0] == "X-Key, X-Team"
    assert found["http.shop.policy"][0] == "max_attempts = 3"
    assert found["smtp.url"][0] == "smtp://shop@mail.example.com"
    assert found["smtp.password"] == ("set", "SENDONCE_SMTP_PASSWORD")
    assert found["policy.mailto.timeout"] == ("5s", "sendonce.toml line 16")


def test_defaults_are_shown_when_asked_for() -> None:
    rows = in_force(Everything(None, {}, {}), defaults=True)

    assert InForce("worker.lease", "30s", "default") in rows
    assert InForce("retention.payloads", "30d", "default") in rows
    assert InForce("webhooks.secret", "not set", "default") in rows


def test_line_that_is_not_sure_is_not_said(tmp_path: Path) -> None:
    text = """
worker.lease = '41s'
[http.shop]
url = 'https://shop.example/'
headers = { X-Note = '''
url = no''' }
remembers = '7d'
"""

    found = shown(everything(tmp_path, text), tmp_path)

    assert found["worker.lease"][1] == "sendonce.toml"
    assert found["http.shop.url"][1] == "sendonce.toml"
    assert found["http.shop.remembers"][1] == "sendonce.toml line 7"


async def test_channels_policy_is_its_own_then_that_of_the_settings() -> None:
    own = Channels()
    own.add(builtin().find("null:a"), "sms", timeout="3s", max_attempts=4)  # type: ignore[arg-type]
    policies: dict[str, dict[str, object]] = {"sms": {"max_attempts": 2}, "null": {"timeout": "1s"}}

    channels = channels_of(Settings(channel_policies=policies), own)

    assert channels.settings()["sms"] == {"timeout": "3s", "max_attempts": 2}
    assert channels.settings()["null"] == {"timeout": "1s"}
    await channels.close()


def test_policy_for_a_channel_that_is_not_there_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"\[policy.sms\]: no channel here sends to sms:; there are: http, https, null"
    ):
        channels_of(Settings(channel_policies={"sms": {"jitter": 0.5}}))


def test_policies_that_do_not_go_together_are_an_error(tmp_path: Path) -> None:
    text = '[policy]\nlongest_delay = "20s"\n[http.a]\nurl = "https://a.example/"\npolicy = { first_delay = "1m" }\n'
    settings = settings_of(everything(tmp_path, text))

    with pytest.raises(ConfigError, match=r"the policy of https://a.example/ does not go with \[policy\]: first"):
        channels_of(settings)


def test_parts_can_be_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "sendonce.toml"
    path.write_text('[database]\nurl = "sqlite:///shop.db"\n[retention]\npayloads = "1d"\n[mail]\n')

    assert load_database(path, {}, {}) == "sqlite:///shop.db"
    assert load_retention(path, {}).payloads == timedelta(days=1)
