"""A payload as it is given on the command line: as JSON, in a file, or on standard input."""

import argparse
import json
import sys
from pathlib import Path

from sendonce.cli.failures import WrongUse
from sendonce.cli.parser import Parser


def add_payload(parser: Parser, without: str) -> None:
    """--payload and --payload-file; `without` says what holds when neither is given."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--payload", metavar="JSON", help=f"the content; - reads standard input ({without})")
    source.add_argument("--payload-file", metavar="FILE", help="the content, from a file; - reads standard input")


def payload_of(args: argparse.Namespace) -> object:
    """What was given; None when nothing was."""
    source = "the payload"
    if args.payload == "-" or args.payload_file == "-":
        text, source = _decoded(sys.stdin.buffer.read(), "standard input"), "standard input"
    elif args.payload is not None:
        text = args.payload
    elif args.payload_file is not None:
        source = args.payload_file
        try:
            text = _decoded(Path(source).read_bytes(), source)
        except (OSError, ValueError) as error:
            raise WrongUse(f"{source} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    else:
        return None
    try:
        return json.loads(text)
    except RecursionError:
        raise WrongUse(f"{source} is nested too deeply to be JSON") from None
    except ValueError as error:
        # Only where it goes wrong: the text itself may be secret.
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise WrongUse(f"{source} is not JSON{place}") from None


def has_payload(args: argparse.Namespace) -> bool:
    return args.payload is not None or args.payload_file is not None


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUse(f"{source} is not UTF-8 text") from None
