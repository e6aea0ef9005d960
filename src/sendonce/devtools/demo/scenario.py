"""What happens, scene by scene: down, slow, killed, asked about, refused, done. Every wait has its limit."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sendonce.devtools.demo import naive
from sendonce.devtools.demo.accounts import Counts, Killed
from sendonce.devtools.demo.observer import Observer
from sendonce.devtools.demo.processes import Child, Family, ReceiverProcess
from sendonce.devtools.demo.screen import Screen, StoryStep, View
from sendonce.devtools.demo.shop import LEASE_SECONDS, POLICY, SLOTS, WAVES, Mood, Shop, Side
from sendonce.errors import SendonceError

# Against hanging alone: it takes less than half a minute, and ten times as long where others keep the machine busy.
LIMIT_SECONDS = 300.0
LOOK_SECONDS = 0.1


class Stage:
    """What the scenes share. `is_up` says whether the receiver lets anybody in."""

    def __init__(
        self, screen: Screen, shop: Shop, observer: Observer, receiver: ReceiverProcess, family: Family
    ) -> None:
        self.shop = shop
        self.observer = observer
        self.receiver = receiver
        self.family = family
        self.is_up = False
        self._screen = screen
        self._story: list[StoryStep] = []
        self._placed = {True: 0, False: 0}
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun

    def tell(self, text: str) -> None:
        """Say what is happening now."""
        step = StoryStep(self.seconds, text)
        self._story.append(step)
        self._screen.tell(step)
        self.look()

    def place(self, orders: Iterable[int], *, pause: float) -> None:
        """Place these orders, one transaction each, with a pause after each."""
        for number in orders:
            self._placed[self.shop.place(number)] += 1
            self.look()
            time.sleep(pause)

    def look(self) -> View:
        """See how everything is, and show it; raises when a process has ended that should not have."""
        self.family.check()
        view = View(
            seconds=self.seconds,
            committed=self._placed[True],
            rolled_back=self._placed[False],
            progress=self.observer.progress(),
            naive=self.shop.naive(),
            is_up=self.is_up,
            tallies=self.receiver.counts(),
            story=tuple(self._story),
        )
        self._screen.show(view)
        return view

    def pause(self, seconds: float) -> None:
        """Let it be seen for a while."""
        self.wait(lambda _: True, otherwise="the machine is too busy", least=seconds)

    def wait(self, is_done: Callable[[View], bool], *, otherwise: str, least: float = 0.0) -> View:
        """Look until it is done, and for at least so many seconds; SendonceError when the whole takes too long."""
        begun = self.seconds
        while True:
            view = self.look()
            if is_done(view) and self.seconds - begun >= least:
                return view
            if self.seconds > LIMIT_SECONDS:
                raise SendonceError(f"the demonstration took too long: {otherwise}")
            time.sleep(LOOK_SECONDS)


# Answers that a sender must have heard before it is killed. The naive one sends, and hears, a batch at a time.
HEARD = {Side.SENDONCE: 10, Side.NAIVE: 1}
NAMES = {Side.SENDONCE: "worker", Side.NAIVE: "naive sender"}


@dataclass(frozen=True, slots=True)
class Senders:
    """Starts the senders: ours is the real worker, as anybody would start it."""

    stage: Stage
    url: str
    path: str
    config: str

    def start(self, side: Side, number: int) -> Child:
        name = f"{NAMES[side]} {number}"
        family = self.stage.family
        if side is Side.NAIVE:
            return family.start(name, naive.__name__, self.path)
        return family.start(
            name, "sendonce", "worker", "--database", self.url, "--config", self.config, "--concurrency", str(SLOTS),
            "--lease", f"{LEASE_SECONDS}s", "--poll", "200ms", "--grace", "3s", "--policy", json.dumps(POLICY),
        )  # fmt: skip


def play(stage: Stage, senders: Senders) -> dict[Side, Killed]:
    """Play it all; what each sender had in flight when it was killed."""
    first = {side: senders.start(side, 1) for side in Side}
    _down(stage)
    _slow(stage)
    killed = _kill(stage, first)
    second = _take_over(stage, senders)
    _refuse(stage)
    _finish(stage, second)
    return killed


def _down(stage: Stage) -> None:
    stage.tell("the receiver is down; 20 orders come in, 2 of them roll back")
    stage.place(WAVES[0], pause=0.08)
    stage.wait(lambda view: view.progress.untried == 0, otherwise="the worker did not try every order")
    stage.tell("still down: sendonce keeps waiting, the naive one has five tries")
    stage.wait(lambda view: view.naive.given_up > 0, otherwise="the naive sender did not try", least=2.0)


def _slow(stage: Stage) -> None:
    stage.receiver.set_mood(Mood.SLOW)
    stage.receiver.open()
    stage.is_up = True
    stage.tell("now up, but slow, with answers lost; 25 more orders, 2 roll back")
    stage.place(WAVES[1], pause=0.02)


def _kill(stage: Stage, senders: dict[Side, Child]) -> dict[Side, Killed]:
    """Kill each sender when the receiver says that enough of its requests are in flight, arrived and not arrived."""
    killed: dict[Side, Killed] = {}

    def in_the_middle(side: Side) -> Callable[[], bool]:
        def ask() -> bool:
            killed[side] = _in_flight(stage.receiver.counts()[side])
            return killed[side].is_in_the_middle

        return ask

    def strike(view: View) -> bool:
        for side, child in list(senders.items()):
            seen = view.tallies[side]
            is_time = seen.heard >= HEARD[side] and _in_flight(seen).is_in_the_middle
            if is_time and child.kill_if(in_the_middle(side)):
                stage.family.bury(senders.pop(side))
                stage.tell(f"{child.name} killed (SIGKILL): {_told(killed[side])}")
        return not senders

    stage.wait(strike, otherwise="a sender never had enough requests in flight to be killed in the middle")
    return killed


def _in_flight(counts: Counts) -> Killed:
    return Killed(counts.in_flight, counts.unanswered)


def _told(killed: Killed) -> str:
    return f"{killed.in_flight} in flight, {killed.arrived} of them had arrived"


def _take_over(stage: Stage, senders: Senders) -> dict[Side, Child]:
    orphans = stage.observer.leased()
    stage.pause(1.0)
    second = {side: senders.start(side, 2) for side in Side}
    stage.tell(f"worker 2 and naive sender 2 start; worker 1's lease ends within {LEASE_SECONDS} s")
    stage.wait(
        lambda _: stage.observer.still_leased(orphans) == 0, otherwise="worker 2 did not take over from worker 1"
    )
    stage.tell(f"{len(orphans)} open sends are in doubt: worker 2 asks about each before it sends")
    stage.pause(1.5)
    return second


def _refuse(stage: Stage) -> None:
    stage.receiver.set_mood(Mood.BUSY)
    stage.tell("quick again, but at times busy (503); 15 more orders, 1 rolls back")
    stage.place(WAVES[2], pause=0.05)
    view = stage.wait(lambda view: view.progress.in_doubt == 0, otherwise="worker 2 left something in doubt")
    ours = view.tallies[Side.SENDONCE]
    stage.tell(f"asked about {len(ours.asked)}: {len(ours.found)} found and not sent again, the others sent")
    stage.wait(lambda view: view.progress.untried == 0, otherwise="worker 2 did not try every order", least=1.0)
    stage.receiver.set_mood(Mood.WELL)
    stage.tell("the receiver is well; two orders it has refused for good (422)")


def _finish(stage: Stage, senders: dict[Side, Child]) -> None:
    stage.wait(
        lambda view: view.progress.unfinished == 0 and view.naive.waiting == 0,
        otherwise="not every delivery was finished",
    )
    for child in senders.values():
        child.terminate()
    codes = {side: stage.family.bury(child) for side, child in senders.items()}
    if codes[Side.SENDONCE] != 0:
        raise SendonceError(f"worker 2 did not stop well when told to: it ended with code {codes[Side.SENDONCE]}")
    stage.tell("every delivery is finished; worker 2 has stopped, as told")
