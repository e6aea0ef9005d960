"""Secrets at rest: sealed with a key where one is configured, marked as plain where none is.

What is sealed says inside what it is of, a subscription and a kind, and opens for nothing else: a row that was copied
to another subscription is no secret of that one. What was sealed before that (`sealed:` without a number) says nothing
and opens for anything; `sendonce subscriptions reseal` seals it anew, and then no other can be stored.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

VARIABLE = "SENDONCE_SECRET_KEYS"
_PLAIN, _SEALED, _BOUND = b"plain:", b"sealed:", b"sealed:2:"


class Use(NamedTuple):
    """What a secret is of. `kind` is signing, bearer, headers or certificate."""

    subscription_id: int
    kind: str

    @property
    def mark(self) -> bytes:
        return b"%d:%b:" % (self.subscription_id, self.kind.encode())


class Misplaced(ConfigError):
    """A sealed secret is of another subscription or kind than the row that it was found in."""


class SecretBox:
    """Seals with the first key and opens with any of them, so that a key can be replaced by one put before it.

    Without keys it only marks what it is given. Keys are made by `new_key`.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._fernet = _fernet(keys) if keys else None

    @property
    def has_keys(self) -> bool:
        return self._fernet is not None

    def seal(self, secret: bytes, use: Use) -> bytes:
        """The secret as it is stored."""
        return _PLAIN + secret if self._fernet is None else _BOUND + self._fernet.encrypt(use.mark + secret)

    def open(self, stored: bytes, use: Use) -> bytes:
        """The secret itself; ConfigError when that needs a key which is not there, Misplaced when it is of another
        use."""
        if stored.startswith(_PLAIN):
            return stored.removeprefix(_PLAIN)
        if not stored.startswith(_SEALED):
            raise ConfigError("a stored secret cannot be read: it was not stored by sendonce")
        if self._fernet is None:
            raise ConfigError(f"a stored secret is encrypted; put its key into {VARIABLE}")
        from cryptography.fernet import InvalidToken

        is_bound = stored.startswith(_BOUND)
        try:
            opened = self._fernet.decrypt(stored.removeprefix(_BOUND if is_bound else _SEALED))
        except InvalidToken:
            raise ConfigError(f"a stored secret was encrypted with a key that is not in {VARIABLE}; add it") from None
        if is_bound and not opened.startswith(use.mark):
            raise Misplaced(
                f"a {use.kind} secret of subscription {use.subscription_id} was stored for another subscription or use;"
                " delete it and enter the right one"
            )
        return opened.removeprefix(use.mark) if is_bound else opened


def new_key() -> str:
    """A key for SENDONCE_SECRET_KEYS."""
    return _cipher().generate_key().decode()


def _fernet(keys: Sequence[str]) -> "MultiFernet":
    cipher = _cipher()
    from cryptography.fernet import MultiFernet

    try:
        return MultiFernet([cipher(key) for key in keys])
    except ValueError:
        # Never which one, or how it reads: it may be a key with one letter missing.
        raise ConfigError("a key must be one that was made by: sendonce new-key") from None


def _cipher() -> "type[Fernet]":
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        raise ConfigError("encrypting secrets needs: pip install 'sendonce[secrets]'") from None
    return Fernet
