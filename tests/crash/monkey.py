"""The monkey: breaks something at random, mends it, rests, and breaks the next thing. Says what it did."""

import random
import signal
import threading
from collections import Counter
from collections.abc import Callable

from tests.crash.proxy import COMMIT
from tests.crash.stage import LEASE_SECONDS, Stage

MANNERS: tuple[dict[str, object], ...] = (
    {"fail": 0.5},
    {"fail": 1.0},
    {"drop": 0.3},
    {"swallow": 0.3},
    {"late": 0.3, "seconds": 0.8},
    {"late": 0.1, "seconds": 3.0},
    {"swallow": 0.2, "deaf": 0.7},
    {"closed": True},
)


class Monkey:
    """Runs in a thread until it is told to stop; everything is whole again then.

    `mended` is called with the name of a fault when that is over.
    """

    def __init__(self, name: str, seed: int, mended: Callable[[str], None], *, rest: tuple[float, float]) -> None:
        self.done: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._rng = random.Random(f"{seed} {name}")
        self._mended = mended
        self._rest = rest
        self._stop = threading.Event()
        self._tricks: list[tuple[str, int, Callable[[], object]]] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def learn(self, name: str, weight: int, trick: Callable[[], object]) -> None:
        self._tricks.append((name, weight, trick))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when the last fault is mended; what went wrong with it is raised here."""
        self._stop.set()
        self._thread.join(1200)
        assert not self._thread.is_alive(), "the monkey does not come to an end"
        if self.error is not None:
            raise self.error

    def between(self, least: float, most: float) -> None:
        """Wait for some time, or until told to stop."""
        self._stop.wait(self._rng.uniform(least, most))

    def one_of(self, amount: int) -> int:
        return self._rng.randrange(amount)

    def chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _run(self) -> None:
        names = [name for name, _, _ in self._tricks]
        weights = [weight for _, weight, _ in self._tricks]
        tricks = {name: trick for name, _, trick in self._tricks}
        try:
            self.between(*self._rest)
            while not self._stop.is_set():
                [name] = self._rng.choices(names, weights)
                tricks[name]()
                self.done[name] += 1
                self._mended(name)
                self.between(*self._rest)
        except BaseException as error:
            self.error = error


def machine_monkey(stage: Stage, mended: Callable[[str], None], rest: tuple[float, float]) -> Monkey:
    """Breaks processes, the server and connections."""
    monkey = Monkey("machines", stage.seed, mended, rest=rest)

    def kill_worker() -> None:
        which = monkey.one_of(len(stage.workers))
        stage.workers[which].kill()
        if monkey.chance(0.5):
            monkey.between(0.5, LEASE_SECONDS)
        stage.restart_worker(which)

    def kill_all_workers() -> None:
        for worker in stage.workers:
            worker.kill()
        for which in range(len(stage.workers)):
            stage.restart_worker(which)

    def kill_publisher() -> None:
        stage.restart_publisher(monkey.one_of(len(stage.publishers)))

    def freeze() -> None:
        worker = stage.workers[monkey.one_of(len(stage.workers))]
        worker.send(signal.SIGSTOP)
        monkey.between(LEASE_SECONDS + 0.5, LEASE_SECONDS + 4)
        worker.send(signal.SIGCONT)

    monkey.learn("worker killed", 6, kill_worker)
    monkey.learn("all workers killed", 2, kill_all_workers)
    monkey.learn("publisher killed", 4, kill_publisher)
    monkey.learn("worker frozen", 3, freeze)
    if stage.server is not None:
        _teach_network(monkey, stage)
    return monkey


def _teach_network(monkey: Monkey, stage: Stage) -> None:
    """What can be broken only where there is a server."""
    server, proxy = stage.server, stage.proxy
    assert server is not None
    assert proxy is not None

    def stop_server() -> None:
        with stage.halting:
            server.halt("immediate")
            if monkey.chance(0.5):
                monkey.between(0.5, 6)
            server.resume()

    def silence() -> None:
        proxy.silence()
        monkey.between(1, LEASE_SECONDS + 3)
        proxy.speak(forget=monkey.chance(0.5))

    monkey.learn("server stopped", 3, stop_server)
    monkey.learn("connections cut", 3, proxy.cut)
    monkey.learn("connections silent", 2, silence)
    monkey.learn(
        "answers cut", 3, lambda: proxy.cut_answers(1 + monkey.one_of(10), COMMIT if monkey.chance(0.5) else b"")
    )


def receiver_monkey(stage: Stage, mended: Callable[[str], None], rest: tuple[float, float]) -> Monkey:
    """Has the receiver misbehave."""
    monkey = Monkey("receiver", stage.seed, mended, rest=rest)

    def misbehave() -> None:
        stage.recorder.behave(**MANNERS[monkey.one_of(len(MANNERS))])
        monkey.between(1, 6)
        stage.recorder.behave()

    monkey.learn("receiver misbehaved", 1, misbehave)
    return monkey
