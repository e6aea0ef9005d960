"""Secrets at rest: any of the keys opens, the first one seals, and nothing is said of what is inside."""

import sys

import pytest
from cryptography.fernet import Fernet

from sendonce.errors import ConfigError
from sendonce.sealing import Misplaced, SecretBox, Use, new_key

OLD, NEW = new_key(), new_key()
SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
USE = Use(42, "signing")


@pytest.mark.parametrize("keys", [[], [OLD], [NEW, OLD]], ids=["no key", "one key", "two keys"])
def test_secret_that_is_encrypted_can_be_decrypted(keys: list[str]) -> None:
    assert SecretBox(keys).open(SecretBox(keys).seal(SECRET, USE), USE) == SECRET


def test_secret_encrypted_with_a_key_cannot_be_seen_in_the_database() -> None:
    assert SECRET not in SecretBox([OLD]).seal(SECRET, USE)
    assert SecretBox([OLD]).seal(SECRET, USE) != SecretBox([OLD]).seal(SECRET, USE)


def test_keys_decrypt_all_and_the_first_one_encrypts() -> None:
    old, both, new = SecretBox([OLD]), SecretBox([NEW, OLD]), SecretBox([NEW])

    assert both.open(old.seal(SECRET, USE), USE) == SECRET
    assert new.open(both.seal(SECRET, USE), USE) == SECRET


def test_secret_stored_plain_is_still_read_when_a_key_is_there() -> None:
    assert SecretBox([OLD]).open(SecretBox().seal(SECRET, USE), USE) == SECRET


@pytest.mark.parametrize(
    ("stored", "keys", "said"),
    [
        (SecretBox([OLD]).seal(SECRET, USE), [], "is encrypted; put its key into SENDONCE_SECRET_KEYS"),
        (SecretBox([OLD]).seal(SECRET, USE), [NEW], "with a key that is not in SENDONCE_SECRET_KEYS"),
        (SecretBox([OLD]).seal(SECRET, USE)[:-4], [OLD], "with a key that is not in SENDONCE_SECRET_KEYS"),
        (SECRET, [OLD], "was not stored by sendonce"),
    ],
    ids=["no key", "another key", "cut", "not ours"],
)
def test_secret_that_cannot_be_decrypted_says_what_to_do_and_hides_itself(
    stored: bytes, keys: list[str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        SecretBox(keys).open(stored, USE)

    assert "whsec" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("key", ["short", OLD[:-5], "ü" * 44], ids=["short", "cut", "not ASCII"])
def test_key_that_is_none_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError, match="made by: sendonce new-key") as caught:
        SecretBox([OLD, key])

    assert key not in str(caught.value)
    assert OLD not in str(caught.value)


def test_encryption_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)

    for work in (new_key, lambda: SecretBox([OLD])):
        with pytest.raises(ConfigError, match=r"pip install 'sendonce\[secrets\]'"):
            work()
    assert SecretBox().open(SecretBox().seal(SECRET, USE), USE) == SECRET


def test_keys_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    sealer = SecretBox([OLD])

    assert OLD not in repr(sealer)


@pytest.mark.parametrize("use", [Use(4, "signing"), Use(421, "signing"), Use(42, "bearer"), Use(2, "signing")])
def test_secret_encrypted_for_one_use_opens_for_no_other(use: Use) -> None:
    stored = SecretBox([OLD]).seal(SECRET, USE)

    with pytest.raises(Misplaced, match="stored for another subscription or use; delete it and enter") as caught:
        SecretBox([OLD]).open(stored, use)

    assert "whsec" not in str(caught.value)


def test_secret_that_looks_like_the_mark_of_a_use_is_kept_whole() -> None:
    stored = SecretBox([OLD]).seal(USE.mark + SECRET, USE)

    assert SecretBox([OLD]).open(stored, USE) == USE.mark + SECRET


@pytest.mark.parametrize("secret", [SECRET, USE.mark + SECRET])
def test_secret_encrypted_before_uses_were_recorded_still_opens(secret: bytes) -> None:
    """As the version before stored it: `sealed:` and the token of the secret alone."""
    stored = b"sealed:" + Fernet(OLD).encrypt(secret)

    assert SecretBox([OLD]).open(stored, USE) == SecretBox([OLD]).open(stored, Use(1, "bearer")) == secret
