"""Secrets on the command line: from files or standard input, never as plain words that a process list would show."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sendonce.admin.subscriptions import Secrets, check_bearer, check_certificate, check_headers, check_signing
from sendonce.cli.failures import WrongUse
from sendonce.cli.parser import Parser
from sendonce.cli.sending import sealer_for
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from sendonce.sealing import SecretBox

Answer = TypeVar("Answer")
LONGEST = 100_000
_FILES = ("secret_file", "bearer_file", "header_file", "client_certificate")


def add_config(parser: Parser) -> None:
    """--config: where the keys may stand with which secrets are stored."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the settings file; else SENDONCE_CONFIG, else ./sendonce.toml if it is there",
    )


def add_secret_file(parser: Parser) -> None:
    parser.add_argument(
        "--secret-file", metavar="FILE", help="sign with this secret (whsec_…) instead of a new one; - reads it"
    )


def add_secrets(parser: Parser) -> None:
    """The options of everything that requests are signed and sent with."""
    add_secret_file(parser)
    parser.add_argument("--no-secret", action="store_true", help="do not sign what is sent to it")
    parser.add_argument("--bearer-file", metavar="FILE", help="send this bearer token; - reads standard input")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="send this header too; may be repeated; a secret one belongs into --header-file",
    )
    parser.add_argument("--header-file", metavar="FILE", help="send these headers too, one a line; - reads them")
    parser.add_argument(
        "--client-certificate", metavar="FILE", help="present this certificate: PEM, with its key; - reads it"
    )
    add_config(parser)


def secrets_of(args: argparse.Namespace, *, is_signed: bool) -> Secrets:
    """What the options bring; with a new signing secret where `is_signed` and none is brought or refused."""
    from sendonce.channels.signing import new_secret

    if [getattr(args, name) for name in _FILES].count("-") > 1:
        raise WrongUse("only one of the files can be standard input")
    if args.no_secret and args.secret_file is not None:
        raise WrongUse("--no-secret and --secret-file exclude each other")
    lines = [*args.header, *(_read(args.header_file).splitlines() if args.header_file else [])]
    headers = _said(lambda: check_headers(line for line in lines if line.strip()))
    if args.bearer_file is not None and "authorization" in {name.lower() for name in headers}:
        raise WrongUse("a bearer token and an Authorization header exclude each other")
    brought = signing_of(args)
    return Secrets(
        signing=brought or (new_secret() if is_signed and not args.no_secret else None),
        bearer=_checked(check_bearer, args.bearer_file),
        headers=headers,
        certificate=_checked(check_certificate, args.client_certificate),
    )


def signing_of(args: argparse.Namespace) -> str | None:
    """The signing secret that somebody brings, checked."""
    return _checked(check_signing, args.secret_file)


def sealer_of(args: argparse.Namespace) -> "SecretBox":
    """With the keys of the settings file or the environment: those that workers open secrets with."""
    return sealer_for(args)


def _checked(check: Callable[[str], str], source: str | None) -> str | None:
    if source is None:
        return None
    text = _read(source)
    return _said(lambda: check(text))


def _said(work: Callable[[], Answer]) -> Answer:
    """What `work` answers; what is wrong with an option is wrong use."""
    try:
        return work()
    except ConfigError as error:
        raise WrongUse(str(error)) from None


def _read(source: str) -> str:
    named = "standard input" if source == "-" else source
    try:
        content = sys.stdin.buffer.read(LONGEST + 1) if source == "-" else _file(source)
        if len(content) > LONGEST:
            raise WrongUse(f"{named} is too long for a secret")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUse(f"{named} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise WrongUse(f"{named} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _file(source: str) -> bytes:
    with Path(source).open("rb") as file:
        return file.read(LONGEST + 1)
