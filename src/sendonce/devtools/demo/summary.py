"""The end of it: every order accounted for, beside the naive outbox, and where to look further. Pure."""

from typing import NamedTuple

from sendonce.devtools.demo.accounts import Accounts
from sendonce.devtools.demo.observer import Fate
from sendonce.devtools.demo.picture import Paint
from sendonce.domain.deliveries import DeliveryState

NAME, NUMBER = 48, 12


class Row(NamedTuple):
    """A line of the table. `bad`: any number but zero is a failure."""

    name: str
    ours: int
    naive: int | None
    bad: bool = False
    good: bool = False


def table(accounts: Accounts, paint: Paint) -> list[str]:
    """What the receiver has counted, for both."""
    head = f"{'what the receiver has counted':<{NAME}}{'sendonce':>{NUMBER}}{'naive':>{NUMBER}}"
    return [paint(head, "bold"), *(_line(row, paint) for row in _rows(accounts))]


def sentences(accounts: Accounts, naive_source: str, paint: Paint) -> list[str]:
    """The accounts in words."""
    ours, naive = accounts.ours, accounts.naive
    letters = accounts.in_state(DeliveryState.DEAD_LETTERED)
    delivered = len(accounts.in_state(DeliveryState.COMPLETED))
    total = (
        f"{len(accounts.planned)} orders = {len(accounts.rolled_back)} rolled back + {delivered} delivered"
        f" + {len(letters)} dead letters; {len(ours.lost)} lost, {len(ours.doubled)} doubled"
    )
    reasons = ", ".join(f"order {fate.order} ({fate.reason})" for fate in letters)
    return [
        paint(total, "bold"),
        f"dead letters: {reasons or 'none'}",
        f"the naive outbox gave up {len(naive.lost)} that nobody had refused, and doubled {len(naive.doubled)}",
        "(killed, or the answer lost, between send and mark):",
        f"  {naive_source}",
    ]


def directions(accounts: Accounts, program: str, database: str) -> list[str]:
    """The commands to look further; each shows something of this run."""
    commands, examples = ["dead-letters list", "deliveries list", "status"], []
    for letter in accounts.in_state(DeliveryState.DEAD_LETTERED)[:1]:
        examples.append(f"order {letter.order} (refused)")
        commands.insert(0, f"explain {letter.delivery_id}")
    if told := _most_told(accounts):
        examples.insert(0, f"order {told.order} (in doubt)")
        commands.insert(0, f"explain {told.delivery_id}")
    return [
        f"{accounts.seconds:.0f} s. The database is kept; look at {' and '.join(examples) or 'it'}:",
        *(f"  {program} --database {database} {command}" for command in commands),
    ]


def _rows(accounts: Accounts) -> list[Row]:
    ours, naive = accounts.ours, accounts.naive
    rolled_back, committed = len(accounts.rolled_back), len(accounts.committed)

    def row(name: str, part: str, *, bad: bool = False, good: bool = False) -> Row:
        return Row(name, len(getattr(ours, part)), len(getattr(naive, part)), bad, good)

    return [
        Row("orders rolled back", rolled_back, rolled_back),
        row("  arrived all the same", "uninvited", bad=True),
        Row("orders committed", committed, committed),
        row("  acted upon once", "once", good=True),
        row("  acted upon twice or more", "doubled", bad=True),
        row("  refused by the receiver", "refused"),
        row("  never arrived", "lost", bad=True),
        Row("requests in flight at the SIGKILL", ours.killed.in_flight, naive.killed.in_flight),
        Row("  of which had arrived", ours.killed.arrived, naive.killed.arrived),
        Row("asked about before a repeat", ours.asked, None),
        Row("  found there, and not sent again", ours.found, None),
        Row("  not there, and sent after asking", ours.after_asking, None),
    ]


def _line(row: Row, paint: Paint) -> str:
    numbers = []
    for amount in (row.ours, row.naive):
        text = f"{'–' if amount is None else amount:>{NUMBER}}"
        colour = ("red" if amount else "green") if row.bad else "green" if row.good else ""
        numbers.append(paint(text, colour) if colour else text)
    return f"{row.name:<{NAME}}{''.join(numbers)}"


def _most_told(accounts: Accounts) -> Fate | None:
    """The delivered one with the most to tell: it was in doubt and found there, and it failed before."""
    doubtful = [fate for fate in accounts.in_state(DeliveryState.COMPLETED) if fate.was_in_doubt]
    return max(
        doubtful,
        key=lambda fate: (fate.order in accounts.found, len(set(fate.outcomes)), len(fate.outcomes)),
        default=None,
    )
