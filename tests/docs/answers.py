"""Writes docs/reference/answers.md from the table of answers.

python -m tests.docs.answers
"""

from sendonce.domain.answers import TABLE, Row
from sendonce.domain.outcomes import (
    Accepted,
    Deferred,
    Delivered,
    Outcome,
    Refused,
    counts_for_breaker,
    fault_of,
    is_our_own,
)
from tests.processes import ROOT

PAGE = ROOT / "docs/reference/answers.md"
ASKING = "Asking about what may have been sent"
_HEADER = """# What an answer means

One table for all channels: what came back, which outcome that is, whose fault, which breaker counts it, whether it
spends an attempt, and what ends it. Written by `python -m tests.docs.answers` from
[the table that the code uses](../../src/sendonce/domain/answers.py); a test fails when this page is not what that would
write.

- **Whose fault.** *Recipient*: this one only (greylisting, a full mailbox). *Destination*: the receiver behind this
  address. *Channel*: the way to all of them (our mail server, our provider, our login). *Ours*: nobody else's.
- **Breaker.** *Destination*: the breaker of a destination with a host counts it. *Both*: so does that of a whole
  channel, which counts nothing else: what one recipient does to its mails stops nobody else's. What arrived or was
  refused was answered, and ends a row of failures.
- **Attempt.** Every result is counted. One that spends no attempt raises the limit by one.
- **Ends.** *Attempts*: at `max_attempts`. *Span*: a receiver that keeps asking to wait is obeyed at least as long and
  as often as the policy would have tried, then it is given up as exhausted. *Deadline*: only by the delivery's own
  (`expires_at`). *Answer*: what can be asked about is asked until there is one. What follows, and how long the waits
  are, is in [how a delivery gets there](../about/how-it-works.md).

503 and 429 say that the message was not taken. Every other 5xx can come after the receiver has taken it (a gateway that
did not wait any longer, a crash after the commit): Unknown, for every HTTP channel.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEADER, *(_section(title, rows) for title, rows in TABLE.items())])


def _section(title: str, rows: tuple[Row, ...]) -> str:
    lines = [f"## {title}", "", "| what came back | outcome | whose fault | breaker | attempt | ends |"]
    return "\n".join([*lines, "|---|---|---|---|---|---|", *(_row(row, title) for row in rows), ""])


def _row(row: Row, title: str) -> str:
    outcome = row.outcome
    ends = "answer" if title == ASKING and _ends(outcome) == "span" else _ends(outcome)
    cells = (row.said, _named(outcome), fault_of(outcome) or "–", _breaker(outcome), _spends(outcome), ends)
    return f"| {' | '.join(cells)} |"


def _named(outcome: Outcome) -> str:
    name = type(outcome).__name__
    return name if isinstance(outcome, Delivered | Accepted) else f"{name} `{outcome.code}`"


def _breaker(outcome: Outcome) -> str:
    if counts_for_breaker(outcome, of_channel=True):
        return "both"
    return "destination" if counts_for_breaker(outcome, of_channel=False) else "–"


def _spends(outcome: Outcome) -> str:
    return "–" if isinstance(outcome, Delivered | Deferred) else "spent"


def _ends(outcome: Outcome) -> str:
    match outcome:
        case Delivered():
            return "done"
        case Refused():
            return "at once"
        case Deferred():
            return "deadline" if is_our_own(outcome) else "span"
    return "attempts"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
