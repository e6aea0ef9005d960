"""Counts the files of four walks through the package: how many must be read to follow one delivery.

A file is entered on a walk when one of its functions is called because of it. It is to be followed when one of its
functions then calls another file: what is called and calls nothing (a limit, a time, a text, a record) is looked at in
passing. What a worker calls that has nothing to do, and what the command line calls for a list, belongs to no walk;
nor does what is only imported or done once at the start.

`python -m tests.docs.walks` writes them into docs/about/architecture.md; with --print it only shows them.
"""

import asyncio
import contextlib
import io
import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, TypeAlias

import sendonce
from sendonce.channels import Channels, Delivered, Found, Message, Outcome
from sendonce.cli import main as cli

PAGE = Path(__file__).parents[2] / "docs/about/architecture.md"
BEGIN, END = "<!-- walks -->", "<!-- end of walks -->"
# What this program found at commit 566fc8f: files to follow, files entered.
BEFORE = {
    "publish → Completed": (22, 44),
    "a killed worker's attempt": (20, 37),
    "requeue by filter": (10, 19),
    "a look-up": (26, 47),
}
IDLE_SECONDS = 1.5
DIED = 9
# The calling file and function, and the called ones.
Call: TypeAlias = tuple[str, str, str, str]

PACKAGE = str(Path(sendonce.__file__).parent) + os.sep
SETTINGS = """
[worker]
poll = "50ms"
lease = "1s"
[policy]
first_delay = "10ms"
timeout = "500ms"
doubt_wait = "10ms"
"""


class Walk:
    """Notes which function calls which, on any thread, while it is under way and while nothing is to be done."""

    def __init__(self) -> None:
        self._walked: set[Call] = set()
        self._usual: set[Call] = set()
        self._into: set[Call] | None = None

    @property
    def calls(self) -> set[Call]:
        """The calls because of what was walked, from one file of the package to another."""
        return self._walked - self._usual

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Threads that begin within the block are watched as well."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        self._into = self._walked
        yield
        self._into = None

    @contextlib.contextmanager
    def as_usual(self) -> Iterator[None]:
        """What is done in this block belongs to no walk."""
        self._into = self._usual
        yield
        self._into = None

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        into, code = self._into, frame.f_code
        if into is None or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        if caller is None:
            into.add(("", "", code.co_filename, code.co_qualname))
        elif caller.f_code.co_filename != code.co_filename and caller.f_code.co_name != "<module>":
            into.add((caller.f_code.co_filename, caller.f_code.co_qualname, code.co_filename, code.co_qualname))


class Channel:
    """Delivers; or its first answer is lost; or its process dies in the middle of a send."""

    def __init__(self, *, dies: bool = False) -> None:
        self.dies = dies

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        if self.dies:
            os._exit(DIED)
        return Delivered("n-1")


class Lost(Channel):
    """The first answer is lost; whether it arrived can be asked."""

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        raise ConnectionError("the answer was lost")

    async def look_up(self, message: Message, *, timeout: float) -> Found:
        return Found("n-1")


def channels_of(channel: Channel) -> Channels:
    channels = Channels()
    channels.add(channel, "walk")
    return channels


async def make(folder: Path) -> None:
    migrate: Any = getattr(sendonce, "amigrate", sendonce.migrate)  # the one name it had before
    await migrate(url_in(folder))
    (folder / "walk.toml").write_text(SETTINGS)


def url_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'walk.db'}"


def publish(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "walk.db")) as connection, connection:
        sendonce.Outbox().publish(connection, "order.placed", {"id": 1}, key=os.urandom(4).hex(), to="walk:a")


def has(folder: Path, what: str) -> bool:
    """Whether the database has such a row."""
    with contextlib.closing(sqlite3.connect(folder / "walk.db")) as connection:
        return bool(connection.execute(f"select 1 from {what} limit 1").fetchall())


@contextlib.asynccontextmanager
async def working(folder: Path, channel: Channel) -> AsyncIterator[None]:
    """A worker that runs and has delivered one before."""
    async with sendonce.aembedded_worker(url_in(folder), config=folder / "walk.toml", channels=channels_of(channel)):
        yield


async def until(folder: Path, what: str) -> None:
    for _ in range(2000):
        if has(folder, what):
            return
        await asyncio.sleep(0.01)
    raise TimeoutError(what)


async def publish_to_completed(walk: Walk, folder: Path) -> None:
    """From `Outbox.publish` until the delivery is Completed."""
    await _second_delivery(walk, folder, Channel())


async def look_up(walk: Walk, folder: Path) -> None:
    """From `Outbox.publish`, through a lost answer and the question whether it arrived, until Completed."""
    await _second_delivery(walk, folder, Lost())


async def _second_delivery(walk: Walk, folder: Path, channel: Channel) -> None:
    publish(folder)
    async with working(folder, channel):
        await until(folder, "sendonce_deliveries where status = 'Completed'")
        with walk.as_usual():
            await asyncio.sleep(IDLE_SECONDS)
        with walk.under_way():
            publish(folder)
            await until(folder, "sendonce_deliveries where id = 2 and status = 'Completed'")


async def killed_attempt(walk: Walk, folder: Path) -> None:
    """From the lease of a worker that was killed in mid-send until another one has delivered."""
    publish(folder)
    died = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.docs.walks", "--die-in", str(folder))
    assert await died.wait() == DIED
    async with working(folder, Channel()):
        with walk.under_way():
            await until(folder, "sendonce_deliveries where status = 'Completed'")
        with walk.as_usual():
            await asyncio.sleep(IDLE_SECONDS)


async def die(folder: Path) -> None:
    async with working(folder, Channel(dies=True)):
        await asyncio.sleep(60)


def requeue_by_filter(walk: Walk, folder: Path) -> None:
    """`sendonce dead-letters requeue` with a filter, from the command line until the dead letter is open again."""

    def command(*words: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli([*words, "--database", url_in(folder)]) == 0

    def requeue() -> None:
        act = ("--type", "order.*", "--reason", "a walk", "--operator", "us", "--yes")
        publish(folder)
        command("cancel", *act)
        with watched():
            command("dead-letters", "requeue", "--given-up-as", "cancelled", *act)

    watched: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    requeue()
    with walk.as_usual():
        command("dead-letters", "list")
    watched = walk.under_way
    requeue()
    assert has(folder, "sendonce_dead_letters where closed_as = 'requeued'")


WALKS: dict[str, Callable[[Walk, Path], Coroutine[None, None, None] | None]] = {
    "publish → Completed": publish_to_completed,
    "a killed worker's attempt": killed_attempt,
    "requeue by filter": requeue_by_filter,
    "a look-up": look_up,
}


def files_of(name: str, times: int = 3) -> tuple[list[str], list[str]]:
    """The files to follow on a walk, and all that it enters: what is called every time, on an empty database."""
    calls = set.intersection(*(_calls_of(name) for _ in range(times)))
    followed = {caller for caller, *_ in calls if caller}
    return _named(followed), _named(followed | {called for _, _, called, _ in calls})


def _calls_of(name: str) -> set[Call]:
    with TemporaryDirectory() as place, contextlib.redirect_stderr(io.StringIO()):
        folder, walk = Path(place), Walk()
        asyncio.run(make(folder))
        with walk.watching():
            walked = WALKS[name](walk, folder)
            if walked is not None:
                asyncio.run(walked)
        return walk.calls


def _named(files: set[str]) -> list[str]:
    return sorted(file.removeprefix(PACKAGE) for file in files)


def table() -> str:
    """The walks as the page shows them."""
    lines = ["| walk | before | now | the files to follow now |", "|---|---|---|---|"]
    for name, (followed_before, entered_before) in BEFORE.items():
        followed, entered = files_of(name)
        files = ", ".join(f"`{file}`" for file in followed)
        lines.append(
            f"| {name} | {followed_before} of {entered_before} | {len(followed)} of {len(entered)} | {files} |"
        )
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == ["--die-in"]:
        asyncio.run(die(Path(sys.argv[2])))
    found = table()
    if sys.argv[1:2] == ["--print"]:
        print(found)
        return
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{begin}\n{found}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
