"""sendonce explain: tell in plain words why a delivery is where it is."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sendonce.admin.advice import Advice
from sendonce.admin.explain import EventStory, Explanation
from sendonce.admin.explain.sentences import Story
from sendonce.cli.advice import document, remark_line, spelled
from sendonce.cli.output import fields_of, paint
from sendonce.cli.verbs import argument, verb

if TYPE_CHECKING:
    from sendonce.admin.api import Admin

_CONTENT = frozenset({"headers"})


@verb(
    "explain",
    "tell in plain words why a delivery is where it is",
    argument(
        "wanted",
        metavar="X",
        help="a delivery's id, event:12 or e12, dead-letter:3, an event's key (key:…), a token (token:…), or a message"
        " that came in (message:…)",
    ),
    about="Tell in plain words what was recorded, why a delivery is where it is and what happens next.",
)
async def explain(admin: "Admin", wanted: str) -> Explanation:
    return await admin.aexplain(wanted)


@explain.json
def _(explanation: Explanation) -> object:
    advice = [document(each) for each in explanation.advice]
    return {"sentences": explanation.sentences, "advice": advice, **fields_of(explanation, without=_CONTENT)}


@explain.text
def _(explanation: Explanation) -> Iterator[str]:
    for note in explanation.notes:
        yield paint(note, "yellow")
    yield from (paint(spelled(each), "yellow") for each in explanation.otherwise)
    yield from (remark_line(each) for each in explanation.messages)
    for position, each in enumerate(explanation.events):
        if position:
            yield ""
        yield from _event(each)


def _event(told: EventStory) -> Iterator[str]:
    yield paint(told.recorded, "bold")
    yield from (f"  {line}" for line in told.gone)
    if not told.deliveries and told.event.history_gone_at is None:
        yield "  it goes nowhere: no destination was named and no subscription matched"
    for story in told.deliveries:
        yield ""
        yield from _delivery(story)
    if told.untold:
        yield ""
        yield spelled(Advice(verb="event", why=f"and {told.untold} more", id=told.event.id, of="event"))


def _delivery(story: Story) -> Iterator[str]:
    delivery = story.known.delivery
    generation = f", generation {delivery.generation}" if delivery.generation else ""
    yield f"{paint(f'delivery {delivery.id}', 'bold')} {story.goes_to}{generation}: {delivery.status}"
    yield from (f"  {line}" for line in (*story.attempts, *story.generations))
    yield from (f"  finding: {line}" for line in story.findings)
    yield from (f"  evidence: {line}" for line in story.evidence)
    next_steps = (*story.whereabouts, *(spelled(each) for each in story.advice))
    yield from (f"  {paint('→', 'green')} {line}" for line in next_steps)
    yield f"  {paint(f'token {story.known.token}', 'dim')}"
