"""sendonce subscriptions rotate-secret and reseal: new secrets, and stored ones under a new key."""

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING

from sendonce.admin import subscriptions
from sendonce.admin.text import counted, plain
from sendonce.cli import values
from sendonce.cli.options import add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.parser import Parser
from sendonce.cli.running import with_store
from sendonce.cli.secret_files import add_config, add_secret_file, sealer_of, signing_of
from sendonce.cli.settings import operator_of
from sendonce.domain.durations import format_duration
from sendonce.store.records import SubscriptionRow

if TYPE_CHECKING:
    from sendonce.store.ports import Store


def add_rotate(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the subscription's id")
    parser.add_argument(
        "--overlap",
        type=values.duration,
        default=timedelta(days=1),
        metavar="TIME",
        help="how long the old secret signs too (default 24h); 0s ends it at once",
    )
    add_secret_file(parser)
    add_config(parser)
    add_operator(parser)
    add_json(parser)


def add_reseal(parser: Parser) -> None:
    add_config(parser)
    add_operator(parser, reason=False)
    add_json(parser)


def rotate(args: argparse.Namespace) -> int:
    operator, sealer = operator_of(args), sealer_of(args)
    brought = signing_of(args)

    async def work(store: "Store") -> tuple[str, bool, SubscriptionRow]:
        secret, is_replacement = await subscriptions.rotate(
            store, args.id, brought, overlap=args.overlap, sealer=sealer, operator=operator, reason=args.reason
        )
        return secret, is_replacement, await subscriptions.standing(store, args.id)

    secret, is_replacement, row = with_store(args, work)
    old = "there was none before it"
    if is_replacement:
        lasts = f"signs too for {format_duration(args.overlap)}" if args.overlap else "is gone"
        old = f"the one before it {lasts}"
    sentence = f"subscription {args.id} has a new secret; {old}"
    say_with_secret(args, row, sentence, secret if brought is None else None)
    return 0


def reseal(args: argparse.Namespace) -> int:
    operator, sealer = operator_of(args), sealer_of(args)
    amount = with_store(args, lambda store: subscriptions.reseal(store, sealer, operator=operator))
    if args.json:
        say_json({"resealed": amount})
    else:
        say(f"{counted(amount, 'secret')} {'is' if amount == 1 else 'are'} encrypted with the first key")
    return 0


def say_with_secret(args: argparse.Namespace, row: SubscriptionRow, sentence: str, secret: str | None) -> None:
    """What was done, and a secret that was made for it: the one time that it is shown."""
    if args.json:
        say_json(as_dict(row) if secret is None else as_dict(row) | {"secret": secret})
        return
    say(sentence)
    if secret is not None:
        say(f"it is signed with this secret, which is not shown again: {secret}")


def as_dict(row: SubscriptionRow) -> dict[str, object]:
    shown = plain(row)
    return dict(shown) if isinstance(shown, dict) else {}
