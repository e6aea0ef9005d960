"""The stage: orders are placed, everybody is watched, and every wait has its limit."""

import time
from collections.abc import Callable, Iterable

from sendonce.devtools.demo.observer import Observer
from sendonce.devtools.demo.processes import Family
from sendonce.devtools.demo.remote import Receiver
from sendonce.devtools.demo.screen import Screen
from sendonce.devtools.demo.shop import Shop
from sendonce.devtools.demo.view import Step, View
from sendonce.errors import SendonceError

LIMIT_SECONDS = 36.0
LOOK_SECONDS = 0.1


class Stage:
    """What the scenes share. `is_up` says whether the receiver lets anybody in."""

    def __init__(self, screen: Screen, shop: Shop, observer: Observer, receiver: Receiver, family: Family) -> None:
        self.shop = shop
        self.observer = observer
        self.receiver = receiver
        self.family = family
        self.is_up = False
        self._screen = screen
        self._story: list[Step] = []
        self._placed = {True: 0, False: 0}
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun

    def tell(self, text: str) -> None:
        """Say what is happening now."""
        step = Step(self.seconds, text)
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
