"""sendonce worker: send what is due, until told to stop."""

import argparse
from typing import TYPE_CHECKING, Any

from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.parser import WrongUse
from sendonce.cli.sending import add_sending, channels_for, settings_for
from sendonce.cli.settings import database_of
from sendonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import timedelta

    from sendonce.engine.config import WorkerConfig
    from sendonce.engine.daemon import Parts
    from sendonce.stores.ports import Doorbell


def add(subparsers: "Subparsers") -> None:
    """Enter the command and its options."""
    parser = subparsers.add_parser(
        "worker",
        help=COMMANDS["worker"][1],
        description="Sends what is due, until SIGTERM or SIGINT. Any number may run, on any number of hosts.",
    )
    parser.add_argument("--concurrency", type=int, default=100, metavar="N", help="sends at once (default 100)")
    parser.add_argument(
        "--lease", type=_duration, default="30s", metavar="TIME", help="how long a claim holds without renewal (30s)"
    )
    parser.add_argument(
        "--poll", type=_duration, default="1s", metavar="TIME", help="the longest pause between two looks (1s)"
    )
    parser.add_argument(
        "--grace", type=_duration, default="20s", metavar="TIME", help="time to finish when told to stop (20s)"
    )
    parser.add_argument(
        "--per-destination", type=int, metavar="N", help="the most sends at once to one destination (4/5 of all)"
    )
    parser.add_argument("--per-host", type=int, metavar="N", help="the most sends at once to one host (all)")
    parser.add_argument(
        "--breaker-after", type=int, default=10, metavar="N", help="failures in a row that open a breaker (10)"
    )
    parser.add_argument(
        "--breaker-pause", type=_duration, default="10s", metavar="TIME", help="how long until the first probe (10s)"
    )
    parser.add_argument("--until-idle", action="store_true", help="return when nothing is due now or in flight")
    add_sending(parser)
    parser.add_argument(
        "--policy", metavar="JSON", help='the default policy, like {"max_attempts": 5}; else SENDONCE_POLICY'
    )
    parser.add_argument(
        "--notify", action="store_true", help="also listen for announcements of publishers that notify (PostgreSQL)"
    )
    parser.add_argument(
        "--listen-database", metavar="URL", help="where to listen, when --database goes through a pooler"
    )
    parser.add_argument("--verbose", action="store_true", help="also log every settled batch")


def run(args: argparse.Namespace) -> int:
    """Work; 0 when it stopped as told."""
    from sendonce.engine import daemon

    url = database_of(args)
    try:
        parts = _parts(args, url)
    except ConfigError as error:
        raise WrongUse(str(error)) from None
    _log_to_stderr(verbose=args.verbose)
    _run_on_best_loop(daemon.run(parts))
    return 0


def _duration(text: str) -> "timedelta":
    from sendonce.domain.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parts(args: argparse.Namespace, url: str) -> "Parts":
    import os

    from sendonce import __version__
    from sendonce.compose import open_store
    from sendonce.domain.policies import DEFAULT_POLICY, parse_policy
    from sendonce.engine.daemon import Parts
    from sendonce.observe import logs

    settings = settings_for(args)
    return Parts(
        open_store=lambda: open_store(url),
        channels=channels_for(args, settings),
        config=_config(args),
        emit=logs.write,
        version=__version__,
        policy=parse_policy(DEFAULT_POLICY, args.policy or os.environ.get("SENDONCE_POLICY")),
        doorbell=_doorbell(args, url),
        sealer=settings.sealer,
        alerts=settings.alerts,
    )


def _config(args: argparse.Namespace) -> "WorkerConfig":
    from sendonce.engine.config import BREAKER_LONGEST, WorkerConfig

    return WorkerConfig(
        concurrency=args.concurrency,
        lease=args.lease,
        poll=args.poll,
        grace=args.grace,
        until_idle=args.until_idle,
        per_destination=args.per_destination,
        per_host=args.per_host,
        breaker_after=args.breaker_after,
        breaker_pause=args.breaker_pause,
        breaker_longest=max(BREAKER_LONGEST, args.breaker_pause),
    )


def _doorbell(args: argparse.Namespace, url: str) -> "Doorbell | None":
    from sendonce.compose import check_url, open_doorbell

    if not args.notify and args.listen_database is None:
        return None
    return open_doorbell(check_url(args.listen_database) if args.listen_database else url)


def _log_to_stderr(*, verbose: bool) -> None:
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("sendonce")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)


def _run_on_best_loop(work: "Coroutine[Any, Any, object]") -> None:
    import asyncio
    import gc
    from importlib.util import find_spec

    # Claims come and go by the thousand and hold no cycles: looking for cycles among them at every turn costs a tenth.
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    if find_spec("uvloop") is None:
        asyncio.run(work)
        return
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)
