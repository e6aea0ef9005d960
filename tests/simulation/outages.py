"""How long a receiver that was away waits for its messages when it is back: real workers, in virtual time.

`python -m tests.simulation.outages` measures it and keeps the figures in docs/figures/recovery.json.
"""

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from unittest.mock import patch

from sendonce.domain.policies import Policy
from sendonce.engine.config import WorkerConfig
from sendonce.outbox.entries import Draft
from tests.guarantees.figures import FOLDER, commit, write
from tests.simulation import nodes
from tests.simulation.loop import Process, Strand
from tests.simulation.people import OUTBOX
from tests.simulation.run import virtual_time
from tests.simulation.scene import Profile, Scene
from tests.simulation.world import TOKEN, Weather

# A destination of its own, and a channel whose addresses share one provider.
HOST, CHANNEL = f"{TOKEN}://shop.example/hook", f"{TOKEN}:shop"
BEFORE = 5.0
A_SECOND = 4
# So many have arrived when the flow is back: two seconds' worth.
FLOW = 2 * A_SECOND
OUTAGES = (5.0, 30.0, 120.0)
SEEDS = range(10)


@dataclass(slots=True)
class Seen:
    """What a receiver has seen: when requests came to it, when they were taken, when the share of its answers changed,
    and how many were meant for it."""

    sends: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    published: int = 0

    @property
    def longest_silence(self) -> float:
        return max((after - before for before, after in pairwise(self.sends)), default=0.0)


def recovery(seed: int, outage: float, *, to: str = HOST) -> float:
    """Seconds from the end of an outage until the flow is back."""
    seen = watch(seed, [(BEFORE, 1.0), (outage, 0.0), (15.0 + outage / 2, 1.0)], to=to)
    since = [at - seen.changes[-1] for at in seen.taken if at >= seen.changes[-1]]
    return since[FLOW - 1]


def watch(seed: int, answers: Sequence[tuple[float, float]], *, to: str = HOST, workers: int = 2) -> Seen:
    """Some a second for a receiver that answers, for so many seconds each, such a share of all requests."""
    seconds = sum(each for each, _ in answers)
    scene, seen = Scene(seed, Profile(events=0, seconds=seconds, nodes=workers)), Seen()
    scene.config = WorkerConfig(concurrency=20)
    with virtual_time(scene), patch.object(nodes, "POLICY", Policy()):
        scene.loop.run_until_complete(_play(scene, answers, to, seen))
        assert not scene.broken, scene.broken
        scene.loop.bury()
    scene.database.connection.close()
    seen.sends = [send.at for send in scene.world.sends]
    seen.taken = [send.at for send in scene.world.sends if send.effects]
    return seen


async def _play(scene: Scene, answers: Sequence[tuple[float, float]], to: str, seen: Seen) -> None:
    for _ in range(scene.profile.nodes):
        scene.start_node()
    shop = Process("shop")
    scene.loop.spawn(Strand(shop), _publish(scene, shop, to, seen))
    await asyncio.sleep(scene.dice("phase").random())
    for seconds, share in answers:
        seen.changes.append(scene.loop.time())
        scene.world.weather = Weather(fails=1.0 - share) if to == HOST else Weather(down=1.0 - share)
        await asyncio.sleep(seconds)


async def _publish(scene: Scene, shop: Process, to: str, seen: Seen) -> None:
    store = scene.door(shop)
    while True:
        draft = Draft("memo.created", {}, key=f"k-{seen.published}", to=to)
        await store.transact(lambda own, draft=draft: OUTBOX.publish_many(own, [draft]))
        seen.published += 1
        await asyncio.sleep(1 / A_SECOND)


def main() -> None:
    figures: dict[str, int | float | str | None] = {"commit": commit(), "runs": len(SEEDS)}
    for outage in OUTAGES:
        # A little longer or shorter: it may end just before a probe, or just after one.
        took = [recovery(seed, outage * (0.8 + 0.4 * seed / len(SEEDS))) for seed in SEEDS]
        figures[f"after_{outage:g}_s"] = round(statistics.median(took), 1)
        figures[f"after_{outage:g}_s_longest"] = round(max(took), 1)
        print(f"after {outage:g} s of outage: {statistics.median(took):.1f} s, at most {max(took):.1f} s", flush=True)
    write(FOLDER, "recovery", figures)


if __name__ == "__main__":
    main()
