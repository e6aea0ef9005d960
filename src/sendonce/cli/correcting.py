"""sendonce dead-letters correct: another address or other content for what was given up."""

import argparse
from typing import TYPE_CHECKING

from sendonce.admin.dead_letters import Reopened, amended_mail, correct, open_letter
from sendonce.cli import values
from sendonce.cli.failures import WrongUse
from sendonce.cli.options import add_even_if_sent, add_json, add_operator
from sendonce.cli.output import say, say_json
from sendonce.cli.parser import Parser
from sendonce.cli.payloads import add_payload, has_payload, payload_of
from sendonce.cli.running import with_store
from sendonce.cli.settings import operator_of
from sendonce.errors import BadDestination, BadEvent

if TYPE_CHECKING:
    from sendonce.store.ports import Store

_PARTS = ("subject", "text", "html")


def add_correct(parser: Parser) -> None:
    parser.add_argument("id", type=values.row_id, metavar="ID", help="the dead letter's id")
    parser.add_argument("--to", type=values.named_destination, metavar="URI", help="where it goes instead")
    add_payload(parser, "default: as it is")
    parser.add_argument("--subject", metavar="TEXT", help="an e-mail's new subject")
    parser.add_argument("--text", metavar="TEXT", help="an e-mail's new text")
    parser.add_argument("--html", metavar="TEXT", help="an e-mail's new HTML text")
    add_operator(parser, reason_required=True)
    add_even_if_sent(parser)
    add_json(parser)


def run_correct(args: argparse.Namespace) -> int:
    changes = {name: getattr(args, name) for name in _PARTS if getattr(args, name) is not None}
    if not changes and not has_payload(args) and args.to is None:
        raise WrongUse("say what is corrected: --to URI, --payload JSON, or --subject, --text and --html of an e-mail")
    if changes and has_payload(args):
        raise WrongUse("--subject, --text and --html make an e-mail; --payload is for everything else")
    payload, operator = payload_of(args), operator_of(args)
    try:
        done = with_store(args, lambda store: _correct(store, args, changes, payload, operator))
    except (BadEvent, BadDestination) as error:
        raise WrongUse(str(error)) from None
    if args.json:
        say_json(done)
    else:
        say(f"delivery {done.old_delivery_id} is corrected: delivery {done.delivery_id} goes to {done.destination}")
    return 0


async def _correct(
    store: "Store", args: argparse.Namespace, changes: dict[str, str], payload: object, operator: str
) -> Reopened:
    letter = await open_letter(store, args.id)
    return await correct(
        store,
        letter.delivery_id,
        to=await amended_mail(store, letter.delivery_id, args.to, changes) if changes else args.to,
        payload=payload,
        operator=operator,
        reason=args.reason,
        even_if_sent=args.even_if_sent,
    )
