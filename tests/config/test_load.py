"""The settings file: what is read from it, and one clear sentence for everything that is wrong in it."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from sendonce.config.load import Settings, find, load, load_sealer
from sendonce.config.sources import lines_of
from sendonce.domain.durations import parse_duration
from sendonce.errors import ConfigError
from sendonce.sealing import new_key
from sendonce.signing import new_secret

HIDDEN = "hunter2-4111"
MAIL = '[mail]\nsender = "shop@example.com"\n'


def loaded(folder: Path, text: str, environment: Mapping[str, str] | None = None) -> Settings:
    path = folder / "sendonce.toml"
    path.write_text(text, "utf-8")
    return load(path, environment or {})


def refusal(folder: Path, text: str, environment: Mapping[str, str] | None = None) -> str:
    """What is said of this file, without the folder it is in."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text, environment)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


def test_settings_have_their_defaults_without_a_file() -> None:
    settings = load(None, {})

    assert settings == Settings(guard=settings.guard, sealer=settings.sealer)
    assert settings.database == "sqlite:///sendonce.db"
    assert settings.profiles == ()
    assert settings.apprise == ()
    assert settings.mail is None
    assert settings.webhook_secret is None
    assert not settings.sealer.has_keys
    assert not settings.guard.allows("127.0.0.1")
    assert settings.alerts.log
    assert settings.alerts.repeat == timedelta(hours=1)


@pytest.mark.parametrize(("pause", "longest"), [("20s", 5), ("5m", 5), ("10m", 10)])
def test_breakers_first_pause_makes_the_longest_one_no_shorter(tmp_path: Path, pause: str, longest: int) -> None:
    worker = loaded(tmp_path, f'[worker]\nbreaker_pause = "{pause}"\n').worker

    assert worker.breaker_pause == parse_duration(pause)
    assert worker.breaker_longest == timedelta(minutes=longest)


def test_key_that_seems_to_stand_twice_has_no_line_rather_than_a_wrong_one() -> None:
    text = '[mail]\nsender = """\nkey = 1\n"""\nkey = 2\n[log]\nkey = 3\n'

    assert lines_of(text) == {("mail", "sender"): 2, ("log", "key"): 7}


def test_empty_file_is_as_good_as_none(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").alerts == load(None, {}).alerts


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[smpt]\n", "there is no table [smpt]; do you mean smtp?"),
        (
            "[zzz]\n",
            "there is no table [zzz]; there are: database, worker, policy, retention, inbox, reconcile, log, alerts, ",
        ),
        ("alerts = 1\n", "alerts must be a table: write [alerts] above its keys"),
        ('[http]\nurl = "https://a.example/"\n', "[http] needs a name of yours: write [http.NAME] above url"),
        ("[alerts]\nrepat = 1\n", "there is no key 'repat' in [alerts]; do you mean repeat?"),
        ("[network]\nx = 1\n", "there is no key 'x' in [network]; there are: allow"),
        ("[worker]\nlisten = 1\n", "there is no key 'listen' in [worker]; it is called metrics now"),
        ("[network]\nallow = [1]\n", "[network] allow must be a list of texts"),
        ('[network]\nallow = ["10.0.0.0/99"]\n', "[network] allow cannot be used: '10.0.0.0/99' is not a network"),
        ("[alerts]\nlog = 1\n", "[alerts] log must be true or false"),
        ("[alerts]\ndead_letters = -1\n", "[alerts] dead_letters must be between 0 (off) and 10000"),
        ("[alerts]\nin_doubt = true\n", "[alerts] in_doubt must be a whole number, not True"),
        ('[alerts]\nevery = "soon"\n', '[alerts] every must be a time like "30s", "5m" or "2h", not \'soon\''),
        ('[alerts]\nevery = "1ms"\n', "[alerts] every must be between one second and one hour"),
        ('[alerts]\nwebhook = "ops"\n', "[alerts] webhook is no destination: 'ops' has no channel"),
        ('[alerts]\nwebhook = "null:a"\n', "[alerts] webhook must begin with http: or https:"),
        ('[alerts]\nmail = "nobody"\n', "[alerts] mail is no destination: "),
        ('[alerts]\nsecret = "x"\n', "[alerts] secret cannot be used: a signing secret is whsec_"),
        ("[webhooks]\nsecret = 7\n", '[webhooks] secret must be a text, { env = "NAME" } or { file = "path" }'),
        ("[webhooks]\nsecret = { env = 1 }\n", "[webhooks] secret must be a text, { env"),
        ('[webhooks]\nsecret = { env = "A", file = "b" }\n', "[webhooks] secret must be a text, { env"),
        (
            '[webhooks]\nsecret = { env = "NOPE" }\n',
            "[webhooks] secret is to come from the environment, but NOPE is not set",
        ),
        (
            '[webhooks]\nsecret = { file = "nope" }\n',
            "[webhooks] secret is to come from the file nope, which cannot be read (No such file",
        ),
        ("[http.a]\n", "[http.a] url is missing"),
        ('[http.a]\nurl = "https://a.example"\nremembers = "1d"\n', "[http.a] remembers needs look_up"),
        ('[http.a]\nurl = "https://a.example/x"\n', "[http.a] url must end with a slash"),
        (
            '[http.a]\nurl = "https://a.example/"\n[http.b]\nurl = "https://A.example/"\n',
            "[http.b] url is that of [http.a] too; leave one of them out",
        ),
        (
            '[http.a]\nurl = "https://a.example/"\nca = "x"\n',
            "[http.a]: the certificate authority cannot be read: give its certificate as PEM",
        ),
        ('[http.a]\nurl = "https://a.example/"\nheaders = 1\n', "[http.a] headers must be names and values"),
        ('[http.a]\nurl = "https://a.example/"\npolicy = 1\n', "[http.a] policy must be settings of a policy"),
        (
            '[http.a]\nurl = "https://a.example/"\npolicy = { max_attempts = 0 }\n',
            "[http.a] policy cannot be used: max_attempts must be between 1 and 10000, not 0",
        ),
        ("[mail]\n", '[mail] sender is missing; write sender = "Shop <shop@example.com>", or set SENDONCE_MAIL_SENDER'),
        ('[mail]\nthrough = "pigeon"\n', "[mail] through must be one of smtp, postmark, resend, not 'pigeon'"),
        (MAIL, '[smtp] url is missing; write url = "smtp://shop:PASSWORD@mail.example.com:587", or set'),
        (f'{MAIL}[smtp]\nurl = "mail.example.com"\n', "[smtp]: the smtp url must be like smtp://"),
        (
            f'{MAIL}[smtp]\nurl = "smtp://mail.example.com"\npool = 0\n',
            "[smtp] pool must be from 1 to 1000 connections, not 0",
        ),
        (
            f'{MAIL}[smtp]\nurl = "smtp://mail.example.com"\nca = "ca.pem"\n',
            '[smtp] ca must be { file = "path" }',
        ),
        (f"{MAIL}[postmark]\n", "[postmark] token is missing"),
        (f'{MAIL}[resend]\nkey = "a b"\n', "[resend]: Resend needs its secret"),
        ('[apprise.https]\nurl = "x"\n', "[apprise.https]: https: has a channel of its own"),
        ('[apprise.SMS]\nurl = "x"\n', "[apprise.SMS]: 'SMS' is not a scheme"),
        ('[apprise.sms]\nurl = "x"\n', "[apprise.sms]: the Apprise url of sms:"),
        ('[database]\nurl = "mysql://a"\n', "[database] url cannot be used: sendonce does not run on 'mysql'"),
        ("[database]\nurl = 7\n", '[database] url must be a text, { env = "NAME" } or { file = "path" }'),
        ('[worker]\nconcurrency = "9"\n', "[worker] concurrency must be a whole number, not '9'"),
        ("[worker]\nconcurrency = 0\n", "[worker] concurrency must be between 1 and 10000, not 0"),
        ('[worker]\nlease = "1ms"\n', "[worker] lease must be between one second and one hour"),
        ("[worker]\nper_host = 101\n", "[worker] per_host must be between 1 and the concurrency (100), not 101"),
        ('[worker]\nnotify = "yes"\n', "[worker] notify must be true or false, not 'yes'"),
        ('[worker]\nmetrics = "9464"\n', "[worker] metrics must be a host and a port, like 127.0.0.1:9464, not '9464'"),
        ('[worker]\nmetrics = "a:70000"\n', "[worker] metrics must be a host and a port"),
        ('[worker]\napp = "shop"\n', "[worker] app must be a module and a name in it"),
        ("[policy]\nmax_attempts = 0\n", "[policy] max_attempts must be between 1 and 10000, not 0"),
        ("[policy]\njitter = 2\n", "[policy] jitter must be between 0 and 1, not 2.0"),
        ('[policy]\nif_unsure = "pray"\n', "[policy] if_unsure must be one of resend, hold, not 'pray'"),
        ("[policy]\nattempts = 3\n", "there is no key 'attempts' in [policy]; do you mean max_attempts?"),
        ("[policy.mailto]\njitter = 2\n", "[policy.mailto] jitter must be between 0 and 1, not 2.0"),
        ("[policy.mailto]\nx = 2\n", "there is no key 'x' in [policy.mailto]; there are: max_attempts, "),
        ('[policy."A b"]\njitter = 0\n', "[policy.A b]: 'A b' is not a scheme"),
        ("[retention]\nhistory = true\n", '[retention] history must be a time like "30d" or "2h", or "never", not'),
    ],
)
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_config_error_is_one_sentence_with_its_location(tmp_path: Path, text: str, sentence: str) -> None:
    assert refusal(tmp_path, text).startswith(f"sendonce.toml: {sentence}")


def test_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")

    assert refusal(tmp_path, "a = ") == "sendonce.toml is not TOML: Invalid value (at end of document)"
    with pytest.raises(ConfigError, match="there is no settings file nowhere"):
        load(Path("nowhere"), {})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path, {})
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load(tmp_path / "bytes.toml", {})
    for text in (f"a = {'9' * 5000}", f"a = 0x{'f' * 5000}", f"a = {'[' * 5000}"):
        assert refusal(tmp_path, text).startswith("sendonce.toml cannot be read: a number in it is too large")


def test_file_is_the_one_that_is_named_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find(None, {}) is None

    (tmp_path / "sendonce.toml").touch()

    assert find(None, {}) == Path("sendonce.toml")
    assert find(None, {"SENDONCE_CONFIG": "other.toml"}) == Path("other.toml")
    assert find("given.toml", {"SENDONCE_CONFIG": "other.toml"}) == Path("given.toml")


def test_secret_is_a_text_or_comes_from_the_environment_or_a_file_beside(tmp_path: Path) -> None:
    secret = new_secret()
    (tmp_path / "secret.txt").write_text(f"{secret}\n")

    assert loaded(tmp_path, f'[webhooks]\nsecret = "{secret}"\n').webhook_secret == secret
    assert loaded(tmp_path, '[webhooks]\nsecret = { env = "A" }\n', {"A": secret}).webhook_secret == secret
    assert loaded(tmp_path, '[webhooks]\nsecret = { file = "secret.txt" }\n').webhook_secret == secret


def test_headers_may_hold_secrets(tmp_path: Path) -> None:
    text = '[http.a]\nurl = "https://a.example/"\nheaders = { X-Key = { env = "KEY" }, X-Team = "shop" }\n'

    [profile] = loaded(tmp_path, text, {"KEY": HIDDEN}).profiles

    assert dict(profile.headers) == {"X-Key": HIDDEN, "X-Team": "shop"}


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_secrets_are_not_shown(tmp_path: Path) -> None:
    secret, key = new_secret(), new_key()
    text = f"""
        [secrets]
        keys = ["{key}"]
        [webhooks]
        secret = "{secret}"
        [http.a]
        url = "https://a.example/"
        bearer = "{HIDDEN}"
        headers = {{ X-Key = "{HIDDEN}" }}
        [mail]
        sender = "shop@example.com"
        [smtp]
        url = "smtp://shop:{HIDDEN}@mail.example.com"
        [apprise.sms]
        url = "json://{HIDDEN}@localhost/{{address}}"
        [alerts]
        webhook = "https://ops.example/"
        secret = "{secret}"
    """

    shown = repr(loaded(tmp_path, text))

    assert not any(each in shown for each in (HIDDEN, secret, key))


@pytest.mark.parametrize(
    "text",
    [
        f'[webhooks]\nsecret = "{HIDDEN}"\n',
        f'[secrets]\nkeys = ["{HIDDEN}"]\n',
        f'[alerts]\nwebhook = "https://ops.example/"\nsecret = "{HIDDEN}"\n',
        f'[http.a]\nurl = "https://a.example/"\nbearer = "{HIDDEN} {HIDDEN}"\n',
        f'[http.a]\nurl = "https://a.example/"\nheaders = {{ X-Key = "{HIDDEN}\\n" }}\n',
        f'[http.a]\nurl = "https://a.example/"\ncertificate = "{HIDDEN}"\n',
        f'{MAIL}[smtp]\nurl = "smpt://shop:{HIDDEN}@mail.example.com"\n',
        f'{MAIL}[postmark]\ntoken = "{HIDDEN} {HIDDEN}"\n',
        f'[apprise.sms]\nurl = "{HIDDEN}"\n',
    ],
)
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_config_error_contains_no_secret(tmp_path: Path, text: str) -> None:
    assert HIDDEN not in refusal(tmp_path, text)


def test_environment_goes_before_the_file_where_names_are_old(tmp_path: Path) -> None:
    key = new_key()
    text = f'[network]\nallow = ["10.0.0.0/8"]\n[secrets]\nkeys = "bad"\n{MAIL}[smtp]\nurl = "smtp://file.example"\n'
    environment = {
        "SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8",
        "SENDONCE_SECRET_KEYS": key,
        "SENDONCE_SMTP_URL": "smtps://environment.example",
    }

    settings = loaded(tmp_path, text, environment)

    assert settings.guard.allows("127.0.0.1")
    assert not settings.guard.allows("10.0.0.1")
    assert settings.sealer.has_keys
    assert settings.mail is not None
    assert settings.mail.smtp is not None
    assert (settings.mail.smtp.host, settings.mail.smtp.security) == ("environment.example", "tls")


def test_mail_needs_no_file() -> None:
    environment = {"SENDONCE_SMTP_URL": "smtp://mail.example.com", "SENDONCE_MAIL_SENDER": "shop@example.com"}

    mail = load(None, environment).mail

    assert mail is not None
    assert mail.smtp is not None
    assert (mail.smtp.host, mail.smtp.sender) == ("mail.example.com", "shop@example.com")


def test_mail_transport_that_is_configured_is_used(tmp_path: Path) -> None:
    mail = loaded(tmp_path, f'{MAIL}[resend]\nkey = "re_1"\n').mail

    assert mail is not None
    assert mail.resend is not None
    assert mail.smtp is None
    assert mail.postmark is None


def test_keys_for_secrets_can_be_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "sendonce.toml"
    path.write_text(f'[secrets]\nkeys = ["{new_key()}"]\n[mail]\n')

    assert load_sealer(path, {}).has_keys
    assert not load_sealer(None, {}).has_keys
