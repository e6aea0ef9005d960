"""Play one seed from beginning to end, and say what it came to."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from unittest.mock import patch

from sendonce.engine import reconciler
from sendonce.store import leases
from tests.simulation.chaos import play
from tests.simulation.invariants import check
from tests.simulation.loop import Stuck
from tests.simulation.scene import SMALL, Counts, Profile, Scene


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of one run. `violations` are broken promises, each with the name of the rule."""

    seed: int
    violations: list[tuple[str, str]]
    counts: Counts
    figures: dict[str, int] = field(default_factory=dict)


def run(seed: int, profile: Profile = SMALL, note: Callable[[str], None] | None = None) -> Outcome:
    """Play one seed. The same seed is the same run, every time and everywhere."""
    scene = Scene(seed, profile, note)
    with virtual_time(scene):
        try:
            scene.loop.run_until_complete(play(scene))
        except Stuck as error:
            scene.broken.append(str(error))
        violations, figures = check(scene)
        scene.loop.bury()
    scene.database.connection.close()
    return Outcome(seed=seed, violations=violations, counts=scene.counts, figures=figures)


@contextmanager
def virtual_time(scene: Scene) -> Iterator[None]:
    """Whoever asks for the time is told the loop's; callers who record, the database's."""
    was_collecting = gc.isenabled()
    gc.disable()  # what is collected in the middle of a run would end there, and not where its process died
    try:
        with (
            patch.object(time, "monotonic", scene.loop.time),
            patch.object(time, "clock_gettime", lambda _: scene.loop.time()),
            patch.object(time, "time_ns", lambda: scene.database.now() * 1000),
            patch.object(reconciler, "LEASE", timedelta(seconds=4)),
            patch.object(leases, "randbits", Random(scene.seed).getrandbits),
        ):
            yield
    finally:
        if was_collecting:
            gc.enable()
