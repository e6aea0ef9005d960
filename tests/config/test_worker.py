"""A real worker with a settings file: its endpoints, its mail server and its alerts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sendonce.inbox.webhooks import verify
from sendonce.sealing import new_key
from sendonce.signing import new_secret
from tests.cli.workbench import Ran, run
from tests.provider import Provider

WITHOUT = (
    "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(',')))\n"
    "from sendonce.cli import main; sys.exit(main(sys.argv[1:]))"
)
IMPORTED = (
    "import sys; from sendonce.cli import main; code = main(sys.argv[1:])\n"
    "print([name for name in ('aiosmtplib', 'apprise', 'cryptography') if name in sys.modules]); sys.exit(code)"
)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(mail=True) as provider:
        yield provider


@pytest.fixture
def folder(tmp_path: Path, provider: Provider) -> Path:
    """A working directory with a database."""
    provider.clear()
    provider.control(fail=None)
    assert run("migrate", cwd=tmp_path).code == 0
    return tmp_path


def publish(folder: Path, key: str, to: str) -> None:
    assert run("publish", "memo.saved", "--key", key, "--to", to, cwd=folder).code == 0


def work(folder: Path, text: str, *options: str, **environment: str) -> Ran:
    (folder / "sendonce.toml").write_text(text)
    return run("worker", "--until-idle", *options, cwd=folder, env=environment)


def test_D4_named_endpoint_gets_its_secret_and_can_be_asked(folder: Path, provider: Provider) -> None:
    publish(folder, "memo/1", f"{provider.url}/shop/1")

    ran = work(
        folder,
        f"""
        [network]
        allow = ["127.0.0.0/8"]
        [http.shop]
        url = "{provider.url}/shop/"
        bearer = {{ env = "SHOP_TOKEN" }}
        headers = {{ X-Team = "shop" }}
        look_up = "{provider.look_up}"
        """,
        SHOP_TOKEN="hunter2-4111",
    )

    assert ran.code == 0, ran.err
    [arrival] = provider.last()
    headers = {name.lower(): value for name, value in arrival["headers"].items()}
    assert (headers["authorization"], headers["x-team"]) == ("Bearer hunter2-4111", "shop")
    assert "1 finished" in ran.err
    assert "hunter2" not in ran.err


def test_M12_dead_letters_are_told_by_a_signed_webhook_and_by_mail(folder: Path, provider: Provider) -> None:
    secret = new_secret()
    publish(folder, "memo/1", f"{provider.url}/gone")
    publish(folder, "memo/2", "mailto:ada@example.com")
    provider.control(fail="404", path="/gone")

    ran = work(
        folder,
        f"""
        [network]
        allow = ["127.0.0.0/8"]
        [mail]
        sender = "shop@example.com"
        [smtp]
        url = "smtp+plain://{provider.smtp}"
        [alerts]
        webhook = "{provider.url}/alerts"
        secret = "{secret}"
        mail = "oncall@example.com"
        """,
    )

    assert ran.code == 0, ran.err
    arrivals = provider.last()
    [alert] = [each for each in arrivals if each["path"] == "/alerts"]
    assert verify(alert["headers"], alert["body"].encode(), secret).id
    assert "1 dead letter waits for a person" in alert["body"]
    mails = [each for each in arrivals if "oncall@example.com" in str(each)]
    assert len(mails) == 1
    assert "sendonce: dead_letters (raised)" in str(mails)
    assert len([each for each in arrivals if "ada@example.com" in str(each)]) == 1
    assert "alert dead_letters: 1 dead letter waits for a person" in ran.err
    shown = run("status", cwd=folder).out
    assert "alert         dead_letters since" in shown


def test_network_that_is_not_open_is_not_dialled_for_alerts_either(folder: Path, provider: Provider) -> None:
    publish(folder, "memo/1", f"{provider.url}/memo")

    ran = work(folder, f'[alerts]\nwebhook = "{provider.url}/alerts"\n')

    assert provider.totals() == {}
    assert "an alert could not be told by webhook: address_forbidden" in ran.err


def test_worker_refuses_wrong_settings_before_it_begins(folder: Path) -> None:
    ran = work(folder, "[alerts]\nrepeet = 1\n")

    assert ran.code == 2
    assert ran.err == "sendonce: sendonce.toml: there is no key 'repeet' in [alerts]; do you mean repeat?\n"


def test_settings_file_that_is_named_must_be_there(folder: Path) -> None:
    assert "there is no settings file other.toml" in work(folder, "", "--config", "other.toml").err
    assert "there is no settings file third.toml" in work(folder, "", SENDONCE_CONFIG="third.toml").err


def test_alerts_by_mail_without_a_way_for_mails_are_a_wrong_setting(folder: Path) -> None:
    ran = work(folder, '[alerts]\nmail = "oncall@example.com"\n')

    assert ran.code != 0
    assert "[alerts] mail: this worker has no channel for mailto:" in ran.err


@pytest.mark.parametrize(
    ("package", "table", "extra"),
    [
        ("aiosmtplib", '[mail]\nsender = "a@example.com"\n[smtp]\nurl = "smtp://mail.example.com"\n', "[smtp]:email"),
        ("aiohttp", '[http.shop]\nurl = "https://shop.example/"\n', "[http.shop]:http"),
        ("aiohttp", '[mail]\nsender = "a@example.com"\n[resend]\nkey = "re_1"\n', "[resend]:http"),
        ("aiohttp", '[mail]\nsender = "a@example.com"\n[postmark]\ntoken = "t"\n', "[postmark]:http"),
        ("apprise", '[apprise.sms]\nurl = "json://localhost/{address}"\n', "[apprise.sms]:apprise"),
    ],
)
def test_table_that_needs_another_package_says_so(folder: Path, package: str, table: str, extra: str) -> None:
    (folder / "sendonce.toml").write_text(table)
    name, _, wanted = extra.partition(":")

    ran = run(package, "worker", "--until-idle", cwd=folder, program=("-c", WITHOUT))

    assert ran.code == 2
    assert name in ran.err
    assert ran.err.endswith(f" needs: pip install 'sendonce[{wanted}]'\n")


def test_worker_without_any_extra_works(folder: Path) -> None:
    publish(folder, "memo/1", "null:a")

    packages = "aiohttp,aiosmtplib,apprise,cryptography,uvloop"
    ran = run(packages, "worker", "--until-idle", cwd=folder, program=("-c", WITHOUT))

    assert ran.code == 0, ran.err
    assert "1 finished" in ran.err


def test_worker_imports_only_what_it_uses(folder: Path) -> None:
    (folder / "sendonce.toml").write_text('[alerts]\nrepeat = "2h"\n')

    assert run("worker", "--until-idle", cwd=folder, program=("-c", IMPORTED)).out == "[]\n"


def test_secrets_that_are_sealed_are_opened_with_the_keys_of_the_file(folder: Path, provider: Provider) -> None:
    key = new_key()
    (folder / "sendonce.toml").write_text(f'[network]\nallow = "127.0.0.0/8"\n[secrets]\nkeys = "{key}"\n')
    added = run("subscriptions", "add", "--type", "*", "--to", f"{provider.url}/hook", "--json", cwd=folder)
    publish(folder, "memo/1", "null:a")

    ran = run("worker", "--until-idle", cwd=folder)

    assert ran.code == 0, ran.err
    [arrival] = provider.last()
    secret = added.json["secret"]
    assert verify(arrival["headers"], arrival["body"].encode(), secret).id
    assert b"sealed:" in (folder / "sendonce.db").read_bytes()


def test_W11_worker_has_the_limits_of_its_file_and_of_its_environment(folder: Path, provider: Provider) -> None:
    publish(folder, "memo/1", f"{provider.url}/busy")
    provider.control(fail="503", path="/busy")

    text = "[worker]\nconcurrency = 7\n[policy]\nmax_attempts = 9\n[policy.http]\nmax_attempts = 1\n"
    ran = work(folder, text, SENDONCE_WORKER_CONCURRENCY="8", SENDONCE_ALLOW_NETWORKS="127.0.0.0/8")

    assert ran.code == 0, ran.err
    assert ": 8 slots;" in ran.err
    [dead] = run("dead-letters", "list", "--json", cwd=folder).rows
    assert dead["reason"] == "exhausted"
