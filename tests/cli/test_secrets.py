"""Secrets on the command line: shown once, brought in files, never printed afterwards."""

import base64
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from sendonce.admin.subscriptions import check_headers
from sendonce.channels.protocol import Credentials
from sendonce.domain.headers import is_allowed
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.errors import ConfigError
from sendonce.sealing import SecretBox, new_key
from sendonce.signing import key_of, new_secret
from tests.cli.workbench import Cli, Ran

HOOK = ("subscriptions", "add", "--type", "*", "--to", "https://hooks.example/x")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the host's own."""
    for name in ("SENDONCE_SECRET_KEYS", "SENDONCE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def certificate() -> str:
    issued = trustme.CA().issue_cert("client.example")
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    return (chain + issued.private_key_pem.bytes()).decode()


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def credentials(cli: Cli, subscription_id: int = 1, *keys: str) -> Credentials:
    """What a worker signs and sends with."""

    async def read(store: object) -> object:
        return await CredentialsCache(store, SecretBox(keys)).of(subscription_id)  # type: ignore[arg-type]

    found = cli.ask(read)
    assert isinstance(found, Credentials), found
    return found


def secret_in(ran: Ran) -> str:
    [line] = [each for each in ran.out.splitlines() if "not shown again" in each]
    return line.rpartition(" ")[2]


@pytest.mark.parametrize("uri", ["https://hooks.example/x", "http://hooks.example/x"])
def test_subscription_over_http_gets_a_secret_that_is_shown_once(cli: Cli, uri: str) -> None:
    added = cli("subscriptions", "add", "--type", "*", "--to", uri)
    secret = secret_in(added)

    later = [
        cli("subscriptions", *words).out
        for words in (["list"], ["list", "--json"], ["show", "1"], ["show", "1", "--json"], ["pause", "1", "--json"])
    ]

    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert credentials(cli).signing == (key_of(secret),)
    assert all(secret not in each and '"secret"' not in each for each in later)
    assert "signing, since" in later[2]


def test_secret_is_a_json_field_of_its_own_once(lite: Cli) -> None:
    row = lite(*HOOK, "--json").json
    rotated = lite("subscriptions", "rotate-secret", "1", "--json").json

    assert credentials(lite).signing == (key_of(rotated["secret"]), key_of(row["secret"]))


@pytest.mark.parametrize("options", [("--to", "mailto:ada@example.com"), ("--to", "https://a.example/", "--no-secret")])
def test_subscription_that_is_not_signed_has_no_secret(lite: Cli, options: tuple[str, ...]) -> None:
    row = lite("subscriptions", "add", "--type", "*", *options, "--json").json

    assert "secret" not in row
    assert lite("subscriptions", "show", "1", "--json").json["secrets"] == []


def test_credentials_for_a_receiver_come_in_files_and_are_not_shown(cli: Cli, tmp_path: Path, certificate: str) -> None:
    secret = new_secret()
    added = cli(
        *HOOK,
        "--secret-file", written(tmp_path, "secret", secret + "\n"),
        "--bearer-file", written(tmp_path, "bearer", "tok-123\n"),
        "--header", "X-Team: shop",
        "--header-file", written(tmp_path, "headers", "X-Api-Key: hush-7\n\nX-More:more: still\n"),
        "--client-certificate", written(tmp_path, "client.pem", certificate),
    )  # fmt: skip
    shown = added.out + cli("subscriptions", "show", "1").out + cli("subscriptions", "list", "--json").out

    found = credentials(cli)

    assert added.code == 0, added.err
    assert (found.signing, found.bearer, found.certificate) == ((key_of(secret),), "tok-123", certificate)
    assert found.headers == {"X-Team": "shop", "X-Api-Key": "hush-7", "X-More": "more: still"}
    for hidden in (secret, "tok-123", "hush-7", "PRIVATE KEY"):
        assert hidden not in shown
    assert {line.split()[2] for line in shown.splitlines() if line.startswith("secret ")} == {
        "signing,", "bearer,", "headers,", "certificate,",
    }  # fmt: skip


def test_secret_can_come_from_standard_input(lite: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = new_secret()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(secret.encode())))

    added = lite(*HOOK, "--secret-file", "-")

    assert secret not in added.out
    assert credentials(lite).signing == (key_of(secret),)


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("--secret-file", "hunter2", "a signing secret is whsec_ and the base64 of"),
        ("--bearer-file", "hunter2\nX-Evil: 1", "one line of visible ASCII"),
        ("--bearer-file", "", "one line of visible ASCII"),
        ("--header-file", "hunter2", "a header is written as Name: value"),
        ("--header-file", "X-A: hunter2\rX-B: 1\0", "a header is written as Name: value"),
        ("--header-file", "Webhook-Id: hunter2", "Webhook-Id is set by sendonce"),
        ("--header-file", "HOST: hunter2", "HOST is set by sendonce"),
        ("--header-file", "X-A: hunter2\nx-a: 2", "x-a is given twice"),
        ("--client-certificate", "hunter2", "give PEM with the certificate and its unlocked key"),
        ("--bearer-file", "hunter2" * 20_000, "is too long"),
    ],
)
def test_secret_that_is_none_is_one_sentence_without_it(
    lite: Cli, tmp_path: Path, option: str, content: str, said: str
) -> None:
    wrong = lite(*HOOK, option, written(tmp_path, "given", content))

    assert wrong.code == 2
    assert said in wrong.err
    assert "hunter2" not in wrong.err
    assert wrong.err.count("\n") == 1
    assert lite("subscriptions", "list").out == "no subscriptions match\n"


def test_certificate_needs_its_own_key_without_a_password(lite: Cli, tmp_path: Path) -> None:
    issued, other = (trustme.CA().issue_cert("client.example") for _ in range(2))
    chain = issued.cert_chain_pems[0].bytes()
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"hunter2")
    )

    for content in (chain, chain + other.private_key_pem.bytes(), chain + locked):
        wrong = lite(*HOOK, "--client-certificate", written(tmp_path, "client.pem", content.decode()))
        assert (wrong.code, "give PEM with the certificate and its unlocked key" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--secret-file", "-", "--bearer-file", "-"), "only one of the files can be standard input"),
        (("--secret-file", "nowhere", "--no-secret"), "exclude each other"),
        (("--bearer-file", "nowhere"), "nowhere cannot be read: No such file or directory"),
        (("--bearer-file", "nowhere", "--header", "authorization: x"), "exclude each other"),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(lite: Cli, options: tuple[str, ...], said: str) -> None:
    wrong = lite(*HOOK, *options)

    assert wrong.code == 2
    assert said in wrong.err


def test_rotation_shows_the_new_secret_once_and_both_sign(cli: Cli) -> None:
    first = secret_in(cli(*HOOK))

    rotated = cli("subscriptions", "rotate-secret", "1", "--overlap", "2h", "--reason", "yearly")
    second = secret_in(rotated)
    shown = cli("subscriptions", "show", "1").out

    assert rotated.out.startswith("subscription 1 has a new secret; the one before it signs too for 2h\n")
    assert credentials(cli).signing == (key_of(second), key_of(first))
    assert [line[:17] for line in shown.splitlines() if "until" in line] == ["secret 1: signing"]
    assert second not in shown


def test_rotation_without_overlap_ends_the_old_secret_at_once(lite: Cli, tmp_path: Path) -> None:
    own = new_secret()
    lite(*HOOK)

    rotated = lite(
        "subscriptions", "rotate-secret", "1", "--overlap", "0s", "--secret-file", written(tmp_path, "s", own)
    )

    assert rotated.out == "subscription 1 has a new secret; the one before it is gone\n"
    assert credentials(lite).signing == (key_of(own),)


def test_subscription_that_was_not_signed_is_signed_after_a_rotation(lite: Cli) -> None:
    lite(*HOOK, "--no-secret")

    rotated = lite("subscriptions", "rotate-secret", "1")

    assert "there was none before it" in rotated.out
    assert credentials(lite).signing == (key_of(secret_in(rotated)),)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("7",), 1, "there is no subscription 7"),
        (("1",), 1, "subscription 1 was removed, which is for good"),
        (("1", "--overlap", "31d"), 1, "between zero and 30 days"),
        (("1", "--overlap", "soon"), 2, "'soon' is not a duration"),
    ],
)
def test_rotation_that_cannot_be_says_why(lite: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    lite(*HOOK)
    lite("subscriptions", "remove", "1")

    wrong = lite("subscriptions", "rotate-secret", *words)

    assert (wrong.code, wrong.out) == (code, "")
    assert said in wrong.err


def test_secrets_are_encrypted_with_a_key_that_alone_opens_them(
    lite: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = lite_key(lite)
    monkeypatch.setenv("SENDONCE_SECRET_KEYS", key)

    secret = secret_in(lite(*HOOK))

    stored = b"".join(each.read_bytes() for each in tmp_path.glob("sendonce.db*"))
    assert secret.encode() not in stored
    assert b"sealed:" in stored
    assert credentials(lite, 1, key).signing == (key_of(secret),)


def test_key_may_stand_in_the_settings_file(lite: Cli, tmp_path: Path) -> None:
    key = new_key()
    config = written(tmp_path, "mine.toml", f'[secrets]\nkeys = ["{key}"]\n')

    secret = secret_in(lite(*HOOK, "--config", config))
    second = secret_in(lite("subscriptions", "rotate-secret", "1", "--config", config))

    assert credentials(lite, 1, key).signing == (key_of(second), key_of(secret))


def test_secrets_are_sealed_anew_when_a_key_is_set_and_when_it_is_replaced(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = new_key(), new_key()
    secret = secret_in(cli(*HOOK))
    without = cli("subscriptions", "reseal")

    monkeypatch.setenv("SENDONCE_SECRET_KEYS", old)
    first = cli("subscriptions", "reseal").out
    monkeypatch.setenv("SENDONCE_SECRET_KEYS", f"{new}, {old}")
    second = cli("subscriptions", "reseal", "--json").json
    monkeypatch.setenv("SENDONCE_SECRET_KEYS", old)
    too_late = cli("subscriptions", "reseal")

    assert without.err == "sendonce: set SENDONCE_SECRET_KEYS first; a key is made by: sendonce new-key\n"
    assert (first, second) == ("1 secret is encrypted with the first key\n", {"resealed": 1})
    assert "with a key that is not in SENDONCE_SECRET_KEYS" in too_late.err
    assert credentials(cli, 1, new).signing == (key_of(secret),)


def test_key_that_is_invalid_is_wrong_use_and_not_shown(lite: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENDONCE_SECRET_KEYS", "hunter2")

    wrong = lite(*HOOK)

    assert wrong.code == 2
    assert "made by: sendonce new-key" in wrong.err
    assert "hunter2" not in wrong.err


def lite_key(lite: Cli) -> str:
    """A key as the command makes it."""
    ran = lite("new-key")
    assert (ran.code, ran.err) == (0, "")
    return ran.out.strip()


@pytest.mark.parametrize(
    "name", ["Host", "TE", "Idempotency-Key", "Content-Type", "webhook-id", "X-Own", "Authorization"]
)
def test_headers_that_are_refused_are_those_that_would_not_be_sent(name: str) -> None:
    try:
        check_headers([f"{name}: value"])
        is_refused = False
    except ConfigError:
        is_refused = True

    assert is_refused is (name not in ("X-Own", "Authorization"))
    assert is_allowed(name, "value") is not is_refused
