"""Says which deliveries are on their way again, and which of them may arrive a second time."""

from collections.abc import Sequence

from sendonce.admin.dead_letters import Reopened
from sendonce.cli.output import say, say_json


def say_reopened(reopened: Sequence[Reopened], *, as_json: bool) -> int:
    if as_json:
        say_json(reopened)
        return 0
    for each in reopened:
        doubt = "; it may arrive twice where the receiver does not know our token" if each.may_repeat else ""
        say(
            f"delivery {each.old_delivery_id} is sent again as delivery {each.delivery_id} to {each.destination}{doubt}"
        )
    return 0
