"""Run the demonstration from beginning to end, and tell what came of it."""

import os
import shlex
import shutil
import sqlite3
import sys
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import quote

from sendonce.channels.registry import has_http
from sendonce.devtools.demo import naive
from sendonce.devtools.demo.accounts import Accounts, broken_promises, tally
from sendonce.devtools.demo.observer import Fate, Observer
from sendonce.devtools.demo.processes import ReceiverProcess, family
from sendonce.devtools.demo.scenario import Senders, Stage, play
from sendonce.devtools.demo.screen import Paint, paint, screen
from sendonce.devtools.demo.shop import ORDERS, ROLLED_BACK, Shop, Side
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.texts import harmless
from sendonce.errors import ConfigError, SendonceError, StoreError

NAME = "sendonce-demo"
MARK = 0x534F4E43  # in the file's header, where SQLite keeps the number of the application that a file belongs to


def take(path: Path | None) -> Path:
    """A new, marked, empty database: at `path`, else in the working directory under the first name that is free."""
    if path is not None:
        if not _is_replaceable(path):
            raise StoreError(f"{path} is there already and is no demonstration, or is in use; name another file")
        return _fresh(path)
    names = (Path(f"{NAME}.db" if number == 1 else f"{NAME}-{number}.db") for number in count(1))
    return _fresh(next(name for name in names if _is_replaceable(name)))


def _is_replaceable(path: Path) -> bool:
    """True when there is nothing, or an earlier demonstration that nobody is using."""
    if not os.path.lexists(path):
        return True
    if not path.is_file() or path.is_symlink():
        return False
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=0)) as connection:
            if connection.execute("pragma application_id").fetchone() != (MARK,):
                return False
            # Leaving WAL needs the file for oneself alone.
            return bool(connection.execute("pragma journal_mode = delete").fetchone() == ("delete",))
    except sqlite3.Error:
        return False


def _fresh(path: Path) -> Path:
    try:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"pragma application_id = {MARK}")
    except (OSError, sqlite3.Error):
        raise StoreError(
            f"the demonstration cannot make its database {path}; is the folder there and writable?"
        ) from None
    return path


WIDTH, NUMBER = 48, 12


class SummaryRow(NamedTuple):
    """A line of the table. `bad`: any number but zero is a failure."""

    name: str
    ours: int
    naive: int | None
    bad: bool = False
    good: bool = False


def table(accounts: Accounts, paint: Paint) -> list[str]:
    """What the receiver has counted, for both."""
    head = f"{'what the receiver has counted':<{WIDTH}}{'sendonce':>{NUMBER}}{'naive':>{NUMBER}}"
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


def _rows(accounts: Accounts) -> list[SummaryRow]:
    ours, naive = accounts.ours, accounts.naive
    rolled_back, committed = len(accounts.rolled_back), len(accounts.committed)

    def row(name: str, part: str, *, bad: bool = False, good: bool = False) -> SummaryRow:
        return SummaryRow(name, len(getattr(ours, part)), len(getattr(naive, part)), bad, good)

    return [
        SummaryRow("orders rolled back", rolled_back, rolled_back),
        row("  arrived all the same", "uninvited", bad=True),
        SummaryRow("orders committed", committed, committed),
        row("  acted upon once", "once", good=True),
        row("  acted upon twice or more", "doubled", bad=True),
        row("  refused by the receiver", "refused"),
        row("  never arrived", "lost", bad=True),
        SummaryRow("requests in flight at the SIGKILL", ours.killed.in_flight, naive.killed.in_flight),
        SummaryRow("  of which had arrived", ours.killed.arrived, naive.killed.arrived),
        SummaryRow("asked about before a repeat", ours.asked, None),
        SummaryRow("  found there, and not sent again", ours.found, None),
        SummaryRow("  not there, and sent after asking", ours.after_asking, None),
    ]


def _line(row: SummaryRow, paint: Paint) -> str:
    numbers = []
    for amount in (row.ours, row.naive):
        text = f"{'–' if amount is None else amount:>{NUMBER}}"
        colour = ("red" if amount else "green") if row.bad else "green" if row.good else ""
        numbers.append(paint(text, colour) if colour else text)
    return f"{row.name:<{WIDTH}}{''.join(numbers)}"


def _most_told(accounts: Accounts) -> Fate | None:
    """The delivered one with the most to tell: it was in doubt and found there, and it failed before."""
    doubtful = [fate for fate in accounts.in_state(DeliveryState.COMPLETED) if fate.was_in_doubt]
    return max(
        doubtful,
        key=lambda fate: (fate.order in accounts.found, len(set(fate.outcomes)), len(fate.outcomes)),
        default=None,
    )


# How the receiver can be asked: GET …/TOKEN answers whether it has a message.
SETTINGS = """\
[http.receiver]
url = "http://{address}/sendonce/"
look_up = "http://{address}/deliveries/{{token}}"
"""


def demonstrate(path: Path | None) -> None:
    """Play it on a new database, at `path` or under a name of its own; SendonceError when a promise was broken."""
    if not has_http():
        raise ConfigError("the demonstration sends and receives over HTTP: pip install 'sendonce[http,receive]'")
    taken = take(path)
    accounts = _play(taken)
    _say("", *table(accounts, paint))
    _say("", *sentences(accounts, _short(naive.__file__), paint))
    _say("", *directions(accounts, _program(), shlex.quote(_url(taken))))
    if broken := broken_promises(accounts):
        raise SendonceError(f"this should not have happened: {'; '.join(broken)}")


def _play(path: Path) -> Accounts:
    url = _url(path)
    with (
        closing(Observer(url)) as observer,
        family() as processes,
        TemporaryDirectory(prefix="sendonce-demo-") as folder,
        ExitStack() as closed_later,
    ):
        receiver = ReceiverProcess(processes)
        shop = closed_later.enter_context(closing(Shop(path, receiver.address)))
        shop.open()
        stage = Stage(closed_later.enter_context(screen()), shop, observer, receiver, processes)
        config = Path(folder, "sendonce.toml")
        config.write_text(SETTINGS.format(address=receiver.address), "utf-8")
        killed = play(stage, Senders(stage, url, str(path), str(config)))
        counts = receiver.counts()
        orders = frozenset(shop.orders())
        return Accounts(
            planned=ORDERS,
            rolled_back=ROLLED_BACK,
            orders=orders,
            recorded=frozenset(observer.recorded()),
            fates=tuple(observer.fates()),
            asked=frozenset(counts[Side.SENDONCE].asked),
            found=frozenset(counts[Side.SENDONCE].found),
            ours=tally(counts[Side.SENDONCE], ORDERS - ROLLED_BACK, killed[Side.SENDONCE]),
            naive=tally(counts[Side.NAIVE], ORDERS - ROLLED_BACK, killed[Side.NAIVE]),
            seconds=stage.seconds,
        )


def _say(*lines: str) -> None:
    for line in lines:
        print(harmless(line))


def _url(path: Path) -> str:
    return f"sqlite:///{path}"


def _short(path: str) -> str:
    """A path as one would type it here."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _program() -> str:
    """How this program was called, so that the commands we print can be typed as they are."""
    called = Path(sys.argv[0])
    if called.name != "sendonce":
        return f"{_typed(sys.executable)} -m sendonce"
    return _typed(str(called))


def _typed(program: str) -> str:
    name = os.path.basename(program)
    found = shutil.which(name)
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(program)
    return name if is_found else shlex.quote(_short(os.path.abspath(program)))
