"""sendonce explain: tell in plain words why a delivery is where it is."""

import argparse

from sendonce.admin.explain import EventStory, Explanation, explain
from sendonce.admin.explain.story import Story
from sendonce.admin.text import plain
from sendonce.cli.commands import COMMANDS, Subparsers
from sendonce.cli.options import add_json
from sendonce.cli.output import paint, say, say_json
from sendonce.cli.running import with_store

_CONTENT = frozenset({"headers"})


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "explain",
        help=COMMANDS["explain"][1],
        description="Tell in plain words what was recorded, why a delivery is where it is and what happens next.",
    )
    parser.add_argument(
        "wanted",
        metavar="X",
        help="a delivery's id, event:12 or e12, dead-letter:3, an event's key (key:…), or a token (token:…)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    explanation = with_store(args, lambda store: explain(store, args.wanted))
    if args.json:
        say_json({"sentences": explanation.sentences, **_as_dict(explanation)})
    else:
        _tell(explanation)
    return 0


def _as_dict(explanation: Explanation) -> dict[str, object]:
    shown = plain(explanation, without=_CONTENT)
    return dict(shown) if isinstance(shown, dict) else {}


def _tell(explanation: Explanation) -> None:
    for note in explanation.notes:
        say(paint(note, "yellow"))
    for position, each in enumerate(explanation.events):
        if position:
            say("")
        _tell_event(each)


def _tell_event(told: EventStory) -> None:
    say(paint(told.recorded, "bold"))
    for line in told.gone:
        say(f"  {line}")
    if not told.deliveries and told.event.history_gone_at is None:
        say("  it goes nowhere: no destination was named and no subscription matched")
    for story in told.deliveries:
        say("")
        _tell_delivery(story)
    if told.untold:
        say(f"\nand {told.untold} more: sendonce events show {told.event.id}")


def _tell_delivery(story: Story) -> None:
    delivery = story.known.delivery
    generation = f", generation {delivery.generation}" if delivery.generation else ""
    say(f"{paint(f'delivery {delivery.id}', 'bold')} {story.goes_to}{generation}: {delivery.status}")
    for line in (*story.attempts, *story.generations):
        say(f"  {line}")
    for line in story.findings:
        say(f"  finding: {line}")
    for line in story.whereabouts:
        say(f"  {paint('→', 'green')} {line}")
    say(f"  {paint(f'token {story.known.token}', 'dim')}")
