"""sendonce receive and demo: try things out on one machine."""

import argparse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sendonce.cli.context import configured, database_of
from sendonce.cli.parser import Parser, WrongUse
from sendonce.cli.verbs import Arguments, verb
from sendonce.domain.texts import harmless
from sendonce.errors import BadWebhook, ConfigError
from sendonce.signing import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sendonce.devtools.receive.handler import Tell
    from sendonce.devtools.receive.memory import Arrival
    from sendonce.devtools.receive.web import Verify

_RECEIVE = """Receives by HTTP, and by SMTP when told to, until SIGTERM or SIGINT: prints what arrives, verifies
signatures, answers look-ups (GET /deliveries/TOKEN), and misbehaves as told. WHEN is a share such as 0.2 (one in five),
first:3 (the first three) or each:1 (the first of each token); without it, always."""

_BEHAVIOURS = {
    "--fail": ("STATUS[:WHEN]", "turn requests away: 503, 503:0.2, 429:first:3"),
    "--retry-after": ("TIME", "say Retry-After to those that are turned away"),
    "--slow": ("TIME[:WHEN]", "wait before looking at a request; who hangs up meanwhile was not heard"),
    "--late": ("TIME[:WHEN]", "accept at once, and wait before answering"),
    "--look-up-fail": ("STATUS[:WHEN]", "answer look-ups with this status"),
    "--look-up-slow": ("TIME[:WHEN]", "wait before answering a look-up"),
    "--mail-fail": ("CODE[:WHEN]", "turn mails away: 451, 550:first:3"),
}
_SOMETIMES = {
    "--drop": "close the connection without accepting",
    "--drop-after-accept": "accept, remember, and close the connection without an answer",
    "--twice": "answer twice",
}
_DEMO = """See it survive what it must survive, on SQLite: 60 orders of which 5 roll back; a receiver that is
down, slow, loses answers, is busy and refuses some; and the worker killed while it sends: the next one asks the
receiver about what was in flight before it sends anything again. Beside it a naive outbox in the same troubles; the
receiver counts both. Takes less than half a minute, and keeps its database: sendonce-demo.db in the working directory,
or the file that --database names."""


def _add_receive(parser: Parser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8080, help="for HTTP; 0 is a free one (8080)")
    parser.add_argument("--smtp-port", type=_port, metavar="PORT", help="also receive mail here")
    parser.add_argument(
        "--control-port", type=_port, metavar="PORT", help="also take orders here (docs/how-to/receive.md)"
    )
    parser.add_argument("--secret-file", type=Path, metavar="FILE", help="verify signatures; a whsec_ secret a line")
    parser.add_argument("--deduplicate", action="store_true", help="accept each token once")
    parser.add_argument("--forget", action="store_true", help="remember nothing: look-ups find nothing")
    parser.add_argument("--no-ids", action="store_true", help="answer without an id")
    parser.add_argument("--closed", action="store_true", help="refuse connections until control opens it")
    for option, (metavar, help) in _BEHAVIOURS.items():
        parser.add_argument(option, metavar=metavar, help=help)
    for option, help in _SOMETIMES.items():
        parser.add_argument(option, nargs="?", const=True, metavar="WHEN", help=help)
    parser.add_argument("--keep", type=_count, default=100, metavar="N", help="keep so many of the last whole (100)")
    parser.add_argument("--verbose", action="store_true", help="show bodies too")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")
    parser.add_argument("--quiet", action="store_true", help="print nothing of what arrives")


@verb("receive", "receive locally, for trying things out", Arguments(_add_receive), about=_RECEIVE, has_json=False)
def receive(args: argparse.Namespace) -> None:
    import asyncio
    from importlib.util import find_spec

    if find_spec("aiohttp") is None or (args.smtp_port is not None and find_spec("aiosmtpd") is None):
        raise WrongUse("receiving needs more packages: pip install 'sendonce[receive]'")
    from sendonce.devtools.receive.behaviour import WELL, Rules, changed
    from sendonce.devtools.receive.handler import Handler
    from sendonce.devtools.receive.memory import Memory
    from sendonce.devtools.receive.service import Place, serve

    behaviour = configured(lambda: changed(WELL, _settings(args)))
    verify = configured(lambda: _verify(args.secret_file))
    memory = Memory(args.keep)
    memory.be_forgetful(args.forget)
    handler = Handler(Rules(behaviour), memory, _teller(args))
    place = Place(
        host=args.host,
        port=args.port,
        smtp_port=args.smtp_port,
        control_port=args.control_port,
        is_closed=args.closed,
    )
    asyncio.run(serve(handler, place, verify=verify, announce=_announce))


def _settings(args: argparse.Namespace) -> dict[str, object]:
    """The behaviour as options give it, under the names of the control document."""
    names = [option.removeprefix("--").replace("-", "_") for option in (*_BEHAVIOURS, *_SOMETIMES)]
    given: dict[str, Any] = {name: value for name in names if (value := getattr(args, name)) is not None}
    return {**given, "deduplicate": args.deduplicate, "ids": not args.no_ids}


def _verify(file: Path | None) -> "Verify | None":
    from sendonce.inbox.webhooks import verify

    if file is None:
        return None
    try:
        secrets = file.read_text("utf-8").split()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"--secret-file {file} cannot be read") from None
    if not secrets:
        raise ConfigError(f"--secret-file {file} is empty: write a whsec_ secret into it, one a line")
    for secret in secrets:
        key_of(secret)

    def is_signed(headers: "Mapping[str, str]", body: bytes) -> bool:
        try:
            verify(headers, body, secrets)
        except BadWebhook:
            return False
        return True

    return is_signed


def _teller(args: argparse.Namespace) -> "Tell":
    from sendonce.devtools.receive.handler import json_line, line

    if args.quiet:
        return lambda arrival, said: None
    written = json_line if args.json else line

    def tell(arrival: "Arrival", said: str) -> None:
        with suppress(OSError):  # nobody reads it any more; the senders still want their answers
            print(harmless(written(arrival, said, is_verbose=args.verbose)), flush=True)

    return tell


def _announce(sentence: str) -> None:
    """On standard error, so that standard output is what arrived and nothing else."""
    import sys

    print(harmless(sentence), file=sys.stderr, flush=True)


def _port(text: str) -> int:
    number = _count(text)
    if number > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return number


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


@verb("demo", "see it survive what it must survive, on SQLite", about=_DEMO, has_json=False)
def demo(args: argparse.Namespace) -> None:
    from sendonce.compose import is_sqlite, sqlite_path
    from sendonce.devtools.demo.run import demonstrate

    # The environment's database is somebody's own: only one that was named for this is used.
    if getattr(args, "database", None) is None:
        return demonstrate(None)
    url = database_of(args)
    if not is_sqlite(url):
        raise WrongUse("the demonstration makes a SQLite database of its own; name a file, or leave --database out")
    return demonstrate(sqlite_path(url))
