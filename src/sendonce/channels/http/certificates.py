"""TLS with a client's certificate, or an authority of one's own, from PEM texts. Made once for each."""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from sendonce.errors import ConfigError


@lru_cache(maxsize=256)
def context_of(certificate: str | None, authority: str | None = None) -> ssl.SSLContext:
    """The client's side of TLS. `certificate` holds the certificate and its key; `authority` is trusted alone.

    ConfigError, without what they contain, when they cannot be read.
    """
    try:
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError):
        raise ConfigError("the certificate authority cannot be read: give its certificate as PEM") from None
    if certificate is None:
        return context
    try:
        with _file_of(certificate) as path:
            # A key with a passphrase must not make OpenSSL ask for it at the terminal.
            context.load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            "the client certificate cannot be read: give PEM with the certificate and its unlocked key"
        ) from None
    return context


@contextmanager
def _file_of(text: str) -> Iterator[str]:
    """A file that only we can read, for as long as it is read: OpenSSL takes no text."""
    descriptor, path = tempfile.mkstemp(prefix="sendonce-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
