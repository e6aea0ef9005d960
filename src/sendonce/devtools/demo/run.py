"""Run the demonstration from beginning to end, and tell what came of it."""

import os
import shlex
import shutil
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from sendonce.channels.registry import has_http
from sendonce.devtools.demo import files, naive, summary
from sendonce.devtools.demo.accounts import Accounts, broken_promises, tally
from sendonce.devtools.demo.observer import Observer
from sendonce.devtools.demo.plan import ORDERS, ROLLED_BACK, Side
from sendonce.devtools.demo.processes import family
from sendonce.devtools.demo.remote import Receiver
from sendonce.devtools.demo.scenario import Senders, play
from sendonce.devtools.demo.screen import paint, screen
from sendonce.devtools.demo.shop import Shop
from sendonce.devtools.demo.stage import Stage
from sendonce.errors import ConfigError, SendonceError

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
    taken = files.take(path)
    accounts = _play(taken)
    _say("", *summary.table(accounts, paint))
    _say("", *summary.sentences(accounts, _short(naive.__file__), paint))
    _say("", *summary.directions(accounts, _program(), shlex.quote(_url(taken))))
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
        receiver = Receiver(processes)
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
        print(line)


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
