"""Many seeds, in one process or several; what they came to in one line, and one command for each that failed."""

import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from tests.simulation.run import Outcome, run
from tests.simulation.scene import PROFILES

BATCH = 20


@dataclass(slots=True, kw_only=True)
class Total:
    """Sums over many runs."""

    seeds: int = 0
    took_seconds: float = 0.0
    longest_recovery: float = 0.0
    figures: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome, profile: str) -> None:
        counts = outcome.counts
        self.seeds += 1
        self.longest_recovery = max(self.longest_recovery, counts.recovered_in)
        self.figures.update(outcome.figures)
        for name in ("crashes", "freezes", "stops", "clock_jumps", "memory_losses"):
            self.figures[name] += getattr(counts, name)
        if outcome.violations:
            self.failures.append(failure(outcome, profile))

    def merge(self, other: "Total") -> None:
        self.seeds += other.seeds
        self.longest_recovery = max(self.longest_recovery, other.longest_recovery)
        self.figures.update(other.figures)
        self.failures += other.failures

    def line(self) -> str:
        seconds = self.took_seconds or 1.0
        figures = ", ".join(f"{name} {amount}" for name, amount in sorted(self.figures.items()))
        return (
            f"{self.seeds} seeds in {seconds:.1f} s, {self.figures['crashes'] / seconds:.0f} crashes a second, "
            f"{len(self.failures)} failed, longest recovery {self.longest_recovery:.1f} virtual seconds; {figures}"
        )


def failure(outcome: Outcome, profile: str) -> str:
    """What broke, and the one command that shows how."""
    rule, message = outcome.violations[0]
    more = f" (and {len(outcome.violations) - 1} more)" if len(outcome.violations) > 1 else ""
    option = "" if profile == "small" else f" --profile {profile}"
    return f"{rule}: {message}{more}\n  replay it with: python -m tests.simulation {outcome.seed}{option}"


def play(seeds: Iterable[int], *, profile: str = "small") -> Total:
    """Run these seeds here, one after the other."""
    total, begun = Total(), time.perf_counter()
    for seed in seeds:
        total.add(run(seed, PROFILES[profile]), profile)
    total.took_seconds = time.perf_counter() - begun
    return total


def play_many(first: int, amount: int, *, profile: str = "small", processes: int = 1) -> Total:
    """Run so many seeds, shared between processes."""
    seeds = range(first, first + amount)
    if processes == 1:
        return play(seeds, profile=profile)
    total, begun = Total(), time.perf_counter()
    batches = [seeds[place : place + BATCH] for place in range(0, amount, BATCH)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for part in pool.map(partial(play, profile=profile), batches):
            total.merge(part)
    total.took_seconds = time.perf_counter() - begun
    return total
