"""What happens in a run of the simulation, in words of the domain: who sent what and when, and what became of it."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress

from tests.simulation.chaos import play
from tests.simulation.loop import Stuck
from tests.simulation.run import virtual_time
from tests.simulation.scene import SMALL, Scene

BATCH = 20
SEEDS = 2_000
_CHANGES = "select what, id, attempt, was, became, doubt, proven, detail from temp.log order by tick"
_DEAD_LETTERS = "select delivery_id, reason, error_code, closed_as from sendonce_dead_letters order by id"


def digest(batch: int) -> str:
    """One hash for the runs of so many seeds."""
    made = hashlib.sha256()
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        for line in trace(seed):
            made.update(f"{line}\n".encode())
    return made.hexdigest()[:32]


def trace(seed: int) -> list[str]:
    """The same lines for the same seed, whatever the parts of the engine are called."""
    scene = Scene(seed, SMALL)
    with virtual_time(scene):
        with suppress(Stuck):
            scene.loop.run_until_complete(play(scene))
        lines = list(_lines(scene))
        scene.loop.bury()
    scene.database.connection.close()
    return lines


def _lines(scene: Scene) -> Iterator[str]:
    for send in scene.world.sends:
        yield (
            f"{send.at:.6f} {send.process} sends {send.delivery_id}/{send.attempt} {send.intent},"
            f" which has {len(send.effects)} effects"
        )
    for asking in scene.world.askings:
        yield f"asked about {asking.delivery_id}/{asking.attempt}: {asking.answer}"
    for row in scene.database.rows(_CHANGES):
        yield f"{row['what']} {list(row.values())[1:]}"
    for row in scene.database.rows(_DEAD_LETTERS):
        yield f"dead letter {list(row.values())}"
