"""Secrets at rest: any of the keys opens, the first one seals, and nothing is said of what is inside."""

import sys

import pytest

from sendonce.errors import ConfigError
from sendonce.sealing import Sealer, new_key

OLD, NEW = new_key(), new_key()
SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize("keys", [[], [OLD], [NEW, OLD]], ids=["no key", "one key", "two keys"])
def test_what_is_sealed_can_be_opened(keys: list[str]) -> None:
    assert Sealer(keys).open(Sealer(keys).seal(SECRET)) == SECRET


def test_with_a_key_the_secret_cannot_be_seen_in_what_is_stored() -> None:
    assert SECRET not in Sealer([OLD]).seal(SECRET)
    assert Sealer([OLD]).seal(SECRET) != Sealer([OLD]).seal(SECRET)


def test_the_first_key_seals_and_every_key_opens() -> None:
    old, both, new = Sealer([OLD]), Sealer([NEW, OLD]), Sealer([NEW])

    assert both.open(old.seal(SECRET)) == SECRET
    assert new.open(both.seal(SECRET)) == SECRET


def test_what_was_stored_plain_is_still_read_when_a_key_is_there() -> None:
    assert Sealer([OLD]).open(Sealer().seal(SECRET)) == SECRET


@pytest.mark.parametrize(
    ("stored", "keys", "said"),
    [
        (Sealer([OLD]).seal(SECRET), [], "is encrypted; put its key into SENDONCE_SECRET_KEYS"),
        (Sealer([OLD]).seal(SECRET), [NEW], "with a key that is not in SENDONCE_SECRET_KEYS"),
        (Sealer([OLD]).seal(SECRET)[:-4], [OLD], "with a key that is not in SENDONCE_SECRET_KEYS"),
        (SECRET, [OLD], "was not stored by sendonce"),
    ],
    ids=["no key", "another key", "cut", "not ours"],
)
def test_what_cannot_be_opened_says_what_to_do_and_nothing_of_the_secret(
    stored: bytes, keys: list[str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Sealer(keys).open(stored)

    assert "whsec" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("key", ["short", OLD[:-5], "ü" * 44], ids=["short", "cut", "not ASCII"])
def test_a_key_that_is_none_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError, match="made by: sendonce new-key") as caught:
        Sealer([OLD, key])

    assert key not in str(caught.value)
    assert OLD not in str(caught.value)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)

    for work in (new_key, lambda: Sealer([OLD])):
        with pytest.raises(ConfigError, match=r"pip install 'sendonce\[secrets\]'"):
            work()
    assert Sealer().open(Sealer().seal(SECRET)) == SECRET


def test_keys_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    sealer = Sealer([OLD])

    assert OLD not in repr(sealer)
